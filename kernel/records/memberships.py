"""Keeps memberships of nodes in corpora, a state machine as a table (§4.3.3).

A transition that the table does not hold is disallowed; `None` is the state of a membership that
never was.

A membership may say of another one of its corpus that it was merged into it, which rejects it, or
that it was split from it, which makes it a candidate beside it (§14.4). The other one stands then.
"""

from kernel.algebra.verbs import MEMBERSHIP_DEFER
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import KernelEffect
from kernel.records.comparison import Comparison
from kernel.records.record import Applied, Operation, write_record
from kernel.values.errors import EffectInapplicable

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

DEFERRING: frozenset[tuple[str | None, str]] = frozenset({("candidate", "candidate")})
"""What a review that puts a membership off does, and nothing else."""

_LATER = frozenset(state for _, state in TRANSITIONS) - {"candidate"}
"""The states of a membership that was a candidate before."""

MERGED_INTO, SPLIT_FROM = "merged_into", "split_from"

OTHER_MAY_BE = {
    MERGED_INTO: ("rejected", frozenset({"candidate", "confirmed"})),
    SPLIT_FROM: ("candidate", frozenset({"candidate"})),
}
"""By the field that names another membership: the state that is written, and those of the other."""


def _state_of_effect(kind: str, payload: Document) -> Document:
    revoked = kind == "membership_revoke"
    return {"to_state": "rejected" if revoked else payload.get("to_state", "candidate")}


COMPARISON = Comparison(
    _state_of_effect,
    lambda record: {"to_state": record["state"]},
    key=lambda target, payload: f"{payload.get('corpus_id')}|{target}",
    has_seen=lambda payload, record: payload.get("from_state") == record["state"],
)


def membership_id(corpus_id: str, node_id: str) -> str:
    """Return the id of a node's membership in a corpus, whose id has no bar."""
    return f"{corpus_id}|{node_id}"


def membership_of(view: LedgerView, membership: str) -> Document | None:
    """Return a membership as it stands, None where there never was one."""
    return view.record(schema.corpus_membership_records, membership)


def apply_membership_write(effect: KernelEffect, operation: Operation) -> Applied:
    """Move a node's membership in a corpus from one state to the next."""
    corpus_id, node_id = effect.payload.get("corpus_id"), effect.target_ref
    if not isinstance(corpus_id, str) or "|" in corpus_id or node_id is None:
        raise EffectInapplicable(
            "a membership names its corpus, without a bar, and its node",
            code="membership_incomplete",
            field="payload.corpus_id",
        )
    key = membership_id(corpus_id, node_id)
    before = membership_of(operation.transaction, key)
    from_state = None if before is None else before["state"]
    to_state = (
        "rejected"
        if effect.effect_kind == "membership_revoke"
        else effect.payload.get("to_state", "candidate")
    )
    is_deferred = operation.semantic_intent == MEMBERSHIP_DEFER
    if before is None and (is_deferred or (isinstance(to_state, str) and to_state in _LATER)):
        raise EffectInapplicable(
            f"no membership {key}", code="record_not_found", field="target_ref"
        )
    stated = effect.payload.get("from_state", from_state)
    transitions = DEFERRING if is_deferred else TRANSITIONS
    allowed = isinstance(to_state, str) and (from_state, to_state) in transitions
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
        **_origin(before),
    }
    for name in OTHER_MAY_BE:
        if name in effect.payload:
            record[name] = _other(name, effect.payload, record, operation)
    return write_record(operation, schema.corpus_membership_records, key, record)


def _origin(before: Document | None) -> Document:
    """Return from what a membership was split, which it keeps in every state."""
    return {} if before is None or SPLIT_FROM not in before else {SPLIT_FROM: before[SPLIT_FROM]}


def _other(name: str, payload: Document, record: Document, operation: Operation) -> str:
    """Return the membership that another one names, which stands and is not itself."""
    other, (to_state, states) = payload[name], OTHER_MAY_BE[name]
    own = membership_id(record["corpus_id"], record["node_id"])
    of_corpus = isinstance(other, str) and other.startswith(f"{record['corpus_id']}|")
    if not of_corpus or other == own or record["state"] != to_state:
        raise EffectInapplicable(
            f"{name} names another membership of the corpus, in what becomes {to_state}",
            code="membership_reference_invalid",
            field=f"payload.{name}",
        )
    stands = membership_of(operation.transaction, other)
    if stands is None or stands["state"] not in states:
        raise EffectInapplicable(
            f"{other} is {'no membership' if stands is None else stands['state']}",
            code="record_reference_missing",
            field=f"payload.{name}",
        )
    return str(other)
