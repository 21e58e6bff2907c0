"""Waits for the outcomes of requests: one reader for all waiters, woken by commits.

However many wait, the ledger is read once for all of them after a commit of this process, and twice
a second because another process may have committed (decision workers/0031).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import anyio
import anyio.to_thread

from actors.supervision import WakeSignal
from kernel.ledger.ledger import Ledger
from kernel.values.errors import LedgerUnavailable
from workers.api.errors import ApiError
from workers.api.middleware.admission import place_given_back

WAITED_FOR_MAX = 20_000
"""Requests that may be waited for at once, counted once for each waiter."""

LOOK_EVERY_S = 0.5
PAUSE_S = 0.01
"""Pause between two looks; commits of that time are seen together."""

PAUSE_SHARE = 4
"""After a look that took long the reader rests for this many times as long."""


Until = Literal["all", "any"]
"""How many of the requests have to end for a wait to be over."""


@dataclass(slots=True, eq=False)
class _Wait:
    missing: set[str]
    until: Until
    over: anyio.Event = field(default_factory=anyio.Event)


class OutcomeWatch:
    """The outcomes that are waited for in this process; run `run` in a task group."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waits: set[_Wait] = set()
        self._changed = WakeSignal()
        self._stopped = False

    def notify(self) -> None:
        """Wake the reader after a commit; cheap, and harmless when called too often."""
        if self._waits:
            self._changed.set()

    def stop(self) -> None:
        """End every wait, and let none begin: the process is to end."""
        self._stopped = True
        for wait in self._waits:
            wait.over.set()

    async def wait(self, request_ids: Collection[str], wait_s: float, until: Until = "all") -> None:
        """Return when all of the requests have their outcomes, or any has, or after `wait_s`.

        Raises:
            ApiError: `waits_full`.
        """
        waited_for = sum(len(waiting_request.missing) for waiting_request in self._waits)
        if waited_for + len(request_ids) > WAITED_FOR_MAX:
            raise ApiError("waits_full", "too many outcomes are waited for; ask again")
        if self._stopped or not request_ids:
            return
        wait = _Wait(set(request_ids), until)
        self._waits.add(wait)
        self.notify()
        try:
            with place_given_back(), anyio.move_on_after(wait_s):
                await wait.over.wait()
        finally:
            self._waits.discard(wait)

    async def run(self) -> None:
        """Look for outcomes until cancelled."""
        while True:
            await self._changed.wait(LOOK_EVERY_S if self._waits else None)
            began_s = anyio.current_time()
            if self._waits:
                await self._look()
            await anyio.sleep(max(PAUSE_S, PAUSE_SHARE * (anyio.current_time() - began_s)))

    async def _look(self) -> None:
        missing = set[str]().union(*(waiting_request.missing for waiting_request in self._waits))
        try:
            closed = await anyio.to_thread.run_sync(
                self._ledger.read,
                lambda view: {name for name in missing if view.outcome_of(name) is not None},
            )
        except LedgerUnavailable:
            return
        for wait in self._waits:
            is_met = not closed.isdisjoint(wait.missing)
            wait.missing -= closed
            if not wait.missing or (is_met and wait.until == "any"):
                wait.over.set()
