"""An archive in memory, and ledgers whose rows lie in it."""

from typing import Any
from unittest.mock import patch

from kernel.ledger.archive import Archive
from kernel.ledger.ledger import Ledger
from kernel.retention import model_retention
from kernel.retention.log_archival import (
    GRACE_US,
    collect_envelopes,
    move_rows,
    next_segment,
    next_to_collect,
    read_segment,
    write_segment,
)
from kernel.retention.model_retention import read_past_segment, release_segment

LATER = 1 << 62


class MemoryFiles(dict):
    """The files of an archive."""

    def put(self, name, content):
        self[name] = content

    def delete(self, name):
        self.pop(name, None)

    def names(self):
        return iter(self)


def memory_archive():
    return Archive(MemoryFiles())


def archive_next(ledger):
    """Move the next segment, however young; False where the rows do not fill one."""
    with ledger.view() as view:
        index = next_segment(view, LATER, hot_rows_min=0)
        if index is None:
            return False
        written = write_segment(view, ledger.archive, index)
    with ledger.transaction() as transaction:
        return move_rows(transaction, written)


def collect_next(ledger, host):
    """Collect the next segment's envelopes once their grace is over; how many there were."""
    host.time_us += 2 * GRACE_US
    with ledger.view() as view:
        index = next_to_collect(view, host.time_us)
        if index is None:
            return 0
        read = read_segment(view, ledger.archive, index)
    with ledger.transaction() as transaction:
        return collect_envelopes(transaction, read)


def release(ledger: Ledger, operation_id: str) -> int:
    """End an operation's references to answers, as the only row of a segment long past.

    Returns how many operations were released.
    """
    of_one_row: dict[str, Any] = {"SEGMENT_ROWS": 1, "first_sequence_of": lambda index: index + 1}
    with patch.multiple(model_retention, **of_one_row), ledger.transaction() as transaction:
        row = transaction.log_row_of(operation_id)
        assert row is not None
        past = read_past_segment(transaction, row["ec_sequence_number"] - 1)
        return release_segment(transaction, past)
