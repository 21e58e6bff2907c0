"""Declares sessions and eliminates hypotheses, each anchored by an operation of its own.

An elimination is named by its event and not by its trigger, which stands in the justification: a
trigger may come again with other ids. A call that changes nothing writes nothing. A session that
was replayed is used again for as long as the record has not moved on.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.commit.belief_units import record_and_anchor
from actors.commit.unit_context import CommitContext
from kernel.belief.elimination_store import EliminationProvenance, session_not_found
from kernel.belief.errors import BeliefError
from kernel.belief.events import BeliefEvent
from kernel.belief.record import BeliefBatch, check_session_id
from kernel.belief.session import BeliefSession
from kernel.belief.terms import OntologyBundle
from kernel.ledger.ledger import LedgerView
from kernel.values.errors import LedgerCorrupt
from kernel.values.host import iso_time

SESSIONS_KEPT_MAX = 64


@dataclass(slots=True)
class ReplayedSession:
    """A session as it was replayed, and what was named in it that its universe does not hold."""

    belief: BeliefSession
    declared_at: str
    outside: set[str]

    @property
    def eliminated(self) -> frozenset[str]:
        """The tombstones within the universe."""
        return frozenset(self.belief.universe.ids) - self.belief.survivors

    def classify(self, ids: Sequence[str]) -> "Struck":
        """Return what striking these would do to each of them."""
        fates: dict[str, list[str]] = {"applied": [], "already": [], "unmatched": []}
        seen = set(self.outside)
        for name in ids:
            if name in seen:
                fate = "already"
            elif name not in self.belief.universe:
                fate = "unmatched"
            else:
                fate = "applied" if self.belief.survives(name) else "already"
            fates[fate].append(name)
            seen.add(name)
        return Struck(**{fate: tuple(names) for fate, names in fates.items()})


@dataclass(frozen=True, slots=True)
class Struck:
    """The result for each id that was to be struck, in order."""

    applied: tuple[str, ...]
    already: tuple[str, ...]
    unmatched: tuple[str, ...]


class ReplayedSessions:
    """The sessions that were replayed last; for one thread at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, ReplayedSession] = OrderedDict()

    def session(self, view: LedgerView, session_id: str) -> ReplayedSession:
        """Return a session as the record has it.

        Raises:
            BeliefError: SESSION_NOT_FOUND.
            CorruptBeliefEvent: when its events are not what they claim.
            LedgerCorrupt: when they do not end where the session's row says.
        """
        summary = view.belief_session(session_id)
        if summary is None:
            raise session_not_found(session_id)
        replayed = self._kept.get(session_id)
        if replayed is None or replayed.belief.head_event_hash != summary["head_event_hash"]:
            belief = BeliefSession.restore(view.belief_events(session_id))
            if belief.head_event_hash != summary["head_event_hash"]:
                raise LedgerCorrupt(f"the trail of {session_id} does not end where it is anchored")
            replayed = self.keep(_replayed_session(belief))
        self._kept.move_to_end(session_id)
        return replayed

    def keep(self, replayed: ReplayedSession) -> ReplayedSession:
        """Keep a session; drop the least recently used one beyond `SESSIONS_KEPT_MAX`."""
        self._kept[replayed.belief.session_id] = replayed
        if len(self._kept) > SESSIONS_KEPT_MAX:
            self._kept.popitem(last=False)
        return replayed

    def forget(self, session_id: str) -> None:
        """Drop a kept session, which may be ahead of the record."""
        self._kept.pop(session_id, None)


@dataclass(frozen=True, slots=True)
class DeclareUnit:
    """Declare a session unless it is on the record."""

    sessions: ReplayedSessions
    session_id: str
    ontology: OntologyBundle
    universe: Iterable[str]

    def run(self, context: CommitContext) -> bool:
        """Declare the session, and return whether it was new."""
        check_session_id(self.session_id)
        if context.transaction.belief_session(self.session_id) is not None:
            return False
        belief, event = BeliefSession.declare(
            self.session_id, self.ontology, self.universe, **_stamp(context)
        )
        _record(context, belief, event)
        self.sessions.keep(ReplayedSession(belief, event.ts, set()))
        return True


@dataclass(frozen=True, slots=True)
class StrikeUnit:
    """Strike hypotheses of a session; the details are recorded with the elimination."""

    sessions: ReplayedSessions
    session_id: str
    ids: Sequence[str]
    provenance: EliminationProvenance
    details: Mapping[str, str] = field(default_factory=dict)

    def run(self, context: CommitContext) -> Struck:
        """Strike them; what the universe does not hold is recorded and eliminates nothing."""
        replayed = self.sessions.session(context.transaction, self.session_id)
        struck = replayed.classify(self.ids)
        if not struck.applied and not struck.unmatched:
            return struck
        stamp = _stamp(context)
        result = replayed.belief.eliminate(
            self.provenance.source_id,
            stamp["event_id"],
            frozenset(self.ids),
            {"trigger": self.provenance.trigger, **self.details},
            **stamp,
        )
        if result.event is None:
            raise BeliefError("CONFLICT", "the event id is in use", {"event_id": result.event_id})
        replayed.outside.update(struck.unmatched)
        _record(context, replayed.belief, result.event)
        return struck


def _replayed_session(belief: BeliefSession) -> ReplayedSession:
    declared, *later = belief.audit()
    eliminated = (event.payload["eliminated"] for event in later if event.verb == "ELIMINATE")
    outside = {name for ids in eliminated for name in ids if name not in belief.universe}
    return ReplayedSession(belief, declared.ts, outside)


def _stamp(context: CommitContext) -> dict[str, Any]:
    host = context.transaction.host
    return {"event_id": host.new_id(), "ts": iso_time(host.now_us())}


def _record(context: CommitContext, belief: BeliefSession, event: BeliefEvent) -> None:
    record_and_anchor(BeliefBatch.after(belief, [event], belief.session_id), context)
