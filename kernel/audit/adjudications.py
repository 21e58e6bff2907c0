"""Lists what a person has to settle, and who settled which, in pages (§2.8, §19.3).

One queue holds conflicts, the other the lite envelopes that migration could not map.

Open items come in the order in which they were queued, resolved ones in the order in which they
were resolved. A page costs a bounded number of rows. It may hold fewer items than asked for and
still name where to go on: only `next_after = None` means that there is nothing more.
"""

from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

from kernel.audit.operations import stored_document
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import SEARCH_ROWS, Row, TableQuery
from kernel.model.envelope import MAX_ADJUDICATED
from kernel.records.conflicts.adjudications import ITEM_KIND, item, resolution_of

SCANNED_ROWS_MAX = 2000
"""Items that one page looks at."""


AdjudicationState = Literal["open", "resolved"]


class AdjudicationDocument(TypedDict):
    """One item of the review queue; `receipt` is the whole receipt."""

    state: AdjudicationState
    resolved_by_operation_id: str | None
    resolved_at: str | None
    receipt: Document


@dataclass(frozen=True, slots=True)
class Adjudication:
    """One item of the review queue, with the operation that resolved it."""

    receipt: Document
    """The whole receipt: the conflicts, what exists, and the envelope that was held back; or what
    a lite envelope lacks, and where on the log it is."""

    resolved_by_operation_id: str | None
    resolved_at: str | None

    def document(self) -> AdjudicationDocument:
        """Return the item as JSON has it."""
        return {
            "state": "open" if self.resolved_by_operation_id is None else "resolved",
            "resolved_by_operation_id": self.resolved_by_operation_id,
            "resolved_at": self.resolved_at,
            "receipt": self.receipt,
        }


@dataclass(frozen=True, slots=True)
class AdjudicationPage:
    """Some of the items."""

    items: tuple[Adjudication, ...]
    next_after: int | None
    """Where the next page begins: a receipt's sequence for open items, else an operation's."""


def adjudications(
    view: LedgerView,
    state: AdjudicationState = "open",
    *,
    kind: str = ITEM_KIND,
    after: int = 0,
    limit: int = 100,
) -> AdjudicationPage:
    """Return items of a review queue, open or resolved, after a sequence.

    Raises:
        LedgerCorrupt: when a stored receipt cannot be read.
    """
    if state == "open":
        return _open_items(view, kind, after, limit)
    return _resolved_items(view, kind, after, limit)


def _open_items(view: LedgerView, kind: str, after: int, limit: int) -> AdjudicationPage:
    items: list[Adjudication] = []
    scanned = 0
    while scanned < SCANNED_ROWS_MAX:
        query = TableQuery(
            schema.receipts,
            {"receipt_kind": kind},
            order_by="receipt_sequence",
            after=after,
            limit=SEARCH_ROWS,
        )
        rows = view.tables.scan(query)
        for row in rows:
            after = row["receipt_sequence"]
            if resolution_of(view, row["receipt_id"]) is None:
                name = f"receipt {row['receipt_id']}"
                receipt = stored_document(row["receipt_bytes"], name)
                items.append(Adjudication(receipt, None, None))
                if len(items) == limit:
                    return AdjudicationPage(tuple(items), after)
        if len(rows) < SEARCH_ROWS:
            return AdjudicationPage(tuple(items), None)
        scanned += len(rows)
    return AdjudicationPage(tuple(items), after)


def _resolved_items(view: LedgerView, kind: str, after: int, limit: int) -> AdjudicationPage:
    rows: list[Row] = []
    # One operation may resolve several items: a page ends with all of the last one's.
    for row in _in_order_of_resolution(view, after, limit):
        if len(rows) >= limit and row["ec_sequence_number"] != rows[-1]["ec_sequence_number"]:
            break
        rows.append(row)
    items = []
    for row in rows:
        receipt = item(view, row["receipt_id"])
        if receipt is not None and receipt["receipt_kind"] == kind:
            items.append(Adjudication(receipt, row["operation_id"], row["adjudicated_at"]))
    is_full = len(rows) >= limit
    return AdjudicationPage(tuple(items), rows[-1]["ec_sequence_number"] if is_full else None)


def _in_order_of_resolution(view: LedgerView, after: int, limit: int) -> list[Row]:
    query = TableQuery(
        schema.adjudications,
        order_by="ec_sequence_number",
        after=after,
        limit=limit + MAX_ADJUDICATED,
    )
    return view.tables.scan(query)
