"""Seals receipts: every few seconds, before a checkpoint, and when a gateway stops (§17.5).

Answers of jobs of plug-ins, and refusals, are recorded without a row of the log, so no tree head
commits to it before a row follows. Here one is asked for where none came by itself. Nothing is done
for a receipt when it is recorded; its share of a range is a read and two hashes, on a thread
(decision workers/0340). The records that pipelines made of their runs since are stated in a receipt
first, so the same row commits to it (decision kernel/0610).
"""

from collections.abc import Callable
from functools import partial

import anyio
import anyio.to_thread
import structlog

from actors.commit.receipt_units import SealReceiptsUnit
from actors.commit.run_units import AnchorGroupsUnit, TakeRunInUnit
from actors.errors import ActorError
from kernel.landscape.record_anchors import count_unanchored_groups, earlier_runs, groups_to_take_in
from kernel.ledger.ledger import Ledger
from kernel.model.result import RejectedResult
from kernel.records.receipt_seals import RANGE_MAX, ReceiptRange, range_to_seal
from kernel.values.errors import KernelError
from workers.use_cases.authority_sweeps import FencedWrite

REST = 9.0
"""For how many times as long as a full range took the next one waits."""

OUTCOMES_EVERY_S = 60.0
"""Time after which outcomes come into a range although a row seals them already."""

_log = structlog.get_logger(__name__)


class ReceiptSealing:
    """Looks for receipts that are to be sealed; the transaction decides whose turn it is."""

    def __init__(
        self, ledger: Ledger, write: FencedWrite, every_s: float, clock_s: Callable[[], float]
    ) -> None:
        """Look every so many seconds."""
        self._ledger = ledger
        self._write = write
        self._every_s = every_s
        self._clock_s = clock_s
        self._outcomes_at_s = clock_s()

    async def run(self) -> None:
        """Take in the runs of before there were groups; then look until cancelled."""
        await self._take_in_earlier_runs()
        rest_s = self._every_s
        while True:
            await anyio.sleep(rest_s)
            began_s = self._clock_s()
            sealed = await self.seal_next()
            is_full = sealed is not None and sealed.last - sealed.first + 1 == RANGE_MAX
            rest_s = min(self._every_s, REST * (self._clock_s() - began_s))
            rest_s = rest_s if is_full else self._every_s

    async def _take_in_earlier_runs(self) -> None:
        read, on_a_thread = self._ledger.read, anyio.to_thread.run_sync
        try:
            run_ids = await on_a_thread(read, earlier_runs)
        except KernelError as error:
            _log.warning("run_not_taken_in", error=str(error))
            return
        for run_id in run_ids:
            try:
                groups = await on_a_thread(read, partial(groups_to_take_in, run_id=run_id))
                await self._write(TakeRunInUnit(run_id, groups))
            except (ActorError, KernelError) as error:
                _log.warning("run_not_taken_in", run_id=run_id, error=str(error))

    async def seal_next(self) -> ReceiptRange | None:
        """Seal the next range if one is due, and return it."""
        for_outcomes = self._clock_s() - self._outcomes_at_s >= OUTCOMES_EVERY_S
        return await self._seal(for_outcomes=for_outcomes)

    async def seal_outcomes(self) -> ReceiptRange | None:
        """Seal the next range if one is due, or if an outcome is in none, and return it."""
        return await self._seal(for_outcomes=True)

    async def _seal(self, *, for_outcomes: bool) -> ReceiptRange | None:
        if for_outcomes:
            self._outcomes_at_s = self._clock_s()
        read, on_a_thread = self._ledger.read, anyio.to_thread.run_sync
        due = partial(range_to_seal, for_outcomes=for_outcomes)
        try:
            groups, sealed = await on_a_thread(
                read, lambda view: (count_unanchored_groups(view), due(view))
            )
            if groups > 0:
                await self._write(AnchorGroupsUnit())
                # The receipt of the anchor belongs to the range.
                sealed = await on_a_thread(read, due)
            result = None if sealed is None else await self._write(SealReceiptsUnit(sealed))
        except (ActorError, KernelError) as error:
            _log.warning("receipts_not_sealed", error=str(error))
            return None
        if isinstance(result, RejectedResult):
            _log.warning("receipts_not_sealed", error=result.rejection.reason_code)
            return None
        return None if result is None else sealed
