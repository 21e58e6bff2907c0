"""Keeps topics: what is assigned to them, and which a user has anchored (§4.3.15, §4.3.16)."""

from kernel.ledger import schema
from kernel.model.envelope import KernelEffect
from kernel.records.field_locks import check_unlocked
from kernel.records.record import Applied, Operation, write_record
from kernel.records.typed import Name, Payload, TypedStore, node_reference, stamp, validate_payload
from kernel.values.errors import EffectInapplicable

TOPIC = "Topic"


class TopicAssignment(Payload):
    """A node under a topic."""

    topic_id: Name
    node_id: Name


ASSIGNMENTS = TypedStore(schema.topic_assignments, TopicAssignment, frozenset({"topic_unassign"}))


def apply_topic_assignment(effect: KernelEffect, operation: Operation) -> Applied:
    """Put a node under a topic, or take it away."""
    if effect.effect_kind not in ASSIGNMENTS.retract_kinds:
        payload = validate_payload(TopicAssignment, effect.payload)
        node_reference(operation, payload.topic_id, "payload.topic_id", TOPIC)
        node_reference(operation, payload.node_id, "payload.node_id", None)
    return ASSIGNMENTS.apply(effect, operation)


def apply_anchor(effect: KernelEffect, operation: Operation) -> Applied:
    """Anchor a topic, or end its anchoring."""
    node_id = effect.target_ref or ""
    node_reference(operation, node_id, "target_ref", TOPIC)
    before = operation.transaction.node(node_id) or {}
    anchor_state = "anchored" if effect.effect_kind == "anchor_node_promotion" else "unanchored"
    if before["payload"].get("anchor_state", "unanchored") == anchor_state:
        raise EffectInapplicable(
            f"{node_id} is {anchor_state}", code="anchor_state_unchanged", field="target_ref"
        )
    check_unlocked(before["payload"], {"anchor_state": anchor_state}, operation)
    record = {
        **before,
        "version": before["version"] + 1,
        "payload": {**before["payload"], "anchor_state": anchor_state},
        **stamp(operation),
    }
    return write_record(operation, schema.nodes, node_id, record)
