"""Marks what two ledgers must not share with the ledger that an installation serves."""

import socket
from collections.abc import Awaitable, Callable

import anyio.to_thread

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import ledger_id_of
from kernel.values.errors import KernelError
from queues.redis.watch import LedgerMark
from workers.environment.ledger_access import ledger_place, printable_place
from workers.environment.settings import Settings


def mark_in(view: LedgerView, settings: Settings) -> LedgerMark | None:
    """Return the mark of a ledger, None before its first gateway has founded it."""
    ledger_id = ledger_id_of(view)
    if ledger_id is None:
        return None
    return LedgerMark(
        ledger_id, f"{printable_place(ledger_place(settings))} on {socket.gethostname()}"
    )


def mark_of(ledger: Ledger, settings: Settings) -> Callable[[], Awaitable[LedgerMark | None]]:
    """Return what reads the mark of a ledger off the event loop; None where it cannot be read.

    A worker may have no right to read the id; then the gateways alone know the mark.
    """

    def read() -> LedgerMark | None:
        try:
            return ledger.read(lambda view: mark_in(view, settings))
        except KernelError:
            return None

    async def mark() -> LedgerMark | None:
        return await anyio.to_thread.run_sync(read)

    return mark
