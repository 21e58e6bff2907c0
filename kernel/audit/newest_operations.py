"""Which operations did what, the newest first: for who wants to know what happened just now.

The same filter as in `operations.py`, read backwards along the same indexes. A page looks at a
bounded number of rows and says where to go on.
"""

import heapq
from collections.abc import Iterator
from itertools import islice

from kernel.audit.operations import (
    PAGE_ROWS,
    SCANNED_ROWS_MAX,
    WRITTEN_STORES,
    AuditFilter,
    OperationEntry,
    Page,
    bounds_of,
    matches,
)
from kernel.errors import LedgerCorrupt
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.supersession import in_force_at, position_of
from kernel.ledger.tables import Row
from kernel.model.lite import LITE_INTENT


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
    for sequence, row in islice(_candidates(view, criteria, before), scanned_rows_max):
        # What took a place is applied behind it, so nothing from here on stands within the bounds.
        if sequence < first:
            return Page(tuple(entries), None)
        if len(entries) == limit:
            return Page(tuple(entries), seen)
        scanned, seen = scanned + 1, sequence
        if row is None or not first <= position_of(row) <= last:
            continue
        entry = OperationEntry.of_row(row)
        if matches(view, criteria, entry, row):
            entries.append(entry)
    return Page(tuple(entries), seen if scanned == scanned_rows_max else None)


def _candidates(
    view: LedgerView, criteria: AuditFilter, before: int | None
) -> Iterator[tuple[int, Row | None]]:
    if criteria.entity is not None and not criteria.declared:
        yield from _written(view, criteria.entity, before)
        return
    columns = {"session_id": criteria.session_id, "semantic_intent": criteria.semantic_intent}
    where = {name: value for name, value in columns.items() if value is not None}
    streams = [_log_rows(view, where, before)]
    if criteria.semantic_intent not in (None, LITE_INTENT):
        # A lite row does not say the verb of what took its place.
        streams.append(_log_rows(view, where | {"semantic_intent": LITE_INTENT}, before))
    merged = heapq.merge(*streams, key=lambda row: int(row["ec_sequence_number"]), reverse=True)
    for row in merged:
        yield row["ec_sequence_number"], in_force_at(view, row)


def _log_rows(view: LedgerView, where: Document, before: int | None) -> Iterator[Row]:
    while True:
        rows = view.tables.select(
            schema.kernel_event_log,
            where,
            order_by="ec_sequence_number",
            after=before,
            descending=True,
            limit=PAGE_ROWS,
        )
        yield from rows
        if len(rows) < PAGE_ROWS:
            return
        before = rows[-1]["ec_sequence_number"]


def _written(view: LedgerView, key: str, before: int | None) -> Iterator[tuple[int, Row | None]]:
    stores = [_sequences_that_wrote(view, store, key, before) for store in WRITTEN_STORES]
    newest: int | None = None
    for sequence in heapq.merge(*stores, reverse=True):
        if sequence == newest:
            continue
        newest = sequence
        row = view.tables.get(schema.kernel_event_log, sequence)
        if row is None:
            raise LedgerCorrupt(f"row {sequence} of the log is missing")
        yield sequence, row


def _sequences_that_wrote(
    view: LedgerView, store: str, key: str, before: int | None
) -> Iterator[int]:
    while True:
        rows = view.tables.select(
            schema.applied_effects,
            {"store": store, "record_key": key},
            order_by="ec_sequence_number",
            after=before,
            descending=True,
            limit=PAGE_ROWS,
        )
        for row in rows:
            # An operation may write a record more than once.
            if before is None or row["ec_sequence_number"] < before:
                before = row["ec_sequence_number"]
                yield before
        if len(rows) < PAGE_ROWS:
            return
