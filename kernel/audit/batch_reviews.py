"""Describes a batch that was reviewed, with the state of every item as it is now (§14.4)."""

from typing import Annotated, Literal, NotRequired, cast

from typing_extensions import TypedDict

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.model.dumped import DumpOf
from kernel.model.stated_receipts import BatchReviewOperation, ReviewDisposition, ReviewFailure
from kernel.records.memberships import membership_of
from kernel.records.reviews.batch import operation_id_of, recorded_batch
from kernel.records.rollback_marks import mark_of

RETRIES_MAX = 100
"""Retries of one batch that are listed, the first of them."""


class ReviewedItemDocument(TypedDict):
    """An item of a batch, what became of it, and the state of its membership now."""

    item_membership_id: str
    disposition: ReviewDisposition
    target_disposition_ref: NotRequired[str]
    operation_id: str
    result: Literal["succeeded", "failed"]
    membership_state: str | None
    failure_reason_code: NotRequired[str]
    failure_message: NotRequired[str]
    retryable: NotRequired[bool]
    undone_by_operation_id: NotRequired[str]
    retried_in: NotRequired[str]


class ReviewedBatchDocument(TypedDict):
    """A batch that was reviewed, as it is now."""

    batch_review_id: str
    source_batch_id: str
    prior_batch_review_ref: NotRequired[str]
    item_operations: list[ReviewedItemDocument]
    total_items: int
    confirm_count: int
    reject_count: int
    defer_count: int
    success_count: int
    failure_count: int
    failure_summary: NotRequired[list[Annotated[Document, DumpOf(ReviewFailure)]]]
    reviewed_by: NotRequired[str]
    grounds: NotRequired[str]
    schema_version: int
    retry_batch_review_ids: list[str]


def reviewed_batch(view: LedgerView, batch_review_id: str) -> ReviewedBatchDocument | None:
    """Return a batch, what became of its items, and its retries; None where there is none."""
    record = recorded_batch(view, batch_review_id)
    if record is None:
        return None
    retries = _retries(view, batch_review_id)
    document = record.model_dump(mode="json", exclude_none=True) | {
        "item_operations": _items(view, record, retries),
        "retry_batch_review_ids": [retry.batch_review_id for retry in retries],
    }
    return cast("ReviewedBatchDocument", document)


def _items(
    view: LedgerView, record: BatchReviewOperation, retries: list[BatchReviewOperation]
) -> list[Document]:
    failures = {
        failure.item_membership_id: failure.model_dump(exclude={"item_membership_id"})
        for failure in record.failure_summary or ()
    }
    retried_in = {
        item.item_membership_id: retry.batch_review_id
        for retry in retries
        for item in retry.item_operations
    }
    items = []
    for item in record.item_operations:
        name = item.item_membership_id
        document = item.model_dump(mode="json", exclude_none=True)
        document["result"] = "failed" if name in failures else "succeeded"
        membership = membership_of(view, name)
        document["membership_state"] = None if membership is None else membership["state"]
        if name in failures:
            document |= failures[name]
        elif undone_by := mark_of(view, item.operation_id)["undone_by"]:
            document["undone_by_operation_id"] = undone_by
        if name in retried_in:
            document["retried_in"] = retried_in[name]
        items.append(document)
    return items


def _retries(view: LedgerView, batch_review_id: str) -> list[BatchReviewOperation]:
    """Return the retries of a batch, in their order: each names the batch among its causes."""
    query = TableQuery(
        schema.causal_parents,
        {"parent_operation_id": operation_id_of(batch_review_id)},
        order_by="ec_sequence_number",
        limit=RETRIES_MAX,
    )
    rows = view.tables.scan(query)
    prefix = operation_id_of("")
    retries = []
    for row in rows:
        caused = view.log_row_at(row["ec_sequence_number"])
        if caused is not None and caused["operation_id"].startswith(prefix):
            retry = recorded_batch(view, caused["operation_id"].removeprefix(prefix))
            retries += [] if retry is None else [retry]
    return retries
