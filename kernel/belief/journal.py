"""Keeps the append-only trail of one session: its entries as stored bytes, found by position or id.

Entries are kept as bytes only. Whoever reads one gets it decoded afresh and verified, so nothing
that a reader does to it, and nothing that happened to the memory unnoticed, enters the record.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, islice, takewhile
from typing import Any

from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.events import BeliefEvent, Verb, read_link
from kernel.belief.limits import check_text, check_timestamp
from kernel.values.canonical import GENESIS_HASH

EVENT_WEIGHT_BYTES = 400
"""What an event costs beside its bytes: its id, its place, its observation (measured)."""


class Journal:
    """The chain of a session's events."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self.n_left_out = 0
        """How many of the first events the journal does not hold."""

        self._stored: list[bytes] = []
        self._stored_bytes = 0
        self._positions: dict[str, int] = {}
        self.head_event_id: str | None = None
        """Id of the last event, None before the first."""

        self.head_event_hash = GENESIS_HASH
        """Hash of the last event, 64 zeros before the first."""

        self._left_head_hash = GENESIS_HASH

    def __len__(self) -> int:
        return self.n_left_out + len(self._stored)

    @property
    def weight_bytes(self) -> int:
        """About how much memory the events need that are held."""
        return self._stored_bytes + EVENT_WEIGHT_BYTES * len(self._stored)

    def draft(
        self,
        verb: Verb,
        payload: dict[str, Any],
        *,
        event_id: str,
        ts: str,
        hashes: tuple[str, str],
        eliminated: list[str] | None = None,
    ) -> BeliefEvent:
        """Seal the event that would come next, without appending it.

        ``hashes`` are the survivors hashes before and after.

        Raises:
            BeliefError: INVALID_REQUEST for a malformed id or time, CONFLICT for an id in use.
        """
        if check_text("event_id", event_id) in self._positions:
            raise BeliefError("CONFLICT", "the event id is in use", {"event_id": event_id})
        before, after = hashes
        return BeliefEvent.seal(
            event_id=event_id,
            session_id=self._session_id,
            ts=check_timestamp(ts),
            verb=verb,
            payload=payload,
            delta={"eliminated": [] if eliminated is None else list(eliminated)},
            survivors_before_hash=before,
            survivors_after_hash=after,
            prev_event_hash=self.head_event_hash,
        )

    def append(self, event: BeliefEvent) -> None:
        """Make a drafted event the head."""
        if event.prev_event_hash != self.head_event_hash:
            raise AssertionError("an event was drafted on another head")
        self._positions[event.event_id] = len(self)
        content = event.to_bytes()
        self._stored.append(content)
        self._stored_bytes += len(content)
        self.head_event_id = event.event_id
        self.head_event_hash = event.event_hash

    def size_of(self, positions: Iterable[int]) -> int:
        """Return how many bytes the events at some positions have, as far as they are held."""
        held = (at - self.n_left_out for at in positions)
        return sum(len(self._stored[at]) for at in held if at >= 0)

    def event(self, position: int) -> BeliefEvent:
        """Read one event by its position, from 0."""
        if position < self.n_left_out:
            raise AssertionError("an event is asked for that was left out")
        return BeliefEvent.from_bytes(self._stored[position - self.n_left_out])

    def since(self, event_id: str | None) -> list[BeliefEvent]:
        """Read the events strictly after the given one, or all of them.

        Raises:
            BeliefError: EVENT_NOT_FOUND when no event has that id.
        """
        return [self.event(position) for position in range(self._after(event_id), len(self))]

    def page(self, event_id: str | None, limit: int, max_bytes: int) -> list[BeliefEvent]:
        """Read the first few events after the given one, at least one where there is one.

        Raises:
            BeliefError: EVENT_NOT_FOUND when no event has that id.
        """
        first = self._after(event_id)
        first_stored = first - self.n_left_out
        sizes = accumulate(
            len(content)
            for content in islice(self._stored, max(first_stored, 0), first_stored + limit)
        )
        fitting = sum(1 for _ in takewhile(lambda size: size <= max_bytes, sizes))
        end = min(first + max(fitting, 1), len(self))
        return [self.event(position) for position in range(first, end)]

    def stand_after(self, n_events: int, head: BeliefEvent) -> None:
        """Continue after an event without holding it or the events before it."""
        self.n_left_out = n_events
        self._stored, self._stored_bytes, self._positions = [], 0, {}
        self.head_event_id, self.head_event_hash = head.event_id, head.event_hash
        self._left_head_hash = head.event_hash

    def fill_in(self, events: Sequence[bytes]) -> None:
        """Hold the events that were left out; each is verified when it is read, like all others.

        Raises:
            CorruptBeliefEvent: when they do not lead up to the first that is held.
        """
        follows = GENESIS_HASH
        positions = {}
        for position, content in enumerate(events):
            event_id, event_hash, prior_hash = read_link(content)
            if prior_hash != follows:
                reason = "it does not follow the event before it"
                raise CorruptBeliefEvent(reason, index=position)
            positions[event_id] = position
            follows = event_hash
        if len(events) != self.n_left_out or follows != self._left_head_hash:
            raise CorruptBeliefEvent("the events before it are not those that were left out")
        self._stored[:0] = events
        self._stored_bytes += sum(map(len, events))
        self._positions = positions | self._positions
        self.n_left_out = 0

    def _after(self, event_id: str | None) -> int:
        if event_id is None:
            return 0
        if event_id not in self._positions:
            raise BeliefError("EVENT_NOT_FOUND", "no such event", {"event_id": event_id})
        return self._positions[event_id] + 1
