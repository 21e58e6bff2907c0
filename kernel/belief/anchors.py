"""Reads operations of the log that name how far the chains of belief sessions go (B6).

One operation names every session that a transaction has written to: which events were added, what
they follow and where the chain ends with them. An anchor that does not go on exactly where the
session's last one ended is not applied. The newest anchor of each session is folded into a table
(decision kernel/0004).

The anchor of a user's session states the priority `user_active_session`: it is no background work,
so the emergency throttle does not stop eliminations.
"""

from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from kernel.algebra.verbs import BELIEF_ANCHOR
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.model.envelope import Envelope
from kernel.model.receipt import sole_receipt
from kernel.model.stated_receipts import BeliefAnchor
from kernel.records.operation_steps import AppliedOperation, Steps
from kernel.values.canonical import GENESIS_HASH
from kernel.values.errors import EffectInapplicable

ANCHOR_RECEIPT = "belief_sessions_anchored"
SESSION_IDS_BYTES_MAX = 128 * 1024
"""The most bytes that the ids of one anchor have together, so that it fits into an envelope."""


def anchor_of(view: LedgerView, session_id: str) -> Row | None:
    """Return where a session's newest anchor says that its chain ends, None before the first."""
    return view.tables.get(schema.belief_anchors, session_id)


def follows(anchor: Row | None, first_event_index: int, prior_head_event_hash: str) -> bool:
    """Tell whether events go on exactly where an anchor ended."""
    if anchor is None:
        return first_event_index == 0 and prior_head_event_hash == GENESIS_HASH
    return bool(
        first_event_index == anchor["n_events"]
        and prior_head_event_hash == anchor["head_event_hash"]
    )


def is_in_log(view: LedgerView, anchor: Row) -> bool:
    """Tell whether the log has the anchor where its row says; not where it was erased."""
    row = view.tables.get(schema.kernel_event_log, anchor["ec_sequence_number"])
    if row is None or row["semantic_intent"] != BELIEF_ANCHOR:
        return False
    content = view.blob(row["envelope_payload_blob_ref"])
    if content is None:
        return True
    try:
        entries = _anchor_in(Envelope.model_validate_json(content)).sessions
    except (ValidationError, EffectInapplicable):
        return False
    of_session = [entry for entry in entries if entry.session_id == anchor["session_id"]]
    return [(entry.last_event_index + 1, entry.head_event_hash) for entry in of_session] == [
        (anchor["n_events"], anchor["head_event_hash"])
    ]


def record_anchors(operation: AppliedOperation) -> None:
    """Record the anchors that an operation states as the newest of their sessions.

    Raises:
        EffectInapplicable: `belief_anchor_invalid`; `belief_anchor_does_not_follow` where one does
            not go on where the session's last one ended.
    """
    transaction = operation.transaction
    for session in _anchor_in(operation.envelope).sessions:
        anchor = anchor_of(transaction, session.session_id)
        goes_on = follows(anchor, session.first_event_index, session.prior_head_event_hash)
        if not goes_on or session.last_event_index < session.first_event_index:
            raise EffectInapplicable(
                f"the anchor of {session.session_id} does not go on where its last one ended",
                code="belief_anchor_does_not_follow",
                field="primitive_effects.0.payload.sessions",
            )
        row: dict[str, Any] = {
            "session_id": session.session_id,
            "n_events": session.last_event_index + 1,
            "head_event_hash": session.head_event_hash,
            "ec_sequence_number": operation.sequence,
            "anchored_at_us": transaction.head_now.committed_at_us,
        }
        transaction.tables.put(schema.belief_anchors, row)


def _anchor_in(envelope: Envelope) -> BeliefAnchor:
    try:
        return sole_receipt(envelope, ANCHOR_RECEIPT, BeliefAnchor)
    except ValueError as error:
        raise _invalid(str(error)) from None


def _invalid(message: str) -> EffectInapplicable:
    return EffectInapplicable(
        message, code="belief_anchor_invalid", field="primitive_effects.0.payload"
    )


VERB_STEPS = MappingProxyType({BELIEF_ANCHOR: Steps(after=record_anchors)})
