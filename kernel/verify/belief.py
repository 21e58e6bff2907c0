"""Belief sessions: replayed from their own chain, and anchored in the kernel's at their end.

The newest anchor of a session names its newest event. So a trail whose end was cut off, or to which
something was added, and which replays as well as a whole one, is found all the same. That the
anchors are those of the log, each going on where the one before ended, is for the fold to find.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.session import BeliefSession
from kernel.belief_record import SURVIVORS_SHOWN_MAX
from kernel.canonical import canonicalize
from kernel.ledger import schema
from kernel.ledger.tables import Row
from kernel.verify.reading import Reader, joined, load_object, shown

EVENTS_PAGE_ROWS = 64


class _TrailBroken(Exception):  # noqa: N818 - the end of a replay, already reported
    """Events are missing, so that what follows cannot be replayed; the finding is noted."""


@dataclass(slots=True)
class BeliefCounts:
    """How much was read."""

    sessions: int = 0
    events: int = 0


def check_belief(reader: Reader, counts: BeliefCounts) -> None:
    """Replay every session and compare its summary and its anchor with what it came to."""
    for summary in reader.pages(schema.belief_sessions):
        counts.sessions += 1
        with reader.findings.guard(schema.belief_sessions, summary["session_id"]):
            _check_session(reader, summary, counts)
    if reader.count(schema.belief_events) != counts.events:
        _name_orphans(reader)
    for anchor in reader.pages(schema.belief_anchors):
        session_id = anchor["session_id"]
        if reader.get(schema.belief_sessions, session_id) is None:
            message = f"row {anchor['ec_sequence_number']} of the log anchors it"
            reader.findings.add(schema.belief_sessions, session_id, "missing", message)


def _check_session(reader: Reader, summary: Row, counts: BeliefCounts) -> None:
    session_id = summary["session_id"]
    try:
        session = BeliefSession.restore(_contents(reader, session_id, counts))
    except _TrailBroken:
        return
    except BeliefError:
        message = "it has no events"
        reader.findings.add(schema.belief_events, joined(session_id, 0), "missing", message)
        return
    except CorruptBeliefEvent as error:
        key = joined(session_id, error.index)
        reader.findings.add(schema.belief_events, key, "replay_differs", error.reason)
        return
    expected = {
        "session_id": session.session_id,
        "n_universe": len(session.universe),
        "n_survivors": session.n_survivors,
        "n_events": session.n_events,
        "head_event_hash": session.head_event_hash,
        "survivors_shown": canonicalize(session.first_survivors(SURVIVORS_SHOWN_MAX)),
    }
    for name, value in expected.items():
        if summary[name] != value:
            message = f"{name} is {shown(summary[name])}, the events give {shown(value)}"
            reader.findings.add(schema.belief_sessions, session_id, "column_differs", message)
    if summary["title"] not in _titles(reader, session_id):
        message = f"title is {shown(summary['title'])}, which the session does not state"
        reader.findings.add(schema.belief_sessions, session_id, "column_differs", message)
    anchor = reader.get(schema.belief_anchors, session_id) or {}
    expected = {"head_event_hash": session.head_event_hash, "n_events": session.n_events}
    for name, value in expected.items():
        if anchor.get(name) != value:
            message = (
                f"the log anchors {name} {shown(anchor.get(name))}, the events give {shown(value)}"
            )
            reader.findings.add(schema.belief_sessions, session_id, "anchor_differs", message)
            return


def _titles(reader: Reader, session_id: str) -> set[str]:
    """What a session may be called: its id, or something that its declaration says of it."""
    first = reader.get(schema.belief_events, session_id, 0)
    declaration = None if first is None else load_object(first["event_bytes"])
    payload = {} if declaration is None else declaration["payload"]
    return {session_id, *(str(value) for value in payload.get("metadata", {}).values())}


def _contents(reader: Reader, session_id: str, counts: BeliefCounts) -> Iterator[bytes]:
    table = schema.belief_events
    where = {"session_id": session_id}
    rows = reader.pages(table, where, page_rows=EVENTS_PAGE_ROWS)
    for expected, row in enumerate(rows):
        if row["event_index"] != expected:
            message = f"no event {expected}"
            reader.findings.add(table, joined(session_id, expected), "gap", message)
            raise _TrailBroken
        counts.events += 1
        document = load_object(row["event_bytes"]) or {}
        for name in ("event_id", "event_hash"):
            if document and document.get(name) != row[name]:
                key = joined(session_id, row["event_index"])
                message = f"{name} is {shown(row[name])}, the bytes say otherwise"
                reader.findings.add(table, key, "column_differs", message)
        yield row["event_bytes"]


def _name_orphans(reader: Reader) -> None:
    for row in reader.pages(schema.belief_events, order_by="session_id"):
        if reader.get(schema.belief_sessions, row["session_id"]) is None:
            key = row["session_id"]
            message = f"event {row['event_index']} is there, its session is not"
            reader.findings.add(schema.belief_sessions, key, "missing", message)
