"""Lists what waits for a person: evidence to confirm or reject, outcomes (§13.5, §13.6).

Three kinds, each a queue of its own in a fixed order: relationship candidates and observations by
their ids, outcomes of bindings in the order in which they were asked for. An item leaves its queue
by the operation that decides on it, and comes back when that is undone (not so an outcome, which is
settled once). A page reads an index, or a table, of what is open, so it costs what it shows however
much was decided (decision workers/0146, decision kernel/0341).
"""

from dataclasses import dataclass
from typing import Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.numbers import SEQUENCE_MAX
from kernel.records.conflicts.adjudications import outcomes_to_review
from kernel.records.reviews.evidence import (
    STORES,
    EvidenceDocument,
    EvidenceKind,
    evidence_of,
    why_a_person_decides,
)

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


_DIGITS_MAX = len(str(SEQUENCE_MAX))


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """Some of the items of one queue."""

    items: tuple[OpenReviewDocument, ...]
    next_after: str | None

    def document(self) -> ReviewPageDocument:
        """Return the page as JSON has it."""
        return {"items": list(self.items), "next_after": self.next_after}


def is_place(kind: ReviewKind, after: str) -> bool:
    """Tell whether a text can be where a page of a queue goes on; outcomes have numbers."""
    if kind != "outcome" or not after:
        return True
    is_number = after.isascii() and after.isdigit() and len(after) <= _DIGITS_MAX
    return is_number and int(after) <= SEQUENCE_MAX


def open_reviews(
    view: LedgerView, kind: ReviewKind, *, after: str = "", limit: int = REVIEWS_MAX
) -> ReviewPage:
    """Return items of a queue after a place that a page has named, the first ones by default.

    Raises:
        ValueError: `after` is no place of the queue.
    """
    if kind == "outcome":
        waiting = outcomes_to_review(view, after=int(after or 0), limit=limit + 1)
        places = [str(place) for place, _ in waiting]
        items = [_outcome(receipt) for _, receipt in waiting[:limit]]
    else:
        table = STORES[kind].table
        (column,) = key_names(table)
        rows = view.tables.scan(
            TableQuery(table, {"is_open": 1}, order_by=column, after=after or None, limit=limit + 1)
        )
        places = [row[column] for row in rows]
        items = [_evidence(view, kind, row, column) for row in rows[:limit]]
    next_after = places[limit - 1] if len(places) > limit else None
    return ReviewPage(tuple(items), next_after)


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


def _outcome(receipt: Document) -> OpenReviewDocument:
    return {
        "kind": "outcome",
        "record_id": receipt["receipt_id"],
        "waits_since": receipt["emitted_at"],
        "reason": receipt["result"].get("outcome_reason_code"),
        "record": receipt["result"],
    }
