"""Seals the open round once it is old enough, whichever gateway looks first (seed 002)."""

import anyio
import anyio.to_thread
import structlog

from actors.commit.thought_units import SealDueRoundUnit, Sealing
from actors.errors import ActorError
from kernel.ledger.ledger import Ledger
from kernel.thoughts.reading import open_round_age_us
from kernel.values.errors import LedgerUnavailable
from workers.use_cases.authority_sweeps import FencedWrite

LOOK_EVERY_S = 10.0

_log = structlog.get_logger(__name__)


class DueRoundSealing:
    """Looks at the open round every few seconds; the transaction decides whether it is due."""

    def __init__(
        self, ledger: Ledger, write: FencedWrite, sealing: Sealing, round_s: int | None
    ) -> None:
        """Seal rounds that are open for so many seconds; None seals none by time."""
        self._ledger = ledger
        self._write = write
        self._sealing = sealing
        self._round_us = None if round_s is None else round_s * 1_000_000

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            try:
                await self.seal_due()
            except (ActorError, LedgerUnavailable) as error:
                _log.warning("round_not_sealed", error=str(error))

    async def seal_due(self) -> bool:
        """Seal the open round if it is due, and tell whether it was."""
        if self._round_us is None:
            return False
        now_us = self._ledger.host.now_us()
        age_us = await anyio.to_thread.run_sync(
            self._ledger.read, lambda view: open_round_age_us(view, now_us)
        )
        if age_us is None or age_us < self._round_us:
            return False
        sealed = await self._write(SealDueRoundUnit(self._sealing, self._round_us))
        return sealed is not None
