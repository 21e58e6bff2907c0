"""Waits for a ledger that may not answer yet: its server starts, or nobody has founded it.

A process that starts waits for half a minute at each step: a gateway for a database server that is
away, a worker also for whoever founds the ledger. A gateway's own file that cannot be opened is an
error at once, and so is a ledger that answers and does not fit.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
import structlog

from kernel.values.errors import CommitOutcomeUnknown, LedgerUnavailable

WAIT_S = 30.0
RETRY_S = 0.1
_FINAL = frozenset(
    {
        "ledger_pooler_refuses",
        "ledger_right_missing",
        "ledger_sessions_shared",
        "ledger_shards_differ",
    }
)
"""Codes of a ledger that answers and that this process does not fit."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


async def open_patiently(open_ledger: Callable[[], T], wait_s: float = WAIT_S) -> T:
    """Open a ledger, as `retry_until_answer` does it."""
    return await retry_until_answer(partial(anyio.to_thread.run_sync, open_ledger), wait_s)


async def retry_until_answer(work: Callable[[], Awaitable[T]], wait_s: float = WAIT_S) -> T:
    """Do what needs the ledger, again and again for a while; the log says once what is awaited.

    Raises:
        LedgerUnavailable, CommitOutcomeUnknown: the last refusal, when the time is over.
    """
    until_s = anyio.current_time() + wait_s
    is_logged = False
    while True:
        try:
            return await work()
        except (LedgerUnavailable, CommitOutcomeUnknown) as error:
            if anyio.current_time() >= until_s or error.code in _FINAL:
                raise
            if not is_logged:
                _log.warning("ledger_awaited", code=error.code, error=str(error), wait_s=wait_s)
            is_logged = True
        await anyio.sleep(RETRY_S)
