"""Taking out of Redis what the ledger no longer asks for."""

from collections.abc import Sequence

import structlog

from queues.errors import QueueError
from queues.queue import WorkQueue

_log = structlog.get_logger(__name__)


async def remove_from_queue(queue: WorkQueue, keys: Sequence[str]) -> None:
    """Remove items whose requests are closed; where Redis is away they stay, which is harmless.

    Whoever claims such an item finds nothing open and drops it.
    """
    try:
        await queue.cancel(keys)
    except QueueError as error:
        _log.debug("closed_items_stay", queue=queue.name, code=error.code)
