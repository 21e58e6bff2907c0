"""Memberships of nodes in corpora, a state machine as a table (§4.3.3).

What the table does not hold is disallowed; `None` is the state of a membership that never was.
"""

from kernel.errors import EffectInapplicable
from kernel.ledger import schema
from kernel.model.envelope import KernelEffect
from kernel.stores.record import Applied, Operation, write_record

TRANSITIONS: frozenset[tuple[str | None, str]] = frozenset(
    {
        (None, "candidate"),
        ("candidate", "confirmed"),
        ("candidate", "rejected"),
        ("confirmed", "rejected"),
        ("confirmed", "soft_deleted"),
        ("rejected", "candidate"),
        ("soft_deleted", "confirmed"),
    }
)


def apply_membership_write(effect: KernelEffect, operation: Operation) -> Applied:
    """Move a node's membership in a corpus from one state to the next."""
    corpus_id, node_id = effect.payload.get("corpus_id"), effect.target_ref
    if not isinstance(corpus_id, str) or "|" in corpus_id or node_id is None:
        raise EffectInapplicable(
            "a membership names its corpus, without a bar, and its node",
            code="membership_incomplete",
            field="payload.corpus_id",
        )
    key = f"{corpus_id}|{node_id}"
    before = operation.transaction.record(schema.corpus_membership_records, key)
    from_state = None if before is None else before["state"]
    to_state = (
        "rejected"
        if effect.effect_kind == "membership_revoke"
        else effect.payload.get("to_state", "candidate")
    )
    stated = effect.payload.get("from_state", from_state)
    allowed = isinstance(to_state, str) and (from_state, to_state) in TRANSITIONS
    if not allowed or stated != from_state:
        raise EffectInapplicable(
            f"{from_state} cannot become {to_state}",
            code="membership_transition_disallowed",
            field="payload.to_state",
        )
    record = {
        "corpus_id": corpus_id,
        "node_id": node_id,
        "state": to_state,
        "transition_kind": effect.payload.get("transition_kind", operation.semantic_intent),
        "version": 1 if before is None else before["version"] + 1,
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }
    return write_record(operation, schema.corpus_membership_records, key, record)
