"""Takes the steps of archival, one after the other, each short enough for writers to wait (§17.7).

What takes long, reading rows and writing to the archive, happens on a snapshot. The head is held
while the rows of one tile move, while the envelopes of one tile go, and while a few free pages are
cut off the file, and never in between. Any number of processes may take steps at once: what one has
done the others find done.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial

import anyio.to_thread

from actors.commit.work_units import ArchivalUnit
from kernel.ledger.ledger import Ledger
from kernel.ledger.tables import GivesSpaceBack
from kernel.log_archival import HOT_ROWS_MIN, ArchivalStep, prepared_step, take_step

US_PER_DAY = 24 * 3600 * 1_000_000
PAGES_AT_ONCE = 128
"""Free pages that are cut off a file while its writers wait: a mebibyte."""
STEPS_AT_ONCE = 16
"""Segments that a call of a cron moves or collects at most; 4,096 rows."""


@dataclass(frozen=True, slots=True)
class ArchivalDone:
    """What several steps have done."""

    rows_moved: int = 0
    envelopes_collected: int = 0
    is_complete: bool = True
    """Whether nothing more was due."""


def archive_steps(
    ledger: Ledger, before_us: int, hot_rows_min: int = HOT_ROWS_MIN
) -> Iterator[ArchivalStep]:
    """Take one step after the other and yield each, until nothing is due.

    Rows committed before a time are moved; envelopes are collected once their grace is over.

    Raises:
        ArchiveUnavailable: the archive does not answer, or a segment is gone or another one;
            nothing is half done.
        LedgerCorrupt: a row or an envelope is not what its hash says.
    """
    prepare = partial(
        prepared_step,
        archive=ledger.archive,
        before_us=before_us,
        now_us=ledger.host.now_us(),
        hot_rows_min=hot_rows_min,
    )
    # The snapshot has ended when the head is held.
    while (prepared := ledger.read(prepare)) is not None:
        with ledger.transaction() as transaction:
            step = take_step(transaction, prepared)
        yield step


async def archive_some(
    ledger: Ledger,
    write: Callable[[ArchivalUnit], Awaitable[ArchivalStep]],
    retention_days: int | None,
    hot_rows_min: int = HOT_ROWS_MIN,
) -> ArchivalDone:
    """Take a few of the steps that are due through a gateway's committer, off its event loop.

    Nothing is due where nobody said after how many days. The space is given back when all is done.

    Raises:
        ArchiveUnavailable, LedgerCorrupt: see `archive_steps`.
    """
    if retention_days is None:
        return ArchivalDone()
    now_us = ledger.host.now_us()
    prepare = partial(
        prepared_step,
        archive=ledger.archive,
        before_us=now_us - retention_days * US_PER_DAY,
        now_us=now_us,
        hot_rows_min=hot_rows_min,
    )
    moved = collected = 0
    for _ in range(STEPS_AT_ONCE):
        prepared = await anyio.to_thread.run_sync(ledger.read, prepare)
        if prepared is None:
            break
        step = await write(ArchivalUnit(prepared))
        moved += step.rows_moved
        collected += step.envelopes_collected
    else:
        return ArchivalDone(moved, collected, is_complete=False)
    if moved or collected:
        await anyio.to_thread.run_sync(deque, give_space_back(ledger), 0)
    return ArchivalDone(moved, collected)


def give_space_back(ledger: Ledger) -> Iterator[int]:
    """Cut free pages off the ledger's file, a few at a time, and yield how many are left.

    Nothing to do where a server keeps the tables: it has its own way.
    """
    store = ledger.store
    if not isinstance(store, GivesSpaceBack):
        return
    left, before = store.give_space_back(PAGES_AT_ONCE), -1
    while left not in (0, before):
        yield left
        left, before = store.give_space_back(PAGES_AT_ONCE), left
