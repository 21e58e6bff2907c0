"""Records belief events: stored as they were hashed, anchored in the kernel's chain (B6).

The events of a session are a chain of their own. At the end of each transaction one operation of
the log names the new head of every chain that the transaction wrote to, so that verifying the log
also verifies the sessions.

Activating a session holds it against the record: its events, its snapshot (decision kernel/0162),
its summary row, its newest anchor and the log's operation that states the anchor must all end at
the same event. If one does not, the session is corrupt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import orjson

from kernel.belief.anchors import anchor_of, follows, is_in_log
from kernel.belief.errors import CorruptBeliefEvent
from kernel.belief.events import BeliefEvent
from kernel.belief.limits import check_text, invalid
from kernel.belief.session import BeliefSession
from kernel.belief.session_snapshot import SessionSnapshot, belong_together
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.store.tables import DuplicateKey, TableQuery
from kernel.model.stated_receipts import SESSION_ID_CHARS_MAX, AnchoredEvents
from kernel.values.canonical import canonicalize
from kernel.values.errors import LedgerCorrupt

SURVIVORS_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class BeliefBatch:
    """Events of one session in order, and where the session stands after them."""

    session_id: str
    title: str
    first_index: int
    prior_event_hash: str
    """The hash of the event before the first of these, 64 zeros where there is none."""

    events: tuple[tuple[str, str, bytes], ...]
    """(event_id, event_hash, event bytes) of each."""

    n_universe: int
    n_survivors: int
    survivors_shown: Sequence[str]
    """The first few survivors, for lists of sessions."""

    terminated: bool = False
    """Whether the session has ended (decision kernel/0615)."""

    successor_id: str | None = None
    """The session that goes on from this one, which is closed then."""

    snapshot: SessionSnapshot | None = None
    """The session's snapshot after the last event, where one is due."""

    @classmethod
    def after(
        cls,
        belief: BeliefSession,
        events: Sequence[BeliefEvent],
        title: str,
        snapshot: SessionSnapshot | None = None,
    ) -> Self:
        """Return the newest events of a session, which stands after the last of them."""
        return cls(
            session_id=belief.session_id,
            title=title,
            first_index=belief.n_events - len(events),
            prior_event_hash=events[0].prev_event_hash,
            events=tuple((event.event_id, event.event_hash, event.to_bytes()) for event in events),
            n_universe=len(belief.universe),
            n_survivors=belief.n_survivors,
            survivors_shown=belief.first_survivors(SURVIVORS_SHOWN_MAX),
            terminated=belief.terminated,
            successor_id=belief.successor_id,
            snapshot=snapshot,
        )

    @property
    def head_event_hash(self) -> str:
        """The hash of the newest event."""
        return self.events[-1][1]

    @property
    def n_events(self) -> int:
        """How many events the session has after this batch."""
        return self.first_index + len(self.events)

    def anchored_events(self) -> AnchoredEvents:
        """Return what an anchor says of this batch."""
        return AnchoredEvents(
            session_id=self.session_id,
            prior_head_event_hash=self.prior_event_hash,
            first_event_index=self.first_index,
            last_event_index=self.n_events - 1,
            head_event_hash=self.head_event_hash,
        )


def check_session_id(session_id: str) -> None:
    """Refuse an id that the record could not hold.

    Raises:
        BeliefError: INVALID_REQUEST.
    """
    check_text("session_id", session_id)
    if len(session_id) > SESSION_ID_CHARS_MAX:
        raise invalid("session_id", f"must have at most {SESSION_ID_CHARS_MAX} characters")
    if "\x00" in session_id:
        raise invalid("session_id", "must not hold the character U+0000")


def declared_universe(view: LedgerView, session_id: str) -> frozenset[str] | None:
    """Return the hypotheses that a session was declared over, None where it was not declared.

    Raises:
        CorruptBeliefEvent: when the declaration is not what its hash says.
    """
    row = view.tables.get(schema.belief_events, session_id, 0)
    if row is None:
        return None
    return frozenset(BeliefEvent.from_bytes(row["event_bytes"]).payload["hypotheses"])


def check_follows(transaction: LedgerTransaction, batch: BeliefBatch) -> None:
    """Refuse events that do not go on where their session was anchored.

    Raises:
        DuplicateKey: somebody else wrote to it.
    """
    anchor = anchor_of(transaction, batch.session_id)
    if not follows(anchor, batch.first_index, batch.prior_event_hash):
        raise DuplicateKey(f"belief_events: {batch.session_id} has other events by now")


