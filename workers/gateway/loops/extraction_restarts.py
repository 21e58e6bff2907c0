"""Begins extractions anew whose source was changed while they ran (INV-EXT-6).

The write that gives a source another text marks the runs that read it, in its own transaction.
After each commit the marked ones are cancelled here, and a run that begins anew is asked for. A
mark is on record until its run has ended, so a process that ends in between leaves it to the one
that follows (decision kernel/0340).
"""

from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import structlog

from actors.commit.work_units import RestartExtractionUnit
from actors.errors import ActorError
from actors.supervision import WakeSignal
from kernel.ledger.ledger import Ledger
from kernel.records.running_extractions import runs_of_changed_sources
from kernel.values.errors import KernelError, LedgerUnavailable
from workers.use_cases.authority_sweeps import FencedWrite

PAGE: Final = 256
"""Runs that are read at once."""

_log = structlog.get_logger(__name__)


class ExtractionRestarts:
    """Restarts the runs that are marked; run `run` in a task group.

    Where gateways share a ledger, each may: what another has restarted is marked no more.
    """

    def __init__(self, ledger: Ledger, write: FencedWrite) -> None:
        self._ledger = ledger
        self._write = write
        self._wake = WakeSignal()
        self._refused: set[str] = set()
        """Marked runs whose cancellation was refused: the report of their worker ends them."""

    def notify(self) -> None:
        """Wake it after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Restart until cancelled."""
        while True:
            try:
                await self.restart()
            except (ActorError, KernelError, LedgerUnavailable) as error:
                _log.warning("restarts_wait", code=getattr(error, "code", "internal"))
            await self._wake.next_look()

    async def restart(self) -> int:
        """Restart every run that is marked; return how many."""
        count, after, refused = 0, "", set[str]()
        while True:
            marked = partial(runs_of_changed_sources, after=after, limit=PAGE)
            page = await anyio.to_thread.run_sync(self._ledger.read, marked)
            for run_id in page:
                if run_id in self._refused:
                    refused.add(run_id)
                    continue
                outcome, _ = await self._write(RestartExtractionUnit(run_id))
                count += outcome in {"completed", "recorded"}
                if outcome == "rejected":
                    refused.add(run_id)
            if len(page) < PAGE:
                self._refused = refused
                return count
            after = page[-1]
