"""Keeps tombstones in the memory of this process; they end with it."""

import threading
from collections.abc import Iterable

from kernel.belief.elimination_store import (
    EliminationProvenance,
    RecoveredState,
    StoreResult,
    session_not_found,
    universe_differs,
)
from kernel.belief.limits import MAX_CLAIMED_IDS, MAX_HYPOTHESES, check_ids, check_text


class InMemoryStore:
    """The five methods under one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._universes: dict[str, frozenset[str]] = {}
        self._tombstones: dict[str, set[str]] = {}

    def create_session(self, session_id: str, hypothesis_ids: Iterable[str]) -> None:
        """Fix the universe of a session."""
        check_text("session_id", session_id)
        universe = frozenset(check_ids("hypotheses", hypothesis_ids, max_ids=MAX_HYPOTHESES))
        with self._lock:
            if self._universes.setdefault(session_id, universe) != universe:
                raise universe_differs(session_id)
            self._tombstones.setdefault(session_id, set())

    def eliminate(
        self, session_id: str, eliminated: Iterable[str], provenance: EliminationProvenance
    ) -> StoreResult:
        """Write tombstones; who eliminated and why is for the audit to keep."""
        del provenance
        claimed = frozenset(check_ids("eliminated", eliminated, max_ids=MAX_CLAIMED_IDS))
        with self._lock:
            universe, tombstones = self._of(session_id)
            applied = (claimed & universe) - tombstones
            tombstones |= applied
        return StoreResult(applied, claimed - applied)

    def get_survivors(self, session_id: str) -> frozenset[str]:
        """Return the universe without its tombstones."""
        return self.recover(session_id).survivors

    def get_eliminated(self, session_id: str) -> frozenset[str]:
        """Return the tombstones."""
        return self.recover(session_id).eliminated

    def recover(self, session_id: str) -> RecoveredState:
        """Return universe, tombstones and survivors of one moment."""
        with self._lock:
            universe, tombstones = self._of(session_id)
            return RecoveredState(universe, frozenset(tombstones), universe - tombstones)

    def _of(self, session_id: str) -> tuple[frozenset[str], set[str]]:
        if session_id not in self._universes:
            raise session_not_found(session_id)
        return self._universes[session_id], self._tombstones[session_id]
