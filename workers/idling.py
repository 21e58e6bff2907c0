"""Slots with nothing to do: woken by whichever of their queues has something.

A queue is waited on by one connection for the whole process, and only while a slot is idle.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from queues.queue import WorkQueue


@dataclass(slots=True)
class Idling:
    """The idle slots of one process."""

    _slots: int = 0
    _somebody: anyio.Event = field(default_factory=anyio.Event)
    _work: anyio.Event = field(default_factory=anyio.Event)

    async def listen(self, queue: WorkQueue, wait_s: float) -> None:
        """Wake the idle slots whenever a queue may have something; until cancelled.

        Raises:
            QueueError: when Redis is away.
        """
        while True:
            await self._somebody.wait()
            if await queue.wait(wait_s):
                self._work.set()
                self._work = anyio.Event()
                # The slots that were woken look before this one waits again.
                await anyio.lowlevel.checkpoint()

    @asynccontextmanager
    async def being_idle(self) -> AsyncIterator[anyio.Event]:
        """Let the queues be listened to; gives the event of the next sign of work."""
        self._slots += 1
        self._somebody.set()
        try:
            yield self._work
        finally:
            self._slots -= 1
            if not self._slots:
                self._somebody = anyio.Event()
