"""The recorder's face for coroutines: the same recorder, whose writing holds no event loop up."""

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

from kernel.landscape.record_group import GROUP_RECORDS
from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger

T = TypeVar("T")


class AsyncRecorder:
    """Records on a thread: one implementation, `kernel.landscape.recorder`, with two faces."""

    def __init__(self, ledger: Ledger, *, group_records: int = GROUP_RECORDS) -> None:
        """Record on a ledger, so many records in one transaction."""
        self._recorder = Recorder(ledger, group_records=group_records)

    async def record(self, make: Callable[[Recorder], T]) -> T:
        """Record what a function records, and return its result; it may record many things.

        Cancellation is waited for: what has begun to be recorded is.

        Raises:
            LandscapeRefused: as the recorder's methods.
            LedgerUnavailable: as the recorder's methods.
        """
        return await anyio.to_thread.run_sync(make, self._recorder)

    async def flush(self) -> None:
        """Write what was recorded; when this returns, everything recorded before is durable."""
        await anyio.to_thread.run_sync(self._recorder.flush)
