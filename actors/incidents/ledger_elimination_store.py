"""Keeps tombstones on the record: the sessions of this store are belief sessions (B6).

A creation is a declaration, an elimination is an event of the session's chain; both are anchored
in the log and verified with it. So what a store answers about a session and what the session's
audit says are one thing.

Each call is a transaction of its own, beside the committer's, so threads take turns. One store of a
ledger writes: it takes the shard of incidents with its first write, or when it is told to, and each
write compares its epoch inside the transaction (decision actors/0085). A store whose shard another
one has taken writes nothing any more; what it reads is on the record all the same. Sessions of
gateways are called by UUIDs, those of this store by other names.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from actors.commit.elimination_units import (
    DeclareUnit,
    ReplayedSession,
    ReplayedSessions,
    StrikeUnit,
)
from actors.commit.units import Unit, commit_alone
from actors.orchestrator.orchestrator import Orchestrator
from kernel.belief.elimination_store import (
    EliminationProvenance,
    RecoveredState,
    StoreResult,
    universe_differs,
)
from kernel.belief.limits import MAX_CLAIMED_IDS, MAX_HYPOTHESES, check_ids
from kernel.belief.terms import OntologyBundle
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import Fence, take_incidents
from kernel.transaction.kernel import Kernel

NO_ONTOLOGY = OntologyBundle("", "", "", "")

Found = TypeVar("Found")


class LedgerEliminationStore:
    """The five methods over a ledger; writing raises `StaleEpoch` once another store writes."""

    def __init__(
        self,
        ledger: Ledger,
        kernel: Kernel | None = None,
        orchestrator: Orchestrator | None = None,
        owner: str = "elimination-store",
    ) -> None:
        """Nothing is taken yet; `owner` is the name under which the shard is held."""
        self._ledger = ledger
        self._kernel = kernel or Kernel()
        self._orchestrator = orchestrator or Orchestrator(ledger.host)
        self._owner = owner
        self._fence: Fence | None = None
        self._lock = threading.Lock()
        self.sessions = ReplayedSessions()

    def take(self) -> None:
        """Take the shard of incidents from whoever has it, unless this store did so before."""
        with self._lock:
            self._take()

    def create_session(self, session_id: str, hypothesis_ids: Iterable[str]) -> None:
        """Declare a session over the hypotheses; durable when this returns."""
        universe = frozenset(check_ids("hypotheses", hypothesis_ids, max_ids=MAX_HYPOTHESES))
        unit = DeclareUnit(self.sessions, session_id, NO_ONTOLOGY, universe)
        if not self.write(session_id, unit) and self.recover(session_id).hypothesis_ids != universe:
            raise universe_differs(session_id)

    def eliminate(
        self, session_id: str, eliminated: Iterable[str], provenance: EliminationProvenance
    ) -> StoreResult:
        """Strike hypotheses; durable when this returns.

        Raises:
            BeliefError: SESSION_TERMINATED; INVALID_HYPOTHESIS_ID where the session validates.
        """
        claimed = check_ids("eliminated", eliminated, max_ids=MAX_CLAIMED_IDS)
        unit = StrikeUnit(self.sessions, session_id, claimed, provenance)
        applied = frozenset(self.write(session_id, unit).applied)
        return StoreResult(applied, frozenset(claimed) - applied)

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

    def write(self, session_id: str, unit: Unit) -> Any:
        """Run a unit about a session in a transaction of its own; durable when this returns.

        Raises:
            StaleEpoch: another store has taken the shard; nothing was written.
        """
        with self._lock:
            fence = self._take()
            try:
                return commit_alone(unit, self._ledger, self._kernel, self._orchestrator, fence)
            except BaseException:
                # What is kept may be ahead of the record now.
                self.sessions.forget(session_id)
                raise

    def read(self, session_id: str, work: Callable[[ReplayedSession], Found]) -> Found:
        """Return something about a session as of now; it must not be read afterwards."""
        with self._lock, self._ledger.view() as view:
            return work(self.sessions.session(view, session_id))

    def _take(self) -> Fence:
        if self._fence is None:
            with self._ledger.transaction() as transaction:
                fence = take_incidents(transaction, self._owner)
            self._fence = fence
        return self._fence
