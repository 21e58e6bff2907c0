"""Goes on with bulk operations that somebody has decided, page by page, until none is left."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter

import anyio
import anyio.to_thread
import structlog

from actors.commit.bulk_units import BulkPage, BulkPageUnit
from actors.errors import ActorError
from actors.supervision import WakeSignal
from kernel.ledger.ledger import Ledger
from kernel.values.errors import KernelError, LedgerUnavailable
from kernel.work.bulk_operations import BulkOperation, running
from queues.errors import QueueError
from queues.queue.items import BATCH_ITEMS_MAX
from queues.queue.work_queue import WorkQueue
from workers.use_cases.authority_sweeps import FencedWrite

_log = structlog.get_logger(__name__)


class BulkWork:
    """Takes the pages of the bulk operations that run; run `run` in a task group.

    Where gateways share a ledger, each may: a page is taken by whoever states where it begins.
    """

    def __init__(self, ledger: Ledger, write: FencedWrite, queues: Mapping[str, WorkQueue]) -> None:
        self._ledger = ledger
        self._write = write
        self._queues = queues
        self._wake = WakeSignal()

    def notify(self) -> None:
        """Wake it after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Go on with what was begun, until cancelled."""
        while True:
            try:
                await self.go_on()
            except (ActorError, KernelError, LedgerUnavailable) as error:
                _log.warning("bulk_work_waits", code=getattr(error, "code", "internal"))
            await self._wake.next_look()

    async def go_on(self) -> int:
        """Take pages until no bulk operation runs; return how many pages."""
        count = 0
        while operations := await anyio.to_thread.run_sync(self._ledger.read, running):
            for operation in operations:
                count += await self._finish(operation)
        return count

    async def _finish(self, operation: BulkOperation) -> int:
        count = asked_to_stop = 0
        while operation.state == "running":
            unit = BulkPageUnit(operation.bulk_number, operation.cursor, asked_to_stop)
            page: BulkPage | None = await self._write(unit)
            if page is None:
                break
            operation, count = page.operation, count + 1
            asked_to_stop = await self._follow(operation, page.requests)
        return count

    async def _follow(self, operation: BulkOperation, requests: Iterable[tuple[str, str]]) -> int:
        """Let Redis follow a page; return how many were in the hands of workers.

        Where it is away the relay puts it right later, and nobody is counted.
        """
        stopping = 0
        for name, group in groupby(sorted(requests), key=itemgetter(0)):
            queue, keys = self._queues.get(name), [request_id for _, request_id in group]
            if queue is None:
                continue
            try:
                for start in range(0, len(keys), BATCH_ITEMS_MAX):
                    part = keys[start : start + BATCH_ITEMS_MAX]
                    if operation.verb == "prioritize":
                        await queue.withdraw(part)
                    else:
                        stopping += (await queue.cancel(part)).count("stopping")
            except QueueError as error:
                _log.info("bulk_work_waits_for_redis", queue=name, code=error.code)
        return stopping
