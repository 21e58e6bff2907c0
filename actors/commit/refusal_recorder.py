"""Records how many refusals were only counted, once a minute and before the committer ends.

A commit that fails leaves the counts where they were; one whose answer was lost finds its receipts
by their ids. A request that fails alone (`refusal_units.py`) is counted under the same limits.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import structlog

from actors.commit.refusal_units import RefusalRunsUnit
from actors.commit.units import Unit
from actors.errors import ActorError
from kernel.transaction.refusal_runs import RefusalRuns

RECORD_EVERY_S = 60.0

_log = structlog.get_logger(__name__)


class RefusalRecorder:
    """Run `run` in a task group, and `record` before the committer ends."""

    def __init__(self, runs: RefusalRuns, write: Callable[[Unit], Awaitable[Any]]) -> None:
        self._runs = runs
        self._write = write

    async def run(self) -> None:
        """Record what was counted, every minute until cancelled."""
        while True:
            await anyio.sleep(RECORD_EVERY_S)
            await self.record()

    async def record(self) -> None:
        """Record the counts; those that cannot be recorded go on counting."""
        runs = self._runs.take()
        if not runs:
            return
        try:
            await self._write(RefusalRunsUnit(runs))
        except ActorError as error:
            self._runs.put_back(runs)
            _log.warning("refusals_not_recorded", code=error.code)
        except BaseException:
            self._runs.put_back(runs)
            raise
