"""Goes on with routing that was too much for the transaction of its cause (§13.3, kernel/0283)."""

import anyio
import anyio.to_thread
import structlog

from actors.commit.work_units import RoutePageUnit
from actors.errors import ActorError
from actors.supervision import WakeSignal
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.records.active_bindings import read_active_bindings
from kernel.values.errors import KernelError, LedgerUnavailable
from kernel.work.routing_marks import open_marks
from workers.use_cases.authority_sweeps import FencedWrite

_log = structlog.get_logger(__name__)


class BindingRouting:
    """Records the pages of the marks that stand; run `run` in a task group.

    Where gateways share a ledger, each may: a page goes on from where the mark stands then.
    """

    def __init__(self, ledger: Ledger, write: FencedWrite) -> None:
        self._ledger = ledger
        self._write = write
        self._wake = WakeSignal()

    def notify(self) -> None:
        """Wake it after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Read the active bindings ahead of the first event, then route until cancelled."""
        await anyio.to_thread.run_sync(read_active_bindings, self._ledger)
        while True:
            try:
                await self.route()
            except (ActorError, KernelError, LedgerUnavailable) as error:
                _log.warning("routing_waits", code=getattr(error, "code", "internal"))
            await self._wake.next_look()

    async def route(self) -> int:
        """Record pages until no mark stands; return how many."""
        count = 0
        while await anyio.to_thread.run_sync(self._ledger.read, _has_marks):
            if await self._write(RoutePageUnit()):
                count += 1
        return count


def _has_marks(view: LedgerView) -> bool:
    return bool(open_marks(view, limit=1))
