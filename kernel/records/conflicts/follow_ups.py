"""Makes the kernel's own operations after a conflict: a merge, or edges that say "contradicts".

Each is an ordinary envelope with a log row of its own. Its id is derived from the submitted
operation's, so the same conflict cannot be recorded twice. An edge names operations and fields,
never values: an edge has no visibility class that would protect them.
"""

from itertools import groupby
from typing import Any

from kernel.algebra.effects import EFFECT_KINDS, expected_reversibility
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.model.envelope import MAX_CAUSAL_PARENTS, MAX_EFFECTS, Envelope
from kernel.records.conflicts.resolution import Conflict, is_node
from kernel.records.conflicts.writes import Write
from kernel.records.sources import state_taint
from kernel.values.canonical import digest
from kernel.values.host import iso_time
from kernel.values.idempotency_keys import runtime_key
from kernel.values.visibility import VISIBILITY_CLASSES, max_visibility_class

MERGED_VALUES_MAX = 64
"""Values of one field that a merge keeps side by side; one more is for a person to settle."""

_NOT_MERGED = ("identity_key", "state", "field_lock")


def merge_operation_id(envelope: Envelope) -> str:
    """Return the id of the operation that merges an envelope."""
    return f"merge:{digest([envelope.operation_id, 'merge'])}"


def merge_envelope(
    transaction: LedgerTransaction, envelope: Envelope, conflicts: list[Conflict]
) -> Document:
    """Return the envelope that keeps both values, each with the operation that wrote it.

    Fields without a conflict are taken over; the envelope's edges and memberships are not.
    """
    effects = []
    for of_record in _by_record(conflicts):
        conflict = of_record[0]
        fields = _merge_fields(envelope, of_record)
        if is_node(conflict):
            effects.append(_effect("node_write", conflict.existing.record_key, fields, conflict))
        else:
            payload = {"edge_metadata": fields}
            effects.append(
                _effect("edge_reclassify", conflict.existing.record_key, payload, conflict)
            )
    verb = "annotate" if is_node(conflicts[0]) else "document_relationship_update"
    document = _envelope(transaction, envelope, conflicts, effects)
    return document | {
        "operation_id": merge_operation_id(envelope),
        "idempotency_key": runtime_key("conflict_merge", envelope.operation_id),
        "operation_kind": verb,
        "semantic_intent": verb,
        "merged_operation_id": envelope.operation_id,
    }


def is_mergeable(conflicts: list[Conflict]) -> bool:
    """Tell whether one operation can merge the conflicts, with no field of too many values."""
    full = any(
        len(conflict.existing.payload.get("merge_provenance", {}).get(conflict.field, ()))
        >= MERGED_VALUES_MAX
        for conflict in conflicts
    )
    return not full and len({is_node(conflict) for conflict in conflicts}) == 1


def contradiction_envelope(
    transaction: LedgerTransaction, envelope: Envelope, conflicts: list[Conflict]
) -> Document:
    """Return the envelope of the edges between what contradicts each other."""
    effects = []
    for of_record in _by_record(conflicts)[:MAX_EFFECTS]:
        conflict = of_record[0]
        source, target = _ends(conflict)
        name = digest([envelope.operation_id, conflict.write.record_key, target])
        payload = {
            "source_node_id": source,
            "target_node_id": target,
            "edge_type": "contradicts",
            "edge_metadata": {
                "conflicts": [conflict.document() for conflict in of_record],
                "operation_id": envelope.operation_id,
            },
        }
        effects.append(_effect("edge_create", f"contradicts:{name}", payload, None))
    operation_id = f"contradiction:{digest([envelope.operation_id, 'contradiction'])}"
    document = _envelope(transaction, envelope, conflicts, effects)
    parents = document["causal_parent_operation_ids"][: MAX_CAUSAL_PARENTS - 1]
    return document | {
        "operation_id": operation_id,
        "idempotency_key": runtime_key("conflict_contradiction", envelope.operation_id),
        "operation_kind": "document_relationship_create",
        "semantic_intent": "document_relationship_create",
        "causal_parent_operation_ids": [*parents, envelope.operation_id],
    }


def _by_record(conflicts: list[Conflict]) -> list[list[Conflict]]:
    """Group the conflicts by pair of records; those of one pair stand next to each other."""
    pairs = groupby(
        conflicts, lambda conflict: (conflict.write.record_key, conflict.existing.record_key)
    )
    return [list(group) for _, group in pairs]


