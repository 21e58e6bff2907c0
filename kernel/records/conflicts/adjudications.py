"""Keeps what a person has to settle, as receipts, and which operation settled it.

An item is a durable receipt: of a conflict, with the whole envelope in it, of a lite envelope that
migration cannot map (§2.8), which is on the log, or of an outcome of a binding (§13.5). It is open
until an operation that names it has been applied; which operation that was is folded from the log.
Whether an item exists is asked before applying (V12), because receipts of refusals are not part of
the fold.
"""

from typing import Any

import orjson

from kernel.algebra.verbs import REVIEW_DISCARD
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.receipt import MIGRATION_KIND
from kernel.records.operation_steps import AppliedOperation
from kernel.values.errors import EffectInapplicable, LedgerCorrupt

ITEM_KIND = "envelope_conflict_user_review_required"
ITEM_KINDS = frozenset({ITEM_KIND, MIGRATION_KIND})
OUTCOME_KIND = "work_request_closed"
"""The receipt that says what a binding came to; one that a person has to look at is an item."""

RESOLVED_CODE = "envelope_adjudication_resolved"


def item(view: LedgerView, receipt_id: str) -> Document | None:
    """Return an item of a queue, open or resolved."""
    rows = view.tables.scan(TableQuery(schema.receipts, {"receipt_id": receipt_id}, limit=1))
    if not rows or rows[0]["receipt_kind"] not in ITEM_KINDS | {OUTCOME_KIND}:
        return None
    document: Document = orjson.loads(rows[0]["receipt_bytes"])
    is_item = rows[0]["receipt_kind"] in ITEM_KINDS or is_outcome_to_review(document)
    return document if is_item else None


def is_outcome_to_review(receipt: Document) -> bool:
    """Tell whether a receipt is of an outcome that a person has to look at (§13.5)."""
    result = receipt.get("result")
    return isinstance(result, dict) and result.get("outcome_state") == "user_review_required"


def note_outcome_to_review(
    transaction: LedgerTransaction, receipt_id: str, request_sequence: int
) -> None:
    """Put an outcome into its queue, in the transaction that gives it to its request."""
    row = {"receipt_id": receipt_id, "request_sequence": request_sequence}
    transaction.tables.put(schema.outcomes_to_review, row)


def outcomes_to_review(view: LedgerView, *, after: int, limit: int) -> list[tuple[int, Document]]:
    """Return outcomes that a person has to look at: the place of each, and its receipt."""
    rows = view.tables.scan(
        TableQuery(schema.outcomes_to_review, order_by="request_sequence", after=after, limit=limit)
    )
    return [(row["request_sequence"], _receipt(view, row["receipt_id"])) for row in rows]


def _receipt(view: LedgerView, receipt_id: str) -> Document:
    rows = view.tables.scan(TableQuery(schema.receipts, {"receipt_id": receipt_id}, limit=1))
    if not rows:
        raise LedgerCorrupt(f"{receipt_id} waits to be looked at and is not on record")
    receipt: Document = orjson.loads(rows[0]["receipt_bytes"])
    return receipt


def items_of(view: LedgerView, operation_id: str, kind: str) -> list[Document]:
    """Return the items of one queue that are about an operation, open or resolved."""
    rows = view.tables.scan(TableQuery(schema.receipts, {"operation_id": operation_id}))
    return [orjson.loads(row["receipt_bytes"]) for row in rows if row["receipt_kind"] == kind]


def resolution_of(view: LedgerView, receipt_id: str) -> Row | None:
    """Return the row of the operation that resolved an item, None while it is open."""
    return view.tables.get(schema.adjudications, receipt_id)


def open_item_of(view: LedgerView, document: Document) -> str | None:
    """Return the open item that holds this very envelope already."""
    rows = view.tables.scan(TableQuery(schema.receipts, {"operation_id": document["operation_id"]}))
    for row in rows:
        if row["receipt_kind"] != ITEM_KIND or resolution_of(view, row["receipt_id"]) is not None:
            continue
        receipt: Any = orjson.loads(row["receipt_bytes"])
        if receipt["envelope"] == document:
            return str(row["receipt_id"])
    return None


def record_adjudications(operation: AppliedOperation) -> None:
    """Record that an operation resolved the items that it names.

    Raises:
        EffectInapplicable: when an item was resolved before.
    """
    transaction = operation.transaction
    for index, receipt_id in enumerate(operation.envelope.adjudicates_receipt_ids):
        if resolution_of(transaction, receipt_id) is not None:
            raise EffectInapplicable(
                f"{receipt_id} was resolved before",
                code=RESOLVED_CODE,
                field=f"adjudicates_receipt_ids.{index}",
            )
        transaction.tables.insert(
            schema.adjudications,
            {
                "receipt_id": receipt_id,
                "operation_id": operation.operation_id,
                "ec_sequence_number": operation.sequence,
                "adjudicated_at": operation.applied_at,
            },
        )
        if transaction.tables.get(schema.outcomes_to_review, receipt_id) is not None:
            transaction.tables.delete(schema.outcomes_to_review, receipt_id)


def check_discard(operation: AppliedOperation) -> None:
    """Refuse an operation that settles items without doing anything about them, and names none.

    Raises:
        EffectInapplicable: `envelope_adjudication_unknown`.
    """
    if not operation.envelope.adjudicates_receipt_ids:
        raise EffectInapplicable(
            f"{REVIEW_DISCARD} names the items that it settles",
            code="envelope_adjudication_unknown",
            field="adjudicates_receipt_ids",
        )
