"""Lists operations, the newest first: for who wants to know what happened just now.

The same filter as in `operations.py`, read backwards along the same indexes. A page looks at a
bounded number of rows and says where to go on.
"""

from itertools import islice

from kernel.audit.operations import (
    SCANNED_ROWS_MAX,
    AuditFilter,
    OperationEntry,
    Page,
    bounds_of,
    candidates,
    matches,
)
from kernel.ledger.ledger import LedgerView
from kernel.ledger.supersession import position_of


def newest_operations(
    view: LedgerView,
    criteria: AuditFilter,
    *,
    before: int | None = None,
    limit: int = 100,
    scanned_rows_max: int = SCANNED_ROWS_MAX,
) -> Page:
    """Return the operations that a filter admits, the newest first, before a sequence.

    `next_after` of the page is the sequence before which to ask again. An operation that took a
    lite one's place stands where it was applied.

    Raises:
        LedgerCorrupt: when a row of the log is not there.
    """
    first, last = bounds_of(view, criteria)
    entries: list[OperationEntry] = []
    scanned, seen = 0, before
    newest_first = candidates(view, criteria, before, descending=True)
    for sequence, row in islice(newest_first, scanned_rows_max):
        # What took a place is applied behind it, so nothing from here on stands within the bounds.
        if sequence < first:
            return Page(tuple(entries), None)
        if len(entries) == limit:
            return Page(tuple(entries), seen)
        scanned, seen = scanned + 1, sequence
        if row is None or not first <= position_of(row) <= last:
            continue
        entry = OperationEntry.of_row(view, row)
        if matches(view, criteria, entry, row):
            entries.append(entry)
    return Page(tuple(entries), seen if scanned == scanned_rows_max else None)
