"""Puts what principals were denied on the record: at once after a quiet minute, else once a minute.

What cannot be written yet is counted on, and tried again a minute later.
"""

from collections.abc import Callable
from typing import Final

import anyio
import structlog

from actors.commit.access_units import DenialsUnit
from actors.errors import ActorError
from actors.supervision import WakeSignal
from kernel.records.access.denials import DenialCounts
from kernel.values.errors import LedgerUnavailable
from workers.use_cases.queue_operations import Write

RECORD_EVERY_S: Final = 60.0

_log = structlog.get_logger(__name__)


class DenialRecording:
    """Run `run` in a task group, and `record` before the committer ends."""

    def __init__(self, write: Write, now_us: Callable[[], int]) -> None:
        self._write = write
        self._now_us = now_us
        self._counts = DenialCounts()
        self._counted = WakeSignal()

    def note(self, principal: str, action: str) -> None:
        """Count that a principal was denied an action."""
        self._counts.note(principal, action, self._now_us())
        self._counted.set()

    async def run(self) -> None:
        """Record what was counted until cancelled."""
        while True:
            await self._counted.wait()
            await self.record()
            await anyio.sleep(RECORD_EVERY_S)

    async def record(self) -> None:
        """Record the counts; those that cannot be recorded go on counting."""
        denials = self._counts.take()
        if not denials:
            return
        try:
            await self._write(DenialsUnit(denials))
        except (ActorError, LedgerUnavailable) as error:
            self._counts.put_back(denials)
            self._counted.set()
            _log.warning("denials_not_recorded", code=error.code)
        except BaseException:
            self._counts.put_back(denials)
            raise
