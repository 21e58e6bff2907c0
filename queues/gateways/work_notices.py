"""Tells the gateways that relay the work of a ledger that this one has committed something.

A relay is woken by the commits of its own process. Of others it learns by a note in its inbox, or
at its next look, a second later at most.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

import anyio

from queues.errors import QueueError
from queues.gateways.inbox import WORK_RECORDED, Inbox

PAUSE_S: Final = 0.01
"""Pause between two notes; commits of that time are one."""


class WorkNotices:
    """The notes of one gateway to those that relay; run `run` in a task group."""

    def __init__(self, inbox: Inbox, relaying: Callable[[], Collection[str]]) -> None:
        """`relaying` returns the other gateways that relay now."""
        self._inbox = inbox
        self._relaying = relaying
        self._wake = anyio.Event()

    def notify(self) -> None:
        """Send a note after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Send notes until cancelled; one that does not arrive is not sent again."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            with suppress(QueueError):
                await self._inbox.tell(self._relaying(), WORK_RECORDED)
            await anyio.sleep(PAUSE_S)
