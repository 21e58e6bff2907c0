"""Tombstones on the record: the sessions of this store are belief sessions (B6).

A creation is a declaration, an elimination is an event of the session's chain; both are anchored
in the log and verified with it. So what a store answers about a session and what the session's
audit says are one thing. Every elimination is an observation of its own, named by its event (the
trigger is in the justification), because a trigger may come again with other ids. A call that
changes nothing writes nothing.

Each call is a transaction of its own, beside the committer's, so threads and processes that share a
ledger take turns. A session should belong to this store or to a gateway: when both write to it, a
batch of the gateway fails each time and reads the session again. A session that was replayed is
kept and used again for as long as the record has not moved on.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from actors.commit.belief_units import record_and_anchor
from actors.commit.unit_context import CommitContext
from actors.orchestrator.orchestrator import Orchestrator
from kernel.belief.elimination_store import (
    EliminationProvenance,
    RecoveredState,
    StoreResult,
    session_not_found,
    universe_differs,
)
from kernel.belief.errors import BeliefError
from kernel.belief.events import BeliefEvent
from kernel.belief.limits import MAX_CLAIMED_IDS, MAX_HYPOTHESES, check_ids
from kernel.belief.session import BeliefSession
from kernel.belief.terms import OntologyBundle
from kernel.belief_record import SURVIVORS_SHOWN_MAX, BeliefBatch, check_session_id
from kernel.errors import LedgerCorrupt
from kernel.host import iso_time
from kernel.kernel import Kernel
from kernel.ledger.ledger import Ledger, LedgerView

SESSIONS_KEPT_MAX = 64
NO_ONTOLOGY = OntologyBundle("", "", "", "")

Found = TypeVar("Found")


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


class LedgerEliminationStore:
    """The five methods over a ledger."""

    def __init__(
        self, ledger: Ledger, kernel: Kernel | None = None, orchestrator: Orchestrator | None = None
    ) -> None:
        self._ledger = ledger
        self._kernel = kernel or Kernel()
        self._orchestrator = orchestrator or Orchestrator(ledger.host)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, ReplayedSession] = OrderedDict()

    def create_session(self, session_id: str, hypothesis_ids: Iterable[str]) -> None:
        """Declare a session over the hypotheses; durable when this returns."""
        universe = frozenset(check_ids("hypotheses", hypothesis_ids, max_ids=MAX_HYPOTHESES))

        def create(context: CommitContext) -> None:
            if not self.declare(context, session_id, NO_ONTOLOGY, universe):
                known = self.session(context.transaction, session_id)
                if frozenset(known.belief.universe.ids) != universe:
                    raise universe_differs(session_id)

        self.write(session_id, create)

    def eliminate(
        self, session_id: str, eliminated: Iterable[str], provenance: EliminationProvenance
    ) -> StoreResult:
        """Strike hypotheses; durable when this returns.

        Raises:
            BeliefError: SESSION_TERMINATED; INVALID_HYPOTHESIS_ID where the session validates.
        """
        claimed = frozenset(check_ids("eliminated", eliminated, max_ids=MAX_CLAIMED_IDS))

        def strike(context: CommitContext) -> StoreResult:
            applied = self.strike(context, session_id, claimed, provenance)
            return StoreResult(applied, claimed - applied)

        return self.write(session_id, strike)

    def get_survivors(self, session_id: str) -> frozenset[str]:
        """Return the universe without its tombstones."""
        return self.read(session_id, lambda replayed: replayed.belief.survivors)

    def get_eliminated(self, session_id: str) -> frozenset[str]:
        """Return the tombstones."""
        return self.read(session_id, lambda replayed: replayed.eliminated)

    def recover(self, session_id: str) -> RecoveredState:
        """Return universe, tombstones and survivors of one moment."""

        def state(replayed: ReplayedSession) -> RecoveredState:
            universe, survivors = frozenset(replayed.belief.universe.ids), replayed.belief.survivors
            return RecoveredState(universe, universe - survivors, survivors)

        return self.read(session_id, state)

    # --- for callers with more to do in the same transaction ---------------------------------

    def write(self, session_id: str, work: Callable[[CommitContext], Found]) -> Found:
        """Do something about a session in one transaction; durable when this returns."""
        with self._lock:
            try:
                with self._ledger.transaction() as transaction:
                    return work(CommitContext(transaction, self._kernel, self._orchestrator))
            except BaseException:
                # What is kept may be ahead of the record now.
                self._kept.pop(session_id, None)
                raise

    def read(self, session_id: str, work: Callable[[ReplayedSession], Found]) -> Found:
        """Return something about a session as of now; it must not be read afterwards."""
        with self._lock, self._ledger.view() as view:
            return work(self.session(view, session_id))

    def session(self, view: LedgerView, session_id: str) -> ReplayedSession:
        """Return a session as the record has it; only inside `read` or `write`.

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
            replayed = self._keep(_recorded(belief))
        self._kept.move_to_end(session_id)
        return replayed

    def declare(
        self,
        context: CommitContext,
        session_id: str,
        ontology: OntologyBundle,
        universe: Iterable[str],
    ) -> bool:
        """Declare a session unless it is on the record, and return whether it was not."""
        check_session_id(session_id)
        if context.transaction.belief_session(session_id) is not None:
            return False
        stamp = _stamp(context)
        belief, event = BeliefSession.declare(
            session_id, ontology, universe, event_id=stamp["event_id"], ts=stamp["ts"]
        )
        _record(context, belief, event)
        self._keep(ReplayedSession(belief, event.ts, set()))
        return True

    def strike(
        self,
        context: CommitContext,
        session_id: str,
        claimed: frozenset[str],
        provenance: EliminationProvenance,
        **details: str,
    ) -> frozenset[str]:
        """Strike hypotheses, and return those that this call has struck.

        The `details` are recorded with the elimination.
        """
        replayed = self.session(context.transaction, session_id)
        belief = replayed.belief
        outside = {name for name in claimed if name not in belief.universe}
        if not any(map(belief.survives, claimed)) and outside <= replayed.outside:
            return frozenset()
        stamp = _stamp(context)
        # A trigger may come again with other ids; what makes an observation one is its event.
        result = belief.eliminate(
            provenance.source_id,
            stamp["event_id"],
            claimed,
            {"trigger": provenance.trigger, **details},
            **stamp,
        )
        if result.event is None:
            raise BeliefError("CONFLICT", "the event id is in use", {"event_id": result.event_id})
        replayed.outside |= outside
        _record(context, belief, result.event)
        return frozenset(result.applied)

    def _keep(self, replayed: ReplayedSession) -> ReplayedSession:
        self._kept[replayed.belief.session_id] = replayed
        if len(self._kept) > SESSIONS_KEPT_MAX:
            self._kept.popitem(last=False)
        return replayed


def _recorded(belief: BeliefSession) -> ReplayedSession:
    declared, *later = belief.audit()
    eliminated = (event.payload["eliminated"] for event in later if event.verb == "ELIMINATE")
    outside = {name for ids in eliminated for name in ids if name not in belief.universe}
    return ReplayedSession(belief, declared.ts, outside)


def _stamp(context: CommitContext) -> dict[str, str]:
    host = context.transaction.host
    return {"event_id": host.new_id(), "ts": iso_time(host.now_us())}


def _record(context: CommitContext, belief: BeliefSession, event: BeliefEvent) -> None:
    batch = BeliefBatch(
        session_id=belief.session_id,
        title=belief.session_id,
        first_index=belief.n_events - 1,
        prior_event_hash=event.prev_event_hash,
        events=((event.event_id, event.event_hash, event.to_bytes()),),
        n_universe=len(belief.universe),
        n_survivors=belief.n_survivors,
        survivors_shown=belief.first_survivors(SURVIVORS_SHOWN_MAX),
    )
    record_and_anchor(batch, context)
