"""Takes the steps of archival, one after the other, each short enough for writers to wait (§17.7).

What takes long, reading rows and writing to the archive, happens on a snapshot. The head is held
while the rows of one tile move, while the envelopes of one tile go, and while a few free pages are
cut off the file, and never in between. Any number of processes may take steps at once: what one has
done the others find done.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.tables import GivesSpaceBack
from kernel.log_archival import (
    HOT_ROWS_MIN,
    collect_envelopes,
    move_rows,
    next_segment,
    next_to_collect,
    read_segment,
    write_segment,
)

US_PER_DAY = 24 * 3600 * 1_000_000
PAGES_AT_ONCE = 128
"""Free pages that are cut off a file while its writers wait: a mebibyte."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ArchivalStep:
    """What one step has done."""

    rows_moved: int = 0
    envelopes_collected: int = 0


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

    def write(view: LedgerView) -> Callable[[], ArchivalStep] | None:
        index = next_segment(view, before_us, hot_rows_min)
        if index is None:
            return None
        written = write_segment(view, ledger.archive, index)

        def move() -> ArchivalStep:
            with ledger.transaction() as transaction:
                return ArchivalStep(rows_moved=move_rows(transaction, written))

        return move

    def read(view: LedgerView) -> Callable[[], ArchivalStep] | None:
        index = next_to_collect(view, max(ledger.host.now_us(), view.head().committed_at_us))
        if index is None:
            return None
        segment = read_segment(view, ledger.archive, index)

        def collect() -> ArchivalStep:
            with ledger.transaction() as transaction:
                return ArchivalStep(envelopes_collected=collect_envelopes(transaction, segment))

        return collect

    for prepare in (write, read):
        # The snapshot has ended when the head is held.
        while (take := ledger.read(prepare)) is not None:
            yield take()


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
