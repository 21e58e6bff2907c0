"""Verifies belief sessions: replayed from their chain, and anchored in the kernel's at the end.

The newest anchor of a session names its newest event. So a trail whose end was cut off, or to which
something was added, and which replays as well as a whole one, is found all the same. That the
anchors are those of the log, each going on where the one before ended, is for the fold to find.

A session that was succeeded and its successor name each other: the successor begins with what its
predecessor's last event declares and carries over, and with nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from sqlalchemy import Table

from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.record import SURVIVORS_SHOWN_MAX
from kernel.belief.session import BeliefSession
from kernel.belief.session_snapshot import SessionSnapshot
from kernel.belief.succession import declare_successor
from kernel.ledger import schema
from kernel.ledger.store.tables import LARGE_ROWS, Row
from kernel.values.canonical import canonicalize
from kernel.verify.reading import Reader, join_key, load_object, printable


class _TrailBroken(Exception):
    """Events are missing, so that later ones cannot be replayed; the finding is noted."""


@dataclass(slots=True)
class BeliefCounts:
    """How many sessions and events were read."""

    sessions: int = 0
    events: int = 0
    snapshots: int = 0


def check_belief(reader: Reader, counts: BeliefCounts) -> None:
    """Replay every session and compare its summary and its anchor with what it came to."""
    for summary in reader.pages(schema.belief_sessions):
        counts.sessions += 1
        with reader.findings.guard(schema.belief_sessions, summary["session_id"]):
            _check_session(reader, summary, counts)
    if reader.count(schema.belief_events) != counts.events:
        _name_orphans(reader, schema.belief_events, "event_index")
    if reader.count(schema.belief_snapshots) != counts.snapshots:
        _name_orphans(reader, schema.belief_snapshots, "n_events")
    for anchor in reader.pages(schema.belief_anchors):
        session_id = anchor["session_id"]
        if reader.get(schema.belief_sessions, session_id) is None:
            message = f"row {anchor['ec_sequence_number']} of the log anchors it"
            reader.findings.add(schema.belief_sessions, session_id, "missing", message)


def _check_session(reader: Reader, summary: Row, counts: BeliefCounts) -> None:
    session_id = summary["session_id"]
    try:
        snapshots = _Snapshots(reader, session_id, counts)
        events = _contents(reader, session_id, counts)
        session = BeliefSession.restore(events, observe=snapshots.compare)
        snapshots.finish()
    except _TrailBroken:
        return
    except BeliefError:
        message = "it has no events"
        reader.findings.add(schema.belief_events, join_key(session_id, 0), "missing", message)
        return
    except CorruptBeliefEvent as error:
        key = join_key(session_id, error.index)
        reader.findings.add(schema.belief_events, key, "replay_differs", error.reason)
        return
    _check_succession(reader, session)
    expected = {
        "session_id": session.session_id,
        "n_universe": len(session.universe),
        "n_survivors": session.n_survivors,
        "n_events": session.n_events,
        "head_event_hash": session.head_event_hash,
        "survivors_shown": canonicalize(session.first_survivors(SURVIVORS_SHOWN_MAX)),
        "terminated": int(session.terminated),
        "successor_id": session.successor_id,
    }
    for name, value in expected.items():
        if summary[name] != value:
            message = f"{name} is {printable(summary[name])}, the events give {printable(value)}"
            reader.findings.add(schema.belief_sessions, session_id, "column_differs", message)
    if summary["title"] not in _titles(reader, session_id):
        message = f"title is {printable(summary['title'])}, which the session does not state"
        reader.findings.add(schema.belief_sessions, session_id, "column_differs", message)
    anchor = reader.get(schema.belief_anchors, session_id) or {}
    is_newest = anchor.get("n_events") == session.n_events
    if is_newest and summary["updated_at_us"] > anchor["anchored_at_us"]:
        message = "updated_at_us is after the newest anchor, which is recorded with it or behind it"
        reader.findings.add(schema.belief_sessions, session_id, "column_differs", message)
    expected = {"head_event_hash": session.head_event_hash, "n_events": session.n_events}
    for name, value in expected.items():
        if anchor.get(name) != value:
            anchored, summed = printable(anchor.get(name)), printable(value)
            message = f"the log anchors {name} {anchored}, the events give {summed}"
            reader.findings.add(schema.belief_sessions, session_id, "anchor_differs", message)
            return


def _check_succession(reader: Reader, session: BeliefSession) -> None:
    for other, is_linked in (
        (session.successor_id, _successor_begins),
        (None if session.succeeds is None else session.succeeds.session_id, _predecessor_ends),
    ):
        if other is not None and not is_linked(reader, session):
            message = f"{printable(other)} does not name it, or does not hold what was carried over"
            reader.findings.add(schema.belief_sessions, session.session_id, "link_broken", message)


def _successor_begins(reader: Reader, session: BeliefSession) -> bool:
    """Tell whether the successor of a session begins as the session's last event says."""
    closing = session.audit()[-1]
    ids = (str(number) for number in count())
    _, expected = declare_successor(session, closing, lambda: next(ids))
    stored = [
        load_object((_event(reader, session.successor_id, index) or {}).get("event_bytes"))
        for index in range(len(expected))
    ]
    return all(
        document is not None
        and all(document.get(name) == getattr(event, name) for name in _REPEATED)
        for document, event in zip(stored, expected, strict=True)
    )


