"""Begins bulk operations: what fits is counted in a snapshot, and that is decided about."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from actors.commit.bulk_units import BeginBulkUnit
from kernel.ledger.ledger import LedgerView
from kernel.work import bulk_operations
from kernel.work.bulk_operations import BulkOperation, BulkPreview, BulkRequest, Verb
from kernel.work.request_search import RequestSearch
from workers.use_cases.queue_operations import Write

Read = Callable[[Callable[[LedgerView], Any]], Awaitable[Any]]


async def preview(
    read: Read, verb: Verb, search: RequestSearch, upper_sequence: int | None = None
) -> BulkPreview:
    """Return how many requests fit now, up to a sequence if one is given, with the newest."""
    counted: BulkPreview = await read(
        partial(bulk_operations.preview, verb=verb, search=search, upper_sequence=upper_sequence)
    )
    return counted


async def begin(
    read: Read, write: Write, request: BulkRequest, upper_sequence: int | None = None
) -> BulkOperation:
    """Put a bulk operation on the record, which a gateway then goes through.

    Where somebody has seen a preview it is about no request beyond the `upper_sequence` of that.
    """
    counted = await preview(read, request.verb, request.search, upper_sequence)
    operation: BulkOperation = await write(BeginBulkUnit(request, counted))
    return operation
