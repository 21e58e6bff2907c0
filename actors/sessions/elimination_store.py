"""Adapts elimination stores to callers on an event loop (B5), and writes a session's to one.

The five methods of the protocol are coroutines here, each run on a worker thread, so a store is
written once and serves both. A caller that is cancelled does not learn the outcome; the tombstones
may be there, and asking again is safe. Which store a session has is stated in its declaration
(decision actors/0036).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import anyio
from anyio.to_thread import run_sync

from actors.errors import EliminationStoreConflict, EliminationStoreFailed
from kernel.belief.elimination_store import (
    EliminationProvenance,
    EliminationStore,
    EliminationStoreUnavailable,
    RecoveredState,
    StoreResult,
)
from kernel.belief.errors import BeliefError
from kernel.belief.events import BeliefEvent
from kernel.belief.session import BeliefSession
from kernel.belief.terms import TombstonePlace

T = TypeVar("T")

THREADS_MAX: Final = 16
"""Calls of one store at once; a store that never answers holds no other thread."""

ANSWER_S_MAX: Final = 30.0


class AsyncEliminationStore:
    """The five methods of a store, each awaited.

    Every one raises EliminationStoreUnavailable where no answer comes within `answer_s`.
    """

    def __init__(
        self,
        store: EliminationStore,
        place: TombstonePlace = "tee",
        *,
        answer_s: float = ANSWER_S_MAX,
    ) -> None:
        self.place = place
        """Sessions that are declared with it have their tombstones here."""

        self._store = store
        self._answer_s = answer_s
        self._threads = anyio.CapacityLimiter(THREADS_MAX)

    async def _call(self, method: Callable[..., T], *arguments: Any) -> T:
        with anyio.move_on_after(self._answer_s):
            return await run_sync(method, *arguments, abandon_on_cancel=True, limiter=self._threads)
        raise EliminationStoreUnavailable(f"no answer came within {self._answer_s:g} s")

    async def create_session(self, session_id: str, hypothesis_ids: Iterable[str]) -> None:
        """Fix the universe of a session."""
        await self._call(self._store.create_session, session_id, hypothesis_ids)

    async def eliminate(
        self, session_id: str, eliminated: Iterable[str], provenance: EliminationProvenance
    ) -> StoreResult:
        """Write tombstones; they are kept when this returns."""
        return await self._call(self._store.eliminate, session_id, eliminated, provenance)

    async def get_survivors(self, session_id: str) -> frozenset[str]:
        """Return the universe without its tombstones."""
        return await self._call(self._store.get_survivors, session_id)

    async def get_eliminated(self, session_id: str) -> frozenset[str]:
        """Return the tombstones."""
        return await self._call(self._store.get_eliminated, session_id)

    async def recover(self, session_id: str) -> RecoveredState:
        """Return universe, tombstones and survivors of one moment."""
        return await self._call(self._store.recover, session_id)


async def write_through(
    store: AsyncEliminationStore | None, belief: BeliefSession, events: list[BeliefEvent]
) -> None:
    """Write what events have eliminated to the session's store, if it has one beside the ledger.

    Raises:
        BeliefError: when the store refuses the declaration, which then did not happen.
        EliminationStoreFailed: when it does not answer; some of it may be there.
        EliminationStoreConflict: when it refuses an elimination: it is not the store it was.
    """
    if store is None or belief.policy.elimination_store == "ledger":
        return
    try:
        for event in events:
            if event.verb == "DECLARE_SESSION":
                await _create(store, belief, events)
            elif event.delta["eliminated"]:
                payload = event.payload
                provenance = EliminationProvenance(payload["source_id"], payload["observation_id"])
                await _eliminate(store, belief.session_id, event.delta["eliminated"], provenance)
    except EliminationStoreUnavailable as error:
        raise EliminationStoreFailed(str(error)) from error


async def _create(
    store: AsyncEliminationStore, belief: BeliefSession, events: list[BeliefEvent]
) -> None:
    await store.create_session(belief.session_id, belief.universe.ids)
    # A successor is declared with what it carries over; an earlier try may have written it there.
    carried = {name for event in events for name in event.delta["eliminated"]}
    if not carried.issuperset(await store.get_eliminated(belief.session_id)):
        details = {"session_id": belief.session_id}
        raise BeliefError("CONFLICT", "the store has tombstones of this session", details)


async def _eliminate(
    store: AsyncEliminationStore, session_id: str, ids: list[str], provenance: EliminationProvenance
) -> None:
    try:
        await store.eliminate(session_id, ids, provenance)
    except BeliefError as error:
        raise EliminationStoreConflict(error.message, error.details) from error
