"""Defines the unit that keeps blocks of samples for charts, beside the record."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from actors.commit.unit_context import CommitContext
from kernel.ledger.chart_blocks import ChartBlock, put_blocks


class ChartsKept(Enum):
    """The result of the unit: a type of its own, by which its transactions are left uncounted."""

    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class KeepChartsUnit:
    """Write blocks; nothing else in the ledger changes."""

    blocks: Sequence[ChartBlock]

    def run(self, context: CommitContext) -> ChartsKept:
        """Write them."""
        put_blocks(context.transaction, self.blocks)
        return ChartsKept.KEPT
