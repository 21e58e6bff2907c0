"""Describes the record as it stood behind a row of the log: queues, belief sessions, nodes.

Nobody wrote down what only Redis knew, and what workers reported of themselves.
"""

from dataclasses import dataclass
from typing import Any, Final, cast

from kernel.audit.operations import AuditFilter
from kernel.audit.proofs import anchored_sessions
from kernel.audit.requests_asof import QueueAsOf, queues_as_of
from kernel.audit.sessions_asof import (
    anchor_rows,
    is_anchored_by,
    session_after,
    session_as_of,
)
from kernel.belief.events import BeliefEvent
from kernel.belief.session import BeliefSession
from kernel.ledger.past_rows import StateAsOfUnknown, check_sequence
from kernel.records.access.readable_view import ReadableView
from kernel.replay.asof import view_as_of
from workers.views.audit import OperationPageDocument, newest_operations_page
from workers.views.records import NodeDocument
from workers.views.session_lists import (
    NewestSessionsDocument,
    SessionSummaryDocument,
    session_trail,
)

ANCHORS_READ_MAX: Final = 200
"""Rows that anchor sessions which a page of them reads."""

EVENTS_REPLAYED_MAX: Final = 2_000
"""Entries of trails that a page of sessions replays, all together."""

SURVIVORS_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class LogMoment:
    """A row of the log, behind which something is shown as it stood."""

    sequence: int
    committed_at: str | None
    """None before the first row."""

    head: int
    """How many rows the log has now."""


@dataclass(frozen=True, slots=True)
class PastView:
    """The record as it stood."""

    queues: list[QueueAsOf] | StateAsOfUnknown
    sessions: NewestSessionsDocument
    operations: OperationPageDocument


@dataclass(frozen=True, slots=True)
class PastSession:
    """A session as it stood, with the newest entries of its trail then."""

    summary: SessionSummaryDocument
    events: list[dict[str, Any]]
    first: int
    """The number of entries before those that are shown."""


def moment_of_row(view: ReadableView, sequence: int) -> LogMoment:
    """Return a row as a moment.

    Raises:
        StateAsOfUnknown: `state_as_of_ahead`.
    """
    check_sequence(view, sequence)
    row = view.log_row_at(sequence)
    head = view.head().ec_sequence_number
    return LogMoment(sequence, None if row is None else row["committed_at"], head)


def past_view(view: ReadableView, sequence: int, limit: int) -> PastView:
    """Return the record as it stood behind a row, with so many sessions and operations.

    Raises:
        StateAsOfUnknown: `state_as_of_ahead`.
    """
    check_sequence(view, sequence)
    queues: list[QueueAsOf] | StateAsOfUnknown
    try:
        queues = queues_as_of(view, sequence)
    except StateAsOfUnknown as error:
        queues = error
    return PastView(
        queues,
        sessions_as_of(view, sequence, after=None, limit=limit),
        newest_operations_page(view, AuditFilter(), sequence + 1, limit),
    )


def sessions_as_of(
    view: ReadableView, sequence: int, *, after: str | None, limit: int
) -> NewestSessionsDocument:
    """Return sessions as they stood behind a row, the last changed first.

    `after` is a `next_after`. A page reads few rows, so it may be empty and not the last.

    Raises:
        StateAsOfUnknown: `state_as_of_ahead`; or a session cannot be told at a bounded cost.
    """
    check_sequence(view, sequence)
    place = int(after) if after and after.isascii() and after.isdecimal() else sequence + 1
    place = min(place, sequence + 1)
    sessions: list[SessionSummaryDocument] = []
    replayed = 0
    rows = anchor_rows(view, place, ANCHORS_READ_MAX, descending=True)
    for row in rows:
        if len(sessions) >= limit or replayed >= EVENTS_REPLAYED_MAX:
            return {"sessions": sessions, "next_after": str(place)}
        for anchor in anchored_sessions(view, row):
            session_id, n_events = anchor["session_id"], anchor["last_event_index"] + 1
            if _stood_so(view, session_id, n_events, sequence):
                sessions.append(_summary(view, session_id, n_events, row["committed_at"]))
                replayed += n_events
        place = row["ec_sequence_number"]
    is_end = len(rows) < ANCHORS_READ_MAX
    return {"sessions": sessions, "next_after": None if is_end else str(place)}


def session_summary_as_of(
    view: ReadableView, session_id: str, sequence: int
) -> SessionSummaryDocument | None:
    """Return a session as lists show it, as it stood; None where it was not declared then.

    Raises:
        StateAsOfUnknown: see `session_as_of`.
    """
    belief = session_as_of(view, session_id, sequence)
    if belief is None:
        return None
    return _document(view, belief)


def past_session(
    view: ReadableView, session_id: str, sequence: int, limit: int
) -> PastSession | None:
    """Return a session as it stood, with so many entries of its trail; None before its first.

    Raises:
        StateAsOfUnknown: see `session_as_of`.
    """
    summary = session_summary_as_of(view, session_id, sequence)
    if summary is None:
        return None
    first = max(0, summary["n_events"] - limit)
    trail = session_trail(view, session_id, first, summary["n_events"] - first)
    return PastSession(summary, trail["events"], first)


def node_as_of(view: ReadableView, node_id: str, sequence: int) -> NodeDocument | None:
    """Return a node's record as it stood, None where there was none.

    Raises:
        StateAsOfUnknown: `state_as_of_ahead`.
    """
    return cast("NodeDocument | None", view_as_of(view, sequence).node(node_id))


def _stood_so(view: ReadableView, session_id: str, n_events: int, sequence: int) -> bool:
    """Tell whether the next event of a session was recorded behind a row, or there is none."""
    summary = view.belief_session(session_id)
    if summary is None or summary["n_events"] == n_events:
        return summary is not None
    return not is_anchored_by(view, session_id, n_events, sequence)


def _summary(
    view: ReadableView, session_id: str, n_events: int, changed_at: str
) -> SessionSummaryDocument:
    return _document(view, session_after(view, session_id, n_events), changed_at)


def _document(
    view: ReadableView, belief: BeliefSession, changed_at: str | None = None
) -> SessionSummaryDocument:
    summary = view.belief_session(belief.session_id)
    [last] = view.belief_events(belief.session_id, first=belief.n_events - 1, limit=1)
    return {
        "session_id": belief.session_id,
        "title": "" if summary is None else summary["title"],
        "n_universe": len(belief.universe),
        "n_survivors": belief.n_survivors,
        "survivors_shown": belief.first_survivors(SURVIVORS_SHOWN),
        "n_events": belief.n_events,
        "updated_at": changed_at or BeliefEvent.from_bytes(last).ts,
        "terminated": belief.terminated,
        "successor_id": belief.successor_id,
    }