def _merge_fields(envelope: Envelope, conflicts: list[Conflict]) -> Document:
    write, existing = conflicts[0].write, conflicts[0].existing
    differing = {conflict.field for conflict in conflicts}
    left_out = {*differing, *_NOT_MERGED, "source_node_id", "target_node_id", "edge_type"}
    stated = write.fields if is_node(conflicts[0]) else _metadata_of(write)
    fields = {name: value for name, value in stated.items() if name not in left_out}
    provenance = dict(existing.payload.get("merge_provenance", {}))
    for conflict in conflicts:
        first = {
            "value": existing.payload.get(conflict.field),
            "operation_id": conflict.document()["existing_operation_id"],
        }
        second = {"value": write.fields.get(conflict.field), "operation_id": envelope.operation_id}
        provenance[conflict.field] = [*provenance.get(conflict.field, [first]), second]
    fields["merge_provenance"] = provenance
    if is_node(conflicts[0]):
        before = str(existing.record["visibility_class"])
        visibility = _visibility(envelope, write, before)
        if visibility != before:
            fields["visibility_class"] = visibility
    return fields


def _metadata_of(write: Write) -> Document:
    ends = ("source_node_id", "target_node_id", "edge_type")
    return {name: value for name, value in write.fields.items() if name not in ends}


def _visibility(envelope: Envelope, write: Write, before: str) -> str:
    """A merged value keeps the protection under which it was submitted."""
    stated = (write.visibility_class, envelope.resolved_output_visibility_class)
    return max_visibility_class(
        (
            before,
            *(
                visibility_class
                for visibility_class in stated
                if visibility_class in VISIBILITY_CLASSES
            ),
        )
    )


def _ends(conflict: Conflict) -> tuple[str, str]:
    if is_node(conflict):
        return conflict.write.record_key, conflict.existing.record_key
    before = conflict.existing.record["target_node_id"]
    return str(conflict.write.fields.get("target_node_id", before)), str(before)


def _effect(kind: str, target: str, payload: Document, conflict: Conflict | None) -> Document:
    node_kind = None if conflict is None else conflict.existing.node_kind
    reversibility = expected_reversibility(kind, node_kind)
    document: dict[str, Any] = {
        "effect_id": f"{kind}:{target}",
        "effect_kind": kind,
        "reversibility": reversibility,
        "target_ref": target,
        "payload": payload,
        "schema_version": 1,
    }
    if reversibility == "fully_reversible":
        document["inverse_operation_kind"] = EFFECT_KINDS[kind].inverses[0]
    else:
        document["external_effect_descriptor"] = f"merge into {target}"
    return document


def _envelope(
    transaction: LedgerTransaction,
    envelope: Envelope,
    conflicts: list[Conflict],
    effects: list[Document],
) -> Document:
    """Return the envelope of a follow-up; the caller gives its name and its verb."""
    nodes = [
        node_id
        for effect in effects
        for node_id in (
            effect["payload"].get("source_node_id"),
            effect["payload"].get("target_node_id"),
            effect["target_ref"] if effect["effect_kind"] == "node_write" else None,
        )
        if node_id is not None
    ]
    written = [effect["target_ref"] for effect in effects]
    parents = [name for conflict in conflicts for name in reversed(conflict.existing.operation_ids)]
    document = {
        "envelope_version": "1.6",
        "primitive_effects": effects,
        "causal_parent_operation_ids": list(dict.fromkeys(parents))[-MAX_CAUSAL_PARENTS:],
        "actor": "system",
        "source_refs": [],
        "target_refs": written[:1],
        "policy_generation_id": transaction.policy_generation_id(),
        "affected_subgraph_descriptor": {
            "scope_kind": "node_with_neighbors",
            "affected_node_refs": list(dict.fromkeys(nodes)),
            "affected_edge_refs": [
                effect["target_ref"] for effect in effects if effect["effect_kind"] != "node_write"
            ],
            "visibility_class_envelope": [],
            "estimated_cascade_depth": 1,
            "schema_version": 1,
        },
        "read_set_refs": list(dict.fromkeys(nodes)),
        "write_set_refs": written,
        "recorded_at": iso_time(transaction.head_now.committed_at_us),
        "schema_version": 1,
    }
    if envelope.session_id is not None:
        document["session_id"] = envelope.session_id
    state_taint(transaction, document)
    resolved = document.get("resolved_output_visibility_class")
    for effect in effects:
        if resolved is not None and effect["effect_kind"] == "node_write":
            effect["payload"]["visibility_class"] = resolved
    return document
