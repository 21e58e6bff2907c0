"""Holds a belief session, and reads from it without changing it."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from kernel.belief.elimination import CMBSCore
from kernel.belief.errors import CorruptBeliefEvent
from kernel.belief.events import BeliefEvent
from kernel.belief.journal import Journal
from kernel.belief.limits import AUDIT_PAGE_BYTES, check_text
from kernel.belief.session_snapshot import SessionSnapshot, deflate
from kernel.belief.survivors import Survivors
from kernel.belief.terms import OntologyBundle, Predecessor, SessionPolicy
from kernel.belief.universe import Universe


class SessionState:
    """The state of one session, as of its last event."""

    def __init__(
        self, session_id: str, ontology: OntologyBundle, universe: Universe, policy: SessionPolicy
    ) -> None:
        self.session_id = check_text("session_id", session_id)
        """The id that every event of the session carries."""

        self.ontology = ontology
        """What the session was declared about."""

        self.policy = policy
        """What the session was declared to allow."""

        self.universe = universe
        """Every hypothesis that was declared."""

        self._core = CMBSCore(universe.ids, policy.stability_window)
        self._survivors = Survivors(universe)
        self._survivors_hash = self._survivors.hash()
        self._obligation_id: str | None = None
        self._observations: dict[tuple[str, str], int] = {}
        self._journal = Journal(session_id)
        self.succeeds: Predecessor | None = None
        """The session that this one goes on from; None of one that a client declared."""

        self.successor_id: str | None = None
        """The session that goes on from this one, which is closed then."""

    @property
    def weight_bytes(self) -> int:
        """About how much memory the session holds."""
        return self.universe.weight_bytes + self._journal.weight_bytes

    @property
    def survivors(self) -> frozenset[str]:
        """The hypotheses that are left; it costs the size of the universe."""
        return frozenset(self._survivors.ids())

    def survives(self, hypothesis_id: str) -> bool:
        """Tell whether a hypothesis is left, at the cost of one look."""
        return hypothesis_id in self._survivors

    @property
    def n_survivors(self) -> int:
        """How many hypotheses are left."""
        return len(self._survivors)

    def first_survivors(self, limit: int) -> list[str]:
        """List the first few hypotheses that survive, sorted."""
        return self._survivors.first(limit)

    @property
    def survivors_hash(self) -> str:
        """The survivors hash as of the last event."""
        return self._survivors_hash

    @property
    def terminated(self) -> bool:
        """Whether a termination was approved."""
        return self._core.is_terminated

    @property
    def head_event_id(self) -> str | None:
        """Id of the last event, which ``expected_head`` is compared with."""
        return self._journal.head_event_id

    @property
    def head_event_hash(self) -> str:
        """Hash of the last event: it stands for the whole trail."""
        return self._journal.head_event_hash

    @property
    def n_events(self) -> int:
        """Length of the trail."""
        return len(self._journal)

    def snapshot(self, survivors_max: int | None = None) -> dict[str, Any]:
        """Return the belief as a JSON object; it costs the size of the universe.

        ``survivors_max`` bounds the list of survivors to its first ones, and the cost with it;
        with 0 the object has no list, which nobody can take for an empty one.
        """
        survivors = self._survivors
        snapshot: dict[str, Any] = {
            "session_id": self.session_id,
            "ontology": self.ontology.to_dict(),
        }
        if survivors_max != 0:
            snapshot["survivors"] = (
                survivors.ids() if survivors_max is None else survivors.first(survivors_max)
            )
        snapshot |= {
            "n_survivors": len(survivors),
            "entropy_proxy": self._core.entropy,
            "terminated": self._core.is_terminated,
            "active_obligation_id": self._obligation_id,
            "audit_head_event_id": self._journal.head_event_id,
        }
        if self.succeeds is not None:
            snapshot["predecessor_id"] = self.succeeds.session_id
        if self.successor_id is not None:
            snapshot["successor_id"] = self.successor_id
        return snapshot

    def core_state(self) -> dict[str, Any]:
        """Return what the core holds as JSON values; it costs the size of the universe.

        A session that was resumed holds no probes and no eliminations of the part left out.
        """
        return self._core.serialize()

    @property
    def n_events_left_out(self) -> int:
        """How many of the first events a snapshot stands for, so that they are not held."""
        return self._journal.n_left_out

    def is_left_out(self, source_id: str, observation_id: str) -> bool:
        """Tell whether an observation's event is among those that are not held."""
        position = self._observations.get((source_id, observation_id))
        return position is not None and position < self._journal.n_left_out

    def fill_in(self, events: Sequence[bytes]) -> None:
        """Hold the events that a snapshot stood for.

        Raises:
            CorruptBeliefEvent: when they do not lead up to the first that is held.
        """
        self._journal.fill_in(events)

    def release(self) -> None:
        """Give the memory of the ids back in steps; the session ends with it.

        A million at once keep every other thread waiting for a fifth of a second.
        """
        self._core.release()
        self.universe.release()

    def take_snapshot(self, since: int) -> SessionSnapshot:
        """Write down what the session holds; `since` events are covered by the snapshot before."""
        newest = takewhile(
            lambda observation: observation[1] >= since, reversed(self._observations.items())
        )
        observations = [[position, *key] for key, position in newest]
        gates = self._core.gates()
        window = self.policy.stability_window
        gates["conclusion_history"] = gates["conclusion_history"][-window:] if window else []
        return SessionSnapshot(
            n_events=self.n_events,
            since=since,
            head_event_id=self.head_event_id or "",
            head_event_hash=self.head_event_hash,
            bitmap=deflate(self._survivors.bitmap),
            gates=gates,
            observations=observations[::-1],
        )

    def stand_at(self, parts: Sequence[SessionSnapshot], head: bytes) -> None:
        """Take the state from the snapshots; the last of them names the event."""
        newest, event = parts[-1], BeliefEvent.from_bytes(head)
        head_of_snapshot = (newest.head_event_id, newest.head_event_hash)
        if (event.session_id, event.event_id, event.event_hash) != (
            self.session_id,
            *head_of_snapshot,
        ):
            raise CorruptBeliefEvent("the snapshot after it names another")
        self._survivors = Survivors.of_bitmap(self.universe, newest.bits)
        self._survivors_hash = self._survivors.hash()
        if self._survivors_hash != event.survivors_after_hash:
            raise CorruptBeliefEvent("the snapshot after it holds other survivors")
        for part in parts:
            for position, source_id, observation_id in part.observations:
                self._observations[source_id, observation_id] = position
        self._obligation_id = next(iter(newest.gates["obligations"]), None)
        # Nothing follows the event that closes a session, so no snapshot has to say it.
        if event.verb == "SUCCEED_SESSION":
            self.successor_id = event.payload["successor_id"]
        # The observations above keep a probe from counting twice; the core's history is not read.
        empty_lists: dict[str, Any] = {"consumed_probes": [], "elimination_history": []}
        survivors = {"survivors": self._survivors.ids()}
        self._core = CMBSCore.deserialize(newest.gates | survivors | empty_lists)
        self._journal.stand_after(newest.n_events, event)

    def audit(self, since_event_id: str | None = None) -> list[BeliefEvent]:
        """List the events strictly after the given one, or all, each verified as it is read.

        Raises:
            BeliefError: EVENT_NOT_FOUND when the trail has no such event.
        """
        return self._journal.since(since_event_id)

    def audit_page(self, since_event_id: str | None, limit: int) -> list[BeliefEvent]:
        """List the first of them: at most ``limit``, and about 8 MiB, but one if there is one.

        Raises:
            BeliefError: EVENT_NOT_FOUND when the trail has no such event.
        """
        return self._journal.page(since_event_id, limit, AUDIT_PAGE_BYTES)
