"""Describes belief sessions from the record: summaries, one as it stands, its trail."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from kernel.belief.events import BeliefEvent
from kernel.belief.record import read_session, read_survivors
from kernel.ledger.store.tables import SEARCH_ROWS, Row
from kernel.records.access.readable_view import ReadableView
from kernel.values.host import iso_time

SCANNED_MAX = 2000
TIME_DIGITS_MAX = 18


class SessionSummaryDocument(TypedDict):
    """A session as lists show it."""

    session_id: str
    title: str
    n_universe: int
    n_survivors: int
    survivors_shown: list[str]
    n_events: int
    updated_at: str
    terminated: bool
    successor_id: str | None
    """The session that goes on from this one, which is closed."""


class NewestSessionsDocument(TypedDict):
    """A page of sessions, the last changed first."""

    sessions: list[SessionSummaryDocument]
    next_after: str | None
    """Where the next page begins; None after the last. A page may be empty and not the last."""


class TrailDocument(TypedDict):
    """A page of the entries of a session's trail, in order."""

    events: list[dict[str, Any]]
    next_after: int | None
    """The number of entries up to here; None after the last."""


def find_sessions(
    view: ReadableView, words: str | None, *, after: str | None, limit: int
) -> NewestSessionsDocument:
    """Return the sessions with these words in id or title, the last changed first.

    A call looks at `SCANNED_MAX` sessions at most. `after` is a `next_after`; any other text counts
    as none.
    """
    place = _place(after)
    sessions: list[SessionSummaryDocument] = []
    scanned = 0
    is_over = False
    while not is_over:
        rows = view.belief_sessions_before(place, limit=SEARCH_ROWS)
        is_over = len(rows) < SEARCH_ROWS
        for row in rows:
            if len(sessions) == limit or scanned == SCANNED_MAX:
                return {"sessions": sessions, "next_after": _cursor_text(place)}
            scanned += 1
            place = row["updated_at_us"], row["session_id"]
            if (
                words is None
                or words.casefold() in f"{row['session_id']} {row['title']}".casefold()
            ):
                sessions.append(_summary(row))
    return {"sessions": sessions, "next_after": None}


def _place(after: str | None) -> tuple[int, str] | None:
    time_us, _, session_id = (after or "").partition(":")
    is_time = time_us.isascii() and time_us.isdecimal() and len(time_us) < TIME_DIGITS_MAX
    return (int(time_us), session_id) if is_time else None


def _cursor_text(place: tuple[int, str] | None) -> str | None:
    return None if place is None else f"{place[0]}:{place[1]}"


def recorded_snapshot(
    view: ReadableView, session_id: str, survivors_max: int
) -> dict[str, Any] | None:
    """Return where a session stands by its trail, None where there is none.

    Raises:
        LedgerCorrupt: its trail does not end where it is anchored.
    """
    session = read_session(view, session_id)
    return None if session is None else session.belief.snapshot(survivors_max)


def session_summary(view: ReadableView, session_id: str) -> SessionSummaryDocument | None:
    """Return a session as lists show it, None where it declared no hypotheses."""
    row = view.belief_session(session_id)
    return None if row is None else _summary(row)


def session_trail(view: ReadableView, session_id: str, after: int, limit: int) -> TrailDocument:
    """Return entries of a session's trail behind the first `after`."""
    entries = view.belief_events(session_id, first=after, limit=limit + 1)
    return {
        "events": [BeliefEvent.from_bytes(entry).to_dict() for entry in entries[:limit]],
        "next_after": after + limit if len(entries) > limit else None,
    }


def session_state(session: Mapping[str, Any]) -> str:
    """Return in a few words whether a session is open, from a summary or a snapshot of it."""
    if (successor_id := session.get("successor_id")) is not None:
        return f"closed, goes on as {successor_id}"
    return "terminated" if session["terminated"] else "open"


def _summary(row: Row) -> SessionSummaryDocument:
    return {
        "session_id": row["session_id"],
        "title": row["title"],
        "n_universe": row["n_universe"],
        "n_survivors": row["n_survivors"],
        "survivors_shown": read_survivors(row["survivors_shown"]),
        "n_events": row["n_events"],
        "updated_at": iso_time(row["updated_at_us"]),
        "terminated": bool(row["terminated"]),
        "successor_id": row["successor_id"],
    }