def _predecessor_ends(reader: Reader, session: BeliefSession) -> bool:
    """Tell whether the predecessor of a session ends with the event that declares the session."""
    link = session.succeeds
    if link is None:
        return True
    summary = reader.get(schema.belief_sessions, link.session_id) or {"n_events": 0}
    event = _event(reader, link.session_id, summary["n_events"] - 1) or {}
    document = load_object(event.get("event_bytes")) or {}
    payload = document.get("payload")
    names = payload.get("successor_id") if isinstance(payload, dict) else None
    hashed = (event.get("event_id"), event.get("event_hash"))
    return hashed == (link.event_id, link.event_hash) and names == session.session_id


def _event(reader: Reader, session_id: str | None, index: int) -> Row | None:
    return reader.get(schema.belief_events, session_id, index)


_REPEATED = ("verb", "ts", "payload", "delta")
"""The fields of a successor's first events that its predecessor determines."""


class _Snapshots:
    """The snapshots of a session, held against it as it is replayed; one may be gone."""

    def __init__(self, reader: Reader, session_id: str, counts: BeliefCounts) -> None:
        self._reader = reader
        self._session_id = session_id
        where = {"session_id": session_id}
        self._rows = reader.pages(schema.belief_snapshots, where, page_rows=1)
        self._counts = counts
        self._next: Row | None = None
        self._advance()

    def _advance(self) -> None:
        self._next = next(self._rows, None)
        self._counts.snapshots += self._next is not None

    def compare(self, session: BeliefSession) -> None:
        """Compare the snapshot of this moment, if there is one."""
        row = self._next
        if row is None or row["n_events"] != session.n_events:
            return
        self._advance()
        with self._reader.findings.guard(schema.belief_snapshots, self._key(row)):
            stored = SessionSnapshot.from_bytes(row["snapshot_bytes"])
            # Where the one before is gone, this one still says how far that one went.
            expected = session.take_snapshot(min(max(stored.since, 0), session.n_events))
            if not stored.says_what(expected):
                self._differs(row, "the events come to something else")

    def finish(self) -> None:
        """Report the snapshots that belong to no event of the session."""
        while self._next is not None:
            self._differs(self._next, "the session was never of that length")
            self._advance()

    def _key(self, row: Row) -> str:
        return join_key(self._session_id, row["n_events"])

    def _differs(self, row: Row, message: str) -> None:
        findings = self._reader.findings
        findings.add(schema.belief_snapshots, self._key(row), "replay_differs", message)


def _titles(reader: Reader, session_id: str) -> set[str]:
    """Return the titles that a session may have: its id, or a text of its declaration."""
    first = reader.get(schema.belief_events, session_id, 0)
    declaration = None if first is None else load_object(first["event_bytes"])
    payload = {} if declaration is None else declaration["payload"]
    return {session_id, *(str(value) for value in payload.get("metadata", {}).values())}


def _contents(reader: Reader, session_id: str, counts: BeliefCounts) -> Iterator[bytes]:
    table = schema.belief_events
    where = {"session_id": session_id}
    rows = reader.pages(table, where, page_rows=LARGE_ROWS)
    for expected, row in enumerate(rows):
        if row["event_index"] != expected:
            message = f"no event {expected}"
            reader.findings.add(table, join_key(session_id, expected), "gap", message)
            raise _TrailBroken
        counts.events += 1
        document = load_object(row["event_bytes"]) or {}
        for name in ("event_id", "event_hash"):
            if document and document.get(name) != row[name]:
                key = join_key(session_id, row["event_index"])
                message = f"{name} is {printable(row[name])}, the bytes say otherwise"
                reader.findings.add(table, key, "column_differs", message)
        yield row["event_bytes"]


def _name_orphans(reader: Reader, table: Table, place: str) -> None:
    for row in reader.pages(table, order_by="session_id"):
        if reader.get(schema.belief_sessions, row["session_id"]) is None:
            message = f"{table.name} has its {place} {row[place]}, its session is not there"
            reader.findings.add(schema.belief_sessions, row["session_id"], "missing", message)
