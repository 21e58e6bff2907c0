"""Puts damage that readers of this gateway met on the record, where it stands until it is lifted.

Until then this process keeps it in mind. A damaged record may be met again by every request; a
receipt is left once, and again only after somebody has dealt with it (decision kernel/0595).
"""

import anyio
import structlog

from actors.commit.quarantine_units import RecordDamageUnit
from actors.errors import ActorError
from kernel.ledger.ledger import Ledger
from kernel.values.errors import LedgerUnavailable
from workers.use_cases.authority_sweeps import FencedWrite

LOOK_EVERY_S = 0.5

_log = structlog.get_logger(__name__)


class DamageRecording:
    """Looks for damage that was met, and has a receipt left of it."""

    def __init__(self, ledger: Ledger, write: FencedWrite) -> None:
        self._ledger = ledger
        self._write = write

    async def run(self) -> None:
        """Look until cancelled; what cannot be written yet is tried again at the next look."""
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            try:
                await self.record()
            except (ActorError, LedgerUnavailable) as error:
                _log.warning("damage_not_recorded", error=str(error))

    async def record(self) -> str | None:
        """Record what is not on the record; return the receipt, None where none was left."""
        met = self._ledger.damage.all()
        if not met:
            return None
        receipt_id: str | None = await self._write(RecordDamageUnit(met))
        self._ledger.damage.forget(met)
        if receipt_id is not None:
            records = [str(each) for each in met]
            _log.critical("damage_recorded", receipt_id=receipt_id, records=records)
        return receipt_id
