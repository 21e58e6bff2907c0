"""Belief sessions from the record: summaries, one as it stands, its trail."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from kernel.belief.events import BeliefEvent
from kernel.belief_record import read_session, shown_survivors
from kernel.host import iso_time
from kernel.ledger.ledger import LedgerView
from kernel.ledger.tables import Row


class SessionSummaryDocument(TypedDict):
    """A session as lists show it."""

    session_id: str
    title: str
    n_universe: int
    n_survivors: int
    survivors_shown: list[str]
    n_events: int
    updated_at: str


class SessionSummariesDocument(TypedDict):
    """A page of sessions in the order of their ids."""

    sessions: list[SessionSummaryDocument]
    next_after: str | None


class TrailDocument(TypedDict):
    """A page of the entries of a session's trail, in order."""

    events: list[dict[str, Any]]
    next_after: int | None
    """The number of entries up to here; None after the last."""


def newest_sessions(view: LedgerView, limit: int) -> list[SessionSummaryDocument]:
    """Return the sessions that changed last, the newest first."""
    return [_summary(row) for row in view.newest_belief_sessions(limit)]


def sessions_after(view: LedgerView, after: str, limit: int) -> SessionSummariesDocument:
    """Return sessions in the order of their ids."""
    rows: Sequence[Row] = view.belief_sessions_after(after, limit=limit + 1)
    next_after = rows[limit - 1]["session_id"] if len(rows) > limit else None
    return {"sessions": [_summary(row) for row in rows[:limit]], "next_after": next_after}


def recorded_snapshot(
    view: LedgerView, session_id: str, survivors_max: int
) -> dict[str, Any] | None:
    """Return where a session stands by its trail, None where there is none.

    Raises:
        LedgerCorrupt: its trail does not end where it is anchored.
    """
    session = read_session(view, session_id)
    return None if session is None else session.belief.snapshot(survivors_max)


def session_trail(view: LedgerView, session_id: str, after: int, limit: int) -> TrailDocument:
    """Return entries of a session's trail behind the first `after`."""
    entries = view.belief_events(session_id, first=after, limit=limit + 1)
    return {
        "events": [BeliefEvent.from_bytes(entry).to_dict() for entry in entries[:limit]],
        "next_after": after + limit if len(entries) > limit else None,
    }


def _summary(row: Row) -> SessionSummaryDocument:
    return {
        "session_id": row["session_id"],
        "title": row["title"],
        "n_universe": row["n_universe"],
        "n_survivors": row["n_survivors"],
        "survivors_shown": shown_survivors(row["survivors_shown"]),
        "n_events": row["n_events"],
        "updated_at": iso_time(row["updated_at_us"]),
    }