def record_belief(transaction: LedgerTransaction, batch: BeliefBatch) -> None:
    """Append the events of a batch and renew the session's summary row.

    Raises:
        DuplicateKey: when they do not go on where the session was anchored; nothing was written.
    """
    check_follows(transaction, batch)
    for offset, (event_id, event_hash, content) in enumerate(batch.events):
        # An index behind the anchor's is free, and the id of an event is drawn for it.
        transaction.tables.append(
            schema.belief_events,
            {
                "session_id": batch.session_id,
                "event_index": batch.first_index + offset,
                "event_id": event_id,
                "event_hash": event_hash,
                "event_bytes": content,
            },
        )
    if batch.snapshot is not None:
        row = {"session_id": batch.session_id, "n_events": batch.snapshot.n_events}
        content = batch.snapshot.to_bytes()
        transaction.tables.put(schema.belief_snapshots, row | {"snapshot_bytes": content})
    transaction.tables.put(
        schema.belief_sessions,
        {
            "session_id": batch.session_id,
            "title": batch.title,
            "n_universe": batch.n_universe,
            "n_survivors": batch.n_survivors,
            "n_events": batch.n_events,
            "head_event_hash": batch.head_event_hash,
            "survivors_shown": canonicalize(list(batch.survivors_shown)),
            "updated_at_us": transaction.head_now.committed_at_us,
            "terminated": int(batch.terminated),
            "successor_id": batch.successor_id,
        },
    )


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A session as the record has it."""

    belief: BeliefSession
    title: str
    n_snapshot: int
    """How many events its newest snapshot covers."""


def read_session(view: LedgerView, session_id: str) -> RecordedSession | None:
    """Take a session up from its snapshots and its later events; None where there is none.

    Its summary, its newest anchor and the anchor's place in the log must say what it came to.

    Raises:
        CorruptBeliefEvent: when an event or a snapshot is not what it claims.
        LedgerCorrupt: when the session does not end where it is anchored.
    """
    try:
        return _recorded_session(view, session_id)
    except (CorruptBeliefEvent, LedgerCorrupt) as error:
        if not error.key:
            error.table, error.key = schema.belief_events.name, session_id
        raise


def _recorded_session(view: LedgerView, session_id: str) -> RecordedSession | None:
    summary, anchor = view.belief_session(session_id), anchor_of(view, session_id)
    if summary is None and anchor is None and not view.belief_events(session_id, limit=1):
        return None
    belief, n_snapshot = _restore(view, session_id)
    stands = {
        "n_events": belief.n_events,
        "head_event_hash": belief.head_event_hash,
        "n_universe": len(belief.universe),
        "n_survivors": belief.n_survivors,
    }
    agrees = (
        summary is not None
        and anchor is not None
        and all(summary[name] == value for name, value in stands.items())
        and all(anchor[name] == stands[name] for name in ("n_events", "head_event_hash"))
        and is_in_log(view, anchor)
    )
    if summary is None or not agrees:
        raise LedgerCorrupt(f"the trail of {session_id} does not end where it is anchored")
    return RecordedSession(belief, summary["title"], n_snapshot)


def _restore(view: LedgerView, session_id: str) -> tuple[BeliefSession, int]:
    parts = snapshots_of(view, session_id)
    first = view.belief_events(session_id, limit=1)
    if not parts or not first:
        events = view.belief_events(session_id)
        if not events:
            raise LedgerCorrupt(f"the trail of {session_id} is gone")
        return BeliefSession.restore(events), 0
    n_events = parts[-1].n_events
    head, *later = view.belief_events(session_id, first=n_events - 1) or [b""]
    belief = BeliefSession.resume(first[0], parts, head, later)
    if belief.policy.elimination_store != "ledger":
        # A session with a store elsewhere is held against it by its whole trail.
        return BeliefSession.restore(view.belief_events(session_id)), n_events
    return belief, n_events


def snapshots_of(view: LedgerView, session_id: str) -> list[SessionSnapshot]:
    """Return the snapshots of a session in order, none where they are not whole.

    Raises:
        LedgerCorrupt: one stands in the place of another.
    """
    rows = view.tables.scan(TableQuery(schema.belief_snapshots, {"session_id": session_id}))
    parts = [SessionSnapshot.from_bytes(row["snapshot_bytes"]) for row in rows]
    counts = [(row["n_events"], part.n_events) for row, part in zip(rows, parts, strict=True)]
    if any(column != stated for column, stated in counts):
        raise LedgerCorrupt(f"a snapshot of {session_id} stands in the place of another")
    # Without one of them the others are worth nothing.
    return parts if belong_together(parts) else []


def read_survivors(content: bytes) -> list[str]:
    """Read the survivors that a summary row shows."""
    names: list[str] = orjson.loads(content)
    return names
