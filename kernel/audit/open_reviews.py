"""What waits for a person: evidence to confirm or reject, and outcomes to look at (§13.5, §13.6).

Three kinds, each a queue of its own in a fixed order: relationship candidates and observations by
their ids, outcomes of bindings in the order of their receipts. An item leaves its queue by the
operation that decides on it, and comes back when that is undone (not so an outcome, which is
settled once). Evidence is read by an index of what is open, so a page costs the same however much
was decided (decision workers/0146). A page looks at a bounded number of rows. It may hold fewer
items than asked for and still name where to go on: only `next_after = None` means that there is
nothing more.
"""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from kernel.conflicts.adjudications import OUTCOME_KIND, is_outcome_to_review, resolution_of
from kernel.ledger import schema
from kernel.ledger.keys import key_names
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.tables import Row
from kernel.reviews.evidence import (
    STORES,
    EvidenceDocument,
    EvidenceKind,
    evidence_of,
    why_a_person_decides,
)

SCANNED_ROWS_MAX = 2000
"""Rows that one page looks at."""

PAGE_ROWS = 200
REVIEWS_MAX = 100
"""Items of one page: what speaks for and against each is read again."""

NOT_CONFIRMED_YET = "not_confirmed_yet"
"""Why evidence waits that the safe path admits."""

ReviewKind = Literal["relationship", "observation", "outcome"]


class OpenReviewDocument(TypedDict):
    """What waits for a person; an outcome has no evidence and no operation that wrote it."""

    kind: ReviewKind
    record_id: str
    waits_since: str
    written_by_operation_id: NotRequired[str]
    reason: str | None
    evidence: NotRequired[EvidenceDocument]
    record: Document


class ReviewPageDocument(TypedDict):
    """A page of what waits for a person."""

    items: list[OpenReviewDocument]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """Some of the items of one queue."""

    items: tuple[OpenReviewDocument, ...]
    next_after: str | None

    def document(self) -> ReviewPageDocument:
        """Return the page as JSON has it."""
        return {"items": list(self.items), "next_after": self.next_after}


def open_reviews(
    view: LedgerView, kind: ReviewKind, *, after: str = "", limit: int = REVIEWS_MAX
) -> ReviewPage:
    """Return items of a queue after a place that a page has named, the first ones by default.

    Raises:
        ValueError: `after` is no place of the queue.
    """
    table, column = schema.receipts, "receipt_sequence"
    where: dict[str, Any] = {"receipt_kind": OUTCOME_KIND}
    place: Any = int(after or 0) if kind == "outcome" else after or None
    if kind != "outcome":
        table = STORES[kind].table
        (column,) = key_names(table)
        where = {"is_open": 1}
    items: list[OpenReviewDocument] = []
    scanned = 0
    while scanned < SCANNED_ROWS_MAX:
        rows = view.tables.select(table, where, order_by=column, after=place, limit=PAGE_ROWS)
        for row in rows:
            place = row[column]
            item = _outcome(view, row) if kind == "outcome" else _evidence(view, kind, row, column)
            if item is not None:
                items.append(item)
                if len(items) == limit:
                    return ReviewPage(tuple(items), str(place))
        if len(rows) < PAGE_ROWS:
            return ReviewPage(tuple(items), None)
        scanned += len(rows)
    return ReviewPage(tuple(items), str(place))


def _evidence(view: LedgerView, kind: EvidenceKind, row: Row, column: str) -> OpenReviewDocument:
    record: Document = orjson.loads(row["record"])
    evidence = evidence_of(view, kind, row[column], record)
    return {
        "kind": kind,
        "record_id": row[column],
        "waits_since": record["updated_at"],
        "written_by_operation_id": record["updated_by_operation_id"],
        "reason": why_a_person_decides(evidence) or NOT_CONFIRMED_YET,
        "evidence": evidence.document(),
        "record": record["payload"],
    }


def _outcome(view: LedgerView, row: Row) -> OpenReviewDocument | None:
    receipt: Document = orjson.loads(row["receipt_bytes"])
    if not is_outcome_to_review(receipt) or resolution_of(view, row["receipt_id"]) is not None:
        return None
    return {
        "kind": "outcome",
        "record_id": row["receipt_id"],
        "waits_since": receipt["emitted_at"],
        "reason": receipt["result"].get("outcome_reason_code"),
        "record": receipt["result"],
    }
