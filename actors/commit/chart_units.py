"""Defines the unit that keeps blocks of samples for charts, beside the record."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from actors.commit.unit_context import CommitContext
from kernel.ledger.chart_blocks import ChartBlock, put_blocks


class ChartsKept(Enum):
    """Stands for what the unit comes to, so that its own transactions are not counted."""

    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class KeepChartsUnit:
    """Write blocks; what else stands in the ledger does not change."""

    blocks: Sequence[ChartBlock]

    def run(self, context: CommitContext) -> ChartsKept:
        """Write them."""
        put_blocks(context.transaction, self.blocks)
        return ChartsKept.KEPT
