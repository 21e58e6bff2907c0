"""Seals the runtime's own run: every so many rows of the log, and when a gateway stops (L1, L4).

The records of a run follow from the log, so nothing waits here to be written, and a process that is
killed loses nothing: whoever looks next goes on behind the newest seal. Making the records takes a
thread of its own, and as long as that took is waited ten times over, so it takes at most a tenth of
one processor however much is recorded (decision kernel/0474).

A pipeline's run that was completed, and whose process ended before it was sealed, is sealed here as
well; else its records would be under no tree head for good (decision workers/0341).
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import structlog

from actors.commit.run_units import SealRuntimeRunUnit, SealRunUnit
from actors.errors import ActorError
from kernel.algebra.verbs import LANDSCAPE_SEAL
from kernel.landscape.reports import newest_runs
from kernel.landscape.runtime.stretches import last_sealed_row, stretch_between
from kernel.landscape.seals import seal_of, seal_to_state
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.model.result import RejectedResult
from kernel.values.errors import KernelError
from workers.use_cases.authority_sweeps import FencedWrite

LOOK_EVERY_S = 2.0
REST = 9.0
"""For how many times as long as a seal took nothing is sealed."""

COMPLETED_EVERY_S = 60.0
COMPLETED_LOOKED_AT = 20
"""Of the completed runs, the newest."""

COMPLETED_AGE_US = 60_000_000
"""How long a pipeline has for the seal of its own run."""

STOP_ROWS_MAX = 100
"""Rows of which a gateway that stops makes a run; more would take a stop too long."""

_log = structlog.get_logger(__name__)


class RunSealing:
    """Seals stretches of the log one after the other; the transaction decides whose turn it is."""

    def __init__(
        self, ledger: Ledger, write: FencedWrite, rows: int, clock_s: Callable[[], float]
    ) -> None:
        """Seal a run after so many rows of the log; 0 seals none, not even at a stop."""
        self._ledger = ledger
        self._write = write
        self._rows = rows
        self._clock_s = clock_s
        self._looked_at_s = float("-inf")

    async def run(self) -> None:
        """Seal what a process before this one has left, then whatever is due, until cancelled."""
        left = self.seal_rest
        while self._rows:
            began_s = self._clock_s()
            await self._attempt(left)
            left = self.seal_next
            if began_s - self._looked_at_s >= COMPLETED_EVERY_S:
                self._looked_at_s = began_s
                await self._attempt(self.seal_completed)
            await anyio.sleep(max(LOOK_EVERY_S, REST * (self._clock_s() - began_s)))

    async def stop(self) -> None:
        """Seal the run that ends with this gateway, where that is quick; else a start does."""
        if self._rows:
            await self._attempt(lambda: self._seal(partial(self._rest, STOP_ROWS_MAX)))

    async def seal_next(self) -> bool:
        """Seal the next run if it has its rows, and tell whether it was sealed."""
        return await self._seal(self._whole)

    async def seal_rest(self) -> bool:
        """Seal what was recorded since the last run as a run, and tell whether it was sealed."""
        return await self._seal(partial(self._rest, self._rows))

    async def seal_completed(self) -> bool:
        """Seal a pipeline's run that is completed and has no seal; tell whether there was one."""
        before_us = self._ledger.host.now_us() - COMPLETED_AGE_US
        due = partial(_completed_run, before_us=before_us)
        stated = await anyio.to_thread.run_sync(self._ledger.read, due)
        if stated is None:
            return False
        return not isinstance(await self._write(SealRunUnit(stated)), RejectedResult)

    async def _attempt(self, seal: Callable[[], Awaitable[bool]]) -> None:
        try:
            await seal()
        except (ActorError, KernelError) as error:
            _log.warning("run_not_sealed", error=str(error))

    async def _seal(self, due: Callable[[LedgerView], SealRuntimeRunUnit | None]) -> bool:
        unit = await anyio.to_thread.run_sync(self._ledger.read, due)
        if unit is None:
            return False
        sealed = await self._write(unit)
        if isinstance(sealed, RejectedResult):
            _log.warning("run_not_sealed", error=sealed.rejection.reason_code)
        return sealed is not None and not isinstance(sealed, RejectedResult)

    def _whole(self, view: LedgerView) -> SealRuntimeRunUnit | None:
        first, head = last_sealed_row(view) + 1, view.head()
        last = first + self._rows - 1
        # What is recorded behind its last row belongs to it, so another row has to follow.
        return None if last >= head.ec_sequence_number else _unit(view, first, last)

    def _rest(self, rows_max: int, view: LedgerView) -> SealRuntimeRunUnit | None:
        first, head = last_sealed_row(view) + 1, view.head().ec_sequence_number
        if head - first + 1 > rows_max:
            return None if rows_max < self._rows else self._whole(view)
        return _unit(view, first, head)


def _completed_run(view: LedgerView, before_us: int) -> dict[str, Any] | None:
    """Return what the seal of a run states that was completed before a time and has none."""
    for run in newest_runs(view, limit=COMPLETED_LOOKED_AT, status="completed"):
        if run["completed_at_us"] < before_us and seal_of(view, run["run_id"]) is None:
            return seal_to_state(view, run["run_id"])
    return None


def _unit(view: LedgerView, first: int, last: int) -> SealRuntimeRunUnit | None:
    stretch = stretch_between(view, first, last)
    if stretch is None or _says_nothing(view, first, last):
        return None
    view.quarantines().expect_none_over(first, last)
    return SealRuntimeRunUnit.read(view, stretch)


def _says_nothing(view: LedgerView, first: int, last: int) -> bool:
    """Tell whether a stretch is the seal of the run before it alone."""
    if last > first:
        return False
    row = view.log_row_at(first)
    return row is not None and row["semantic_intent"] == LANDSCAPE_SEAL
