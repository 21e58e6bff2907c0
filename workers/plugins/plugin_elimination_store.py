"""Calls a plug-in's elimination store; it fails as a session expects (seed 000)."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from kernel.belief.elimination_store import (
    EliminationProvenance,
    EliminationStore,
    EliminationStoreUnavailable,
    RecoveredState,
    StoreResult,
)
from kernel.belief.errors import BeliefError
from kernel.values.foreign_code import cause_of, message_of
from workers.environment.foreign_threads import call_within

CALL_S_MAX: Final = 25.0
"""Less than its session waits for an answer."""


class PluginEliminationStore:
    """Asks a foreign store and holds what it answers against the protocol.

    A `BeliefError` of the store passes as it is. Whatever else it raises, and an answer that the
    protocol does not have, is `EliminationStoreUnavailable`: it may have written, and the same call
    again is safe.
    """

    def __init__(self, store: EliminationStore) -> None:
        self._store = store

    def create_session(self, session_id: str, hypothesis_ids: Iterable[str]) -> None:
        """Fix the universe of a session."""
        _answer(self._store.create_session, session_id, frozenset(hypothesis_ids))

    def eliminate(
        self, session_id: str, eliminated: Iterable[str], provenance: EliminationProvenance
    ) -> StoreResult:
        """Write tombstones."""
        named = frozenset(eliminated)
        answer = _answer(self._store.eliminate, session_id, named, provenance)
        applied = _ids(getattr(answer, "applied", None))
        already = _ids(getattr(answer, "already_eliminated", None))
        if applied | already != named or applied & already:
            raise _invalid("what it applied and what was eliminated before are not what was asked")
        return StoreResult(applied, already)

    def get_survivors(self, session_id: str) -> frozenset[str]:
        """Return the universe without its tombstones."""
        return _ids(_answer(self._store.get_survivors, session_id))

    def get_eliminated(self, session_id: str) -> frozenset[str]:
        """Return the tombstones."""
        return _ids(_answer(self._store.get_eliminated, session_id))

    def recover(self, session_id: str) -> RecoveredState:
        """Return universe, tombstones and survivors of one moment."""
        answer = _answer(self._store.recover, session_id)
        names = ("hypothesis_ids", "eliminated", "survivors")
        state = RecoveredState(*(_ids(getattr(answer, name, None)) for name in names))
        parts = state.eliminated | state.survivors
        if parts != state.hypothesis_ids or state.eliminated & state.survivors:
            raise _invalid("survivors and tombstones are no two parts of the universe")
        return state


def _answer(method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call_within(CALL_S_MAX, method, *arguments)
    except (BeliefError, EliminationStoreUnavailable):
        raise
    except Exception as error:
        cause = cause_of(error)
        problem = f"it raised {type(cause).__name__}: {message_of(cause)}"
        raise EliminationStoreUnavailable(problem) from error


def _ids(value: Any) -> frozenset[str]:
    if not isinstance(value, frozenset | set) or not all(type(each) is str for each in value):
        raise _invalid(f"it answered {type(value).__name__} where a set of ids is expected")
    return frozenset(value)


def _invalid(problem: str) -> EliminationStoreUnavailable:
    return EliminationStoreUnavailable(f"the answer of the store is invalid: {problem}")
