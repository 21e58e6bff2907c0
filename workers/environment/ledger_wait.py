"""Opens a ledger that may not answer yet, because its server starts or nobody has founded it.

A process that starts waits for half a minute: a gateway for a database server that is away, a
worker also for whoever founds the ledger. A gateway's own file that cannot be opened is an error at
once.
"""

from collections.abc import Callable

import anyio
import anyio.to_thread
import structlog

from kernel.errors import CommitOutcomeUnknown, LedgerUnavailable
from kernel.ledger.ledger import Ledger

WAIT_S = 30.0
RETRY_S = 0.1

_log = structlog.get_logger(__name__)


async def opened(open_ledger: Callable[[], Ledger], wait_s: float = WAIT_S) -> Ledger:
    """Open a ledger, again and again for a while; the log says once what it waits for.

    Raises:
        LedgerUnavailable, CommitOutcomeUnknown: the last refusal, when the time is over.
    """
    until_s = anyio.current_time() + wait_s
    is_logged = False
    while True:
        try:
            return await anyio.to_thread.run_sync(open_ledger)
        except (LedgerUnavailable, CommitOutcomeUnknown) as error:
            if anyio.current_time() >= until_s:
                raise
            if not is_logged:
                _log.warning("ledger_awaited", code=error.code, error=str(error), wait_s=wait_s)
            is_logged = True
        await anyio.sleep(RETRY_S)
