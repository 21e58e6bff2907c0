"""Takes a belief session up as it stood behind a row of the log, before the next one.

The events of a session do not say which row anchors them. An event was recorded soon after the time
that it states, so its row is looked for from there on; of the events the last one that a row up to
the asked one anchors is found by halving. Then the trail is replayed up to it, from the snapshot
before.
"""

from typing import Final

from kernel.algebra.verbs import BELIEF_ANCHOR
from kernel.audit.operations import first_sequence_from
from kernel.audit.proofs import anchored_sessions
from kernel.belief.anchors import anchor_of
from kernel.belief.events import BeliefEvent
from kernel.belief.record import snapshots_of
from kernel.belief.session import BeliefSession
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.past_rows import StateAsOfUnknown, check_sequence
from kernel.ledger.store.tables import Row, TableQuery
from kernel.values.host import parse_time_us

REPLAYED_MAX: Final = 2_000
"""Events that are replayed, and hypotheses of a universe, beyond which nothing is."""

ANCHORS_READ_MAX: Final = 512
"""Rows that anchor sessions which are read, on each side of where one should be."""

ANCHORS_AT_ONCE: Final = 16
CLOCK_SLACK_US: Final = 60_000_000
"""How far a clock may go back between an event and the row that anchors it."""


def session_as_of(view: LedgerView, session_id: str, sequence: int) -> BeliefSession | None:
    """Return a session as it stood, None where it was not declared then.

    Raises:
        StateAsOfUnknown: the log has no such row; the anchor of an event is not where it should
            be; or the trail is too long to be replayed.
        CorruptBeliefEvent: an event is not what it claims.
    """
    check_sequence(view, sequence)
    n_events = events_as_of(view, session_id, sequence)
    return session_after(view, session_id, n_events) if n_events else None


def session_after(view: LedgerView, session_id: str, n_events: int) -> BeliefSession:
    """Return a session as it stood after so many of its events.

    Raises:
        StateAsOfUnknown: `state_as_of_too_far`.
    """
    summary = view.belief_session(session_id)
    parts = [part for part in snapshots_of(view, session_id) if part.n_events <= n_events]
    covered = parts[-1].n_events if parts else 0
    universe = 0 if summary is None else summary["n_universe"]
    if n_events - covered > REPLAYED_MAX or universe > REPLAYED_MAX:
        message = (
            f"the trail of {ascii(session_id)[:200]} is too long to be replayed here:"
            f" {n_events - covered} entries over {universe} hypotheses"
        )
        raise StateAsOfUnknown(message, code="state_as_of_too_far")
    if not covered:
        return BeliefSession.restore(view.belief_events(session_id, limit=n_events))
    [first] = view.belief_events(session_id, limit=1)
    head, *later = view.belief_events(session_id, first=covered - 1, limit=n_events - covered + 1)
    return BeliefSession.resume(first, parts, head, later)


def events_as_of(view: LedgerView, session_id: str, sequence: int) -> int:
    """Return how many events of a session rows up to one anchor.

    Raises:
        StateAsOfUnknown: `state_as_of_too_far`.
    """
    newest = anchor_of(view, session_id)
    if newest is None:
        return 0
    if newest["ec_sequence_number"] <= sequence:
        return int(newest["n_events"])
    low, high = 0, int(newest["n_events"])
    while low < high:
        middle = (low + high) // 2
        if is_anchored_by(view, session_id, middle, sequence):
            low = middle + 1
        else:
            high = middle
    return low


def is_anchored_by(view: LedgerView, session_id: str, event_index: int, sequence: int) -> bool:
    """Tell whether a row up to one anchors an event of a session.

    Raises:
        StateAsOfUnknown: `state_as_of_too_far`.
    """
    row = view.log_row_at(sequence)
    [content] = view.belief_events(session_id, first=event_index, limit=1)
    time_us = parse_time_us(BeliefEvent.from_bytes(content).ts)
    if row is None or time_us > parse_time_us(row["committed_at"]) + CLOCK_SLACK_US:
        return False
    expected = first_sequence_from(view, time_us)
    behind = _anchors(view, session_id, event_index, expected - 1, descending=False)
    before = _anchors(view, session_id, event_index, expected, descending=True)
    anchored = behind if behind is not None else before
    if anchored is None:
        message = (
            f"the row that anchors entry {event_index} of {ascii(session_id)[:200]} is not among"
            f" those around row {expected}: its trail has it, not when it was recorded"
        )
        raise StateAsOfUnknown(message, code="state_as_of_too_far")
    return anchored <= sequence


def anchor_rows(view: LedgerView, beyond: int, limit: int, *, descending: bool) -> list[Row]:
    """Return rows that anchor sessions, beyond a row in either direction."""
    query = TableQuery(
        schema.kernel_event_log,
        {"semantic_intent": BELIEF_ANCHOR},
        order_by="ec_sequence_number",
        after=beyond,
        descending=descending,
        limit=limit,
    )
    rows: list[Row] = view.tables.scan(query)
    return rows


def _anchors(
    view: LedgerView, session_id: str, event_index: int, beyond: int, *, descending: bool
) -> int | None:
    """Return the sequence of the row that anchors an event, among some rows beyond a place."""
    read = 0
    while read < ANCHORS_READ_MAX:
        rows = anchor_rows(view, beyond, ANCHORS_AT_ONCE, descending=descending)
        for row in rows:
            for session in anchored_sessions(view, row):
                first, last = session["first_event_index"], session["last_event_index"]
                if session["session_id"] == session_id and first <= event_index <= last:
                    return int(row["ec_sequence_number"])
        if len(rows) < ANCHORS_AT_ONCE:
            return None
        read, beyond = read + len(rows), rows[-1]["ec_sequence_number"]
    return None
