"""Keeps blocks of samples beside the record, in slots that come round again.

A block is what a gateway counted in a stretch of time, as bytes that only its writer reads. Its
slot follows from when it began, so a block takes the place of one that is too old to be shown, and
of each gateway that writes there are never more than there are slots. No row of the record commits
to a block.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.store.tables import TableQuery


class ChartResolution(NamedTuple):
    """How far apart samples are, how many a block has, and how many blocks are kept."""

    sample_s: int
    samples: int
    slots: int

    @property
    def block_s(self) -> int:
        """For how long a block goes on."""
        return self.sample_s * self.samples

    @property
    def kept_s(self) -> int:
        """For how long a block is kept at least, once it has ended."""
        return (self.slots - 1) * self.block_s

    def start_of(self, time_s: int) -> int:
        """Return when the block began that a time lies in."""
        return time_s - time_s % self.block_s


SECONDS: Final = ChartResolution(sample_s=1, samples=15, slots=244)
"""For an hour, and the half minute until its end is written and asked for."""

MINUTES: Final = ChartResolution(sample_s=60, samples=60, slots=721)
"""For thirty days."""

HALF_HOURS: Final = ChartResolution(sample_s=1800, samples=48, slots=32)
"""For thirty days in few blocks."""

RESOLUTIONS: Final = {each.sample_s: each for each in (SECONDS, MINUTES, HALF_HOURS)}
"""By how far apart samples are, which divides the next one."""


class ChartBlock(NamedTuple):
    """The samples of a gateway from a time on, in seconds since the epoch."""

    sample_s: int
    part: int
    """Which of the gateways that write."""

    began_s: int
    samples: bytes


def put_blocks(transaction: LedgerTransaction, blocks: Iterable[ChartBlock]) -> None:
    """Write blocks over what their slots hold."""
    for block in blocks:
        resolution = RESOLUTIONS[block.sample_s]
        slot = block.began_s // resolution.block_s % resolution.slots
        transaction.tables.put(schema.chart_blocks, {**block._asdict(), "slot": slot})


def blocks_between(
    view: LedgerView, resolution: ChartResolution, first_s: int, end_s: int
) -> list[ChartBlock]:
    """Return the blocks of all gateways that have samples between two times, the oldest first."""
    first_s = max(resolution.start_of(first_s), end_s - resolution.slots * resolution.block_s)
    starts = range(resolution.start_of(first_s), end_s, resolution.block_s)
    slots = [start // resolution.block_s % resolution.slots for start in starts]
    query = TableQuery(
        schema.chart_blocks,
        {"sample_s": resolution.sample_s},
        ("slot", slots),
        columns=ChartBlock._fields,
    )
    blocks = [ChartBlock(*row) for row in view.tables.scan(query)]
    return sorted(block for block in blocks if block.began_s in starts)
