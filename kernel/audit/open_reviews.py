"""Lists what waits for a person, each item with the words that it was read from (§13.5, §13.6).

Each kind is a queue of its own in a fixed order: evidence, memberships and quarantines by their
ids, outcomes of bindings in the order in which they were asked for, conflicts and what migration
holds in that in which they were queued. An item leaves its queue by the operation that decides on
it, and comes back when that is undone (not so what is settled once: outcomes, conflicts, what
migration holds, quarantines). A page reads an index, or a table, of what is open, so it costs what
it shows however much was decided (decision workers/0146, decision kernel/0341).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NotRequired, get_args

import orjson
from sqlalchemy import Table
from typing_extensions import TypedDict

from kernel.audit.adjudications import adjudications
from kernel.audit.review_words import (
    PassageDocument,
    ReaderDocument,
    passages_of,
    reader_of,
    reader_of_envelope,
)
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.quarantine import LogQuarantine, range_document
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import Row, TableQuery
from kernel.ledger.supersession import lite_document
from kernel.model.numbers import SEQUENCE_MAX
from kernel.model.receipt import MIGRATION_KIND
from kernel.records.conflicts.adjudications import ITEM_KIND, outcomes_to_review
from kernel.records.reviews.evidence import (
    STORES,
    EvidenceDocument,
    EvidenceKind,
    evidence_of,
    why_a_person_decides,
)
from kernel.records.texts import text_at
from kernel.work.receipts import EVALUATION

REVIEWS_MAX = 100
"""Items of one page: what speaks for and against each, and its words, are read again."""

NOT_CONFIRMED_YET = "not_confirmed_yet"
"""Why evidence waits that the safe path admits."""

ReviewKind = Literal[
    "relationship", "observation", "outcome", "membership", "conflict", "migration", "quarantine"
]
REVIEW_KINDS: tuple[ReviewKind, ...] = get_args(ReviewKind)

BY_NUMBER = ("outcome", "conflict", "migration")
"""The kinds whose queues go on after a number."""


class OpenReviewDocument(TypedDict):
    """What waits for a person, with the words of its sources, and who read it.

    Evidence alone has evidence; evidence and memberships have an operation that wrote them.
    """

    kind: ReviewKind
    record_id: str
    waits_since: str
    written_by_operation_id: NotRequired[str]
    reason: str | None
    evidence: NotRequired[EvidenceDocument]
    record: Document
    passages: list[PassageDocument]
    read_by: ReaderDocument | None
    """None where nothing says it any more, or nobody read anything."""


class ReviewPageDocument(TypedDict):
    """A page of what waits for a person."""

    items: list[OpenReviewDocument]
    next_after: str | None


class ReviewCountsDocument(TypedDict):
    """How many items wait for a person by kind, each counted up to `counted_max`."""

    relationship: int
    observation: int
    outcome: int
    membership: int
    conflict: int
    migration: int
    quarantine: int
    counted_max: int


_OF_RECEIPT = ("receipt_id", "receipt_kind", "emitted_at", "reason_code")

COUNTED_MAX = 1000
"""Items of a kind that are counted; of conflicts and migrations so many of the newest are read."""

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
    """Tell whether a text can be where a page of a queue goes on; some queues have numbers."""
    if kind not in BY_NUMBER or not after:
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
    return _PAGES[kind](view, kind, after, limit)


def _evidence_page(view: LedgerView, kind: Any, after: str, limit: int) -> ReviewPage:
    table = STORES[kind].table
    (column,) = key_names(table)
    rows, next_after = _open_rows(view, table, column, after, limit)
    return ReviewPage(tuple(_evidence(view, kind, row, column) for row in rows), next_after)


def _membership_page(view: LedgerView, _: ReviewKind, after: str, limit: int) -> ReviewPage:
    table = schema.corpus_membership_records
    rows, next_after = _open_rows(view, table, "membership_id", after, limit)
    return ReviewPage(tuple(_membership(view, row) for row in rows), next_after)


def _open_rows(
    view: LedgerView, table: Table, column: str, after: str, limit: int
) -> tuple[list[Row], str | None]:
    """Return what waits in a table, in the order of a column, and where the next page goes on."""
    query = TableQuery(table, {"is_open": 1}, order_by=column, after=after or None, limit=limit + 1)
    rows = view.tables.scan(query)
    return rows[:limit], rows[limit - 1][column] if len(rows) > limit else None


def _outcome_page(view: LedgerView, _: ReviewKind, after: str, limit: int) -> ReviewPage:
    waiting = outcomes_to_review(view, after=int(after or 0), limit=limit + 1)
    items = tuple(_outcome(view, receipt) for _, receipt in waiting[:limit])
    return ReviewPage(items, str(waiting[limit - 1][0]) if len(waiting) > limit else None)


def _adjudication_page(view: LedgerView, kind: ReviewKind, after: str, limit: int) -> ReviewPage:
    receipt_kind = ITEM_KIND if kind == "conflict" else MIGRATION_KIND
    page = adjudications(view, kind=receipt_kind, after=int(after or 0), limit=limit)
    items = tuple(_adjudication(view, kind, item.receipt) for item in page.items)
    return ReviewPage(items, None if page.next_after is None else str(page.next_after))


def _quarantine_page(view: LedgerView, _: ReviewKind, after: str, limit: int) -> ReviewPage:
    standing = sorted(view.quarantines().standing, key=lambda each: each.quarantine_id)
    rows = [each for each in standing if each.quarantine_id > after]
    next_after = rows[limit - 1].quarantine_id if len(rows) > limit else None
    return ReviewPage(tuple(map(_quarantine, rows[:limit])), next_after)


_PAGES: Mapping[ReviewKind, Callable[[LedgerView, Any, str, int], ReviewPage]] = MappingProxyType(
    {
        "relationship": _evidence_page,
        "observation": _evidence_page,
        "outcome": _outcome_page,
        "membership": _membership_page,
        "conflict": _adjudication_page,
        "migration": _adjudication_page,
        "quarantine": _quarantine_page,
    }
)


def count_open_reviews(view: LedgerView) -> ReviewCountsDocument:
    """Return how many items of each kind wait for a person."""
    outcomes = TableQuery(schema.outcomes_to_review, limit=COUNTED_MAX)
    members = TableQuery(schema.corpus_membership_records, {"is_open": 1}, limit=COUNTED_MAX)
    return {
        "relationship": _count_evidence(view, "relationship"),
        "observation": _count_evidence(view, "observation"),
        "outcome": view.tables.count(outcomes),
        "membership": view.tables.count(members),
        "conflict": _count_unresolved(view, ITEM_KIND),
        "migration": _count_unresolved(view, MIGRATION_KIND),
        "quarantine": len(view.quarantines().standing),
        "counted_max": COUNTED_MAX,
    }


def _count_evidence(view: LedgerView, kind: EvidenceKind) -> int:
    return view.tables.count(TableQuery(STORES[kind].table, {"is_open": 1}, limit=COUNTED_MAX))


def _count_unresolved(view: LedgerView, kind: str) -> int:
    """Return how many of the newest items of a kind no operation has resolved."""
    newest = TableQuery(
        schema.receipts,
        {"receipt_kind": kind},
        columns=("receipt_id",),
        order_by="receipt_sequence",
        descending=True,
        limit=COUNTED_MAX,
    )
    ids = [receipt_id for (receipt_id,) in view.tables.scan(newest)]
    resolved = TableQuery(schema.adjudications, any_of=("receipt_id", ids), columns=("receipt_id",))
    return len(ids) - len(view.tables.scan(resolved))


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
        "passages": passages_of(view, record["payload"]),
        "read_by": reader_of(view, record["updated_by_operation_id"]),
    }


def _membership(view: LedgerView, row: Row) -> OpenReviewDocument:
    record: Document = orjson.loads(row["record"])
    node = view.node(record["node_id"])
    payload = {} if node is None else node["payload"]
    writer = record["updated_by_operation_id"]
    reader = reader_of(view, writer if node is None else node["created_by_operation_id"])
    extracted = payload.get("extracted") or {}
    extractor = extracted.get("extractor")
    if reader is not None and isinstance(extractor, str):
        reader["model"] = extractor
    return {
        "kind": "membership",
        "record_id": row["membership_id"],
        "waits_since": record["updated_at"],
        "written_by_operation_id": writer,
        "reason": NOT_CONFIRMED_YET,
        "record": record | {"member": _member(node, payload, extracted)},
        "passages": passages_of(view, payload, _member_words(view, record["node_id"])),
        "read_by": reader,
    }


def _member(node: Document | None, payload: Document, extracted: Document) -> Document:
    """Return what a member is, as far as a few fields say it."""
    said = {name: payload[name] for name in _OF_MEMBER if name in payload}
    value: Document = {name: extracted[name] for name in ("field", "value") if name in extracted}
    return {} if node is None else {"node_kind": node["node_kind"], **said, **value}


_OF_MEMBER = ("title", "caption", "content_kind", "case_ref")


def _member_words(view: LedgerView, node_id: str) -> dict[str, str]:
    return {} if text_at(view, node_id) is None else {node_id: "the member"}


def _outcome(view: LedgerView, receipt: Document) -> OpenReviewDocument:
    result = receipt["result"]
    read = (result.get(EVALUATION) or {}).get("evaluated_on") or {}
    artifact = read.get("artifact_ref")
    return {
        "kind": "outcome",
        "record_id": receipt["receipt_id"],
        "waits_since": receipt["emitted_at"],
        "reason": result.get("outcome_reason_code"),
        "record": result,
        "passages": passages_of(view, {}, {artifact: "the document"} if artifact else None),
        "read_by": {
            "operation_id": None,
            "actor": "system",
            "at": receipt["emitted_at"],
            "rules_version": None,
            "binding_id": result.get("binding_id"),
            "binding_generation_id": read.get("binding_generation_id"),
            "detector": None,
            "model": None,
        },
    }


def _adjudication(view: LedgerView, kind: ReviewKind, receipt: Document) -> OpenReviewDocument:
    envelope = receipt.get("envelope") or _lite(view, receipt)
    effects = [effect.get("payload") for effect in envelope.get("primitive_effects") or ()]
    stated = next((each for each in effects if isinstance(each, dict)), {})
    sources = dict.fromkeys(envelope.get("source_refs") or (), "the source")
    record = {name: value for name, value in receipt.items() if name not in _OF_RECEIPT}
    return {
        "kind": kind,
        "record_id": receipt["receipt_id"],
        "waits_since": receipt["emitted_at"],
        "reason": receipt.get("reason_code"),
        "record": record | {"envelope": envelope},
        "passages": passages_of(view, stated, sources),
        "read_by": None if not envelope else reader_of_envelope(envelope),
    }


def _lite(view: LedgerView, receipt: Document) -> Document:
    """Return the lite envelope that a receipt of migration holds, empty where its row is gone."""
    row = view.tables.get(schema.kernel_event_log, int(receipt["ec_sequence_number"]))
    return {} if row is None else lite_document(view, row)


def _quarantine(quarantine: LogQuarantine) -> OpenReviewDocument:
    return {
        "kind": "quarantine",
        "record_id": quarantine.quarantine_id,
        "waits_since": quarantine.found_at,
        "reason": quarantine.finding,
        "record": {
            "ranges": [range_document(rows) for rows in quarantine.ranges],
            "records": [key._asdict() for key in quarantine.records],
        },
        "passages": [],
        "read_by": None,
    }
