"""Derives a log row from its envelope, for whoever holds the two together (§17.4, K20)."""

from kernel.ledger.ledger import Document
from kernel.model.lite import LITE_INTENT, LITE_VERSION

_FROM_ENVELOPE = (
    "operation_id",
    "semantic_intent",
    "operation_kind",
    "actor",
    "idempotency_key",
    "causal_parent_operation_ids",
    "recorded_at",
)


def row_of_envelope(envelope: Document) -> Document:
    """Return the fields of a row that follow from its envelope.

    A lite envelope may lack fields that its row has, and does nothing (§2.8).
    """
    if envelope.get("envelope_version") == LITE_VERSION:
        parents = envelope.get("causal_parent_operation_ids") or []
        does_nothing = {"semantic_intent": LITE_INTENT, "causal_parent_operation_ids": parents}
        absent_fields = ("affected_subgraph_descriptor", "epoch_id", "supersedes")
        envelope = envelope | does_nothing | dict.fromkeys(absent_fields)
    scope = envelope.get("affected_subgraph_descriptor") or {}
    fields: Document = {name: envelope.get(name) for name in _FROM_ENVELOPE}
    fields["schema_version"] = 1
    fields["affected_subgraph_descriptor_summary"] = {
        "scope_kind": scope.get("scope_kind", ""),
        "affected_node_count": len(scope.get("affected_node_refs", ())),
    }
    if envelope.get("session_id") is not None:
        fields["session_id"] = envelope["session_id"]
    if envelope.get("epoch_id") is not None:
        fields["commit_epoch_id"] = envelope["epoch_id"]
    if envelope.get("supersedes") is not None:
        fields["supersedes"] = envelope["supersedes"]
    return fields
