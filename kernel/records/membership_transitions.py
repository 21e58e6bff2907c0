"""Records transitions of memberships, each with what triggered it, in a row (§4.3.19).

A membership that a policy blocked goes back to the state in which it was blocked, so that blocking
and unblocking confirms nothing.
"""

from typing import Literal

from kernel.algebra.transitions import STEPS_OF_KIND, TRANSITIONS
from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.records.memberships import MERGED_INTO
from kernel.records.record import Applied, Operation, write_record
from kernel.records.typed import Key, Payload, stamp, target_of, validate_payload
from kernel.values.errors import EffectInapplicable

State = Literal["candidate", "confirmed", "rejected", "soft_deleted", "policy_blocked"]

Trigger = Literal[
    "user_confirm_event",
    "user_reject_event",
    "user_delete_event",
    "user_restore_event",
    "user_reverse_rejection_event",
    "policy_change_blocking",
    "policy_change_unblocking",
    "cascade_soft_delete",
    "cascade_restore",
]


class MembershipTransition(Payload):
    """A transition: the states, the corpus and the trigger."""

    corpus_id: Key
    from_state: State
    to_state: State
    triggered_by: Trigger


def apply_membership_transition(effect: KernelEffect, operation: Operation) -> Applied:
    """Move a membership along its state machine."""
    node_id = target_of(effect)
    stated = validate_payload(MembershipTransition, effect.payload)
    key = f"{stated.corpus_id}|{node_id}"
    before = operation.transaction.record(schema.corpus_membership_records, key)
    _check(effect.effect_kind, stated, before)
    version = 1 + (before or {}).get("version", 0)
    record = {
        **(before or {}),
        "state": stated.to_state,
        "transition_kind": stated.triggered_by,
        "version": version,
        **stamp(operation),
    }
    record.pop("blocked_from", None)
    record.pop(MERGED_INTO, None)
    if stated.to_state == "policy_blocked":
        record["blocked_from"] = stated.from_state
    transition = {
        "membership_id": key,
        "version": version,
        "from_state": stated.from_state,
        "to_state": stated.to_state,
        "triggered_by": stated.triggered_by,
        **stamp(operation),
    }
    write_record(operation, schema.membership_state_transitions, f"{key}|{version}", transition)
    body = {"membership_id": key, **stated.model_dump(mode="json")}
    operation.emit(Receipt("membership_state_transition", body))
    return write_record(operation, schema.corpus_membership_records, key, record)


def _check(kind: str, stated: MembershipTransition, before: Document | None) -> None:
    step = (stated.from_state, stated.to_state)
    state = None if before is None else before["state"]
    blocked_from = (before or {}).get("blocked_from")
    unblocks_elsewhere = (
        state == "policy_blocked"
        and stated.triggered_by == "policy_change_unblocking"
        and blocked_from != stated.to_state
    )
    if stated.from_state != state or step not in STEPS_OF_KIND[kind] or unblocks_elsewhere:
        raise EffectInapplicable(
            f"{state} cannot become {stated.to_state} by {kind}",
            code="membership_transition_disallowed",
            field="payload.to_state",
        )
    if stated.triggered_by not in TRANSITIONS[step].triggered_by:
        raise EffectInapplicable(
            f"{stated.triggered_by} does not make {stated.from_state} {stated.to_state}",
            code="membership_trigger_invalid",
            field="payload.triggered_by",
        )
