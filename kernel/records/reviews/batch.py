"""Defines a batch of reviewed memberships (INV-K-BATCH-1, INV-K-BATCH-PARTIAL-1, §14.4).

1. Each item is an operation of its own, by the table of dispositions: it stands, fails and is
   undone alone. A review is of candidates; what it says of one is on the membership's record.
2. A fault of the batch itself (an item twice, a merge into itself) refuses all of it, and nothing
   is recorded. An item that the record does not admit (no such membership, or it is no candidate)
   fails, whose refusal has an operation id and a receipt.
3. The record of the batch is an operation whose id follows from the batch's, so that a batch has
   one record for ever.
4. A retry is a batch that names another one, and holds only items that failed there. Its operations
   are new.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from kernel.algebra.verbs import BATCH_REVIEW, MEMBERSHIP_DEFER
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.numbers import SchemaVersion
from kernel.model.stated_receipts import (
    BATCH_ITEMS_MAX,
    FAILURE_CHARS_MAX,
    BatchReviewOperation,
    ReviewDisposition,
    ReviewedItem,
    ReviewFailure,
)
from kernel.records.reviews.errors import ReviewRefused
from kernel.values.canonical import canonicalize

RECORD_RECEIPT = "batch_review_operation"
SAID_CHARS_MAX = 1024

NAMES_BYTES_MAX = 640 << 10
"""Bytes of the names of a batch in canonical form, an item's counted twice: what its record takes
where every item fails. Codes, ids and messages have the rest of an envelope."""

BatchId = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,200}$")]
"""Visible ASCII, because the id is part of an operation's."""

MembershipId = Annotated[str, StringConstraints(pattern=r"^[^|\x00]{1,400}\|[^\x00]{1,400}$")]
"""The corpus, a bar, and the node."""


Said = Annotated[str, StringConstraints(min_length=1, max_length=SAID_CHARS_MAX)] | None


@dataclass(frozen=True, slots=True)
class Disposing:
    """How a disposition is written."""

    verb: str
    to_state: str
    from_state: str | None = "candidate"
    """The state of the membership that is written; None of one that there is not yet."""

    other: str | None = None
    """The field that names the other of two memberships; none of a disposition of one alone."""

    writes_target: bool = False
    """Whether the membership that is written is the one that `target_disposition_ref` names."""


DISPOSITIONS: Mapping[ReviewDisposition, Disposing] = MappingProxyType(
    {
        "confirm": Disposing("corpus_membership_confirm", "confirmed"),
        "reject": Disposing("corpus_membership_reject", "rejected"),
        "defer": Disposing(MEMBERSHIP_DEFER, "candidate"),
        # The part becomes a candidate beside the item, which stays one.
        "split": Disposing(
            "corpus_membership_add", "candidate", None, other="split_from", writes_target=True
        ),
        "merge_with": Disposing("corpus_membership_reject", "rejected", other="merged_into"),
    }
)


class ReviewItem(BaseModel):
    """One item of a batch, and what is to become of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item_membership_id: MembershipId
    disposition: ReviewDisposition
    target_disposition_ref: MembershipId | None = None
    """For a split the membership of the part, for a merge the one that is kept."""


class BatchReview(BaseModel):
    """A batch as it is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_review_id: BatchId
    source_batch_id: BatchId
    prior_batch_review_ref: BatchId | None = None
    item_operations: Annotated[
        tuple[ReviewItem, ...], Field(min_length=1, max_length=BATCH_ITEMS_MAX, fail_fast=True)
    ]
    reviewed_by: Said = None
    grounds: Said = None
    """Who reviews the batch, and on what grounds, where that is said."""

    schema_version: SchemaVersion = 1

    @property
    def operation_id(self) -> str:
        """The id of the operation that records the batch."""
        return operation_id_of(self.batch_review_id)


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """What became of one item."""

    operation_id: str
    failure_reason_code: str | None = None
    failure_message: str = ""
    is_retryable: bool = False


def operation_id_of(batch_review_id: str) -> str:
    """Return the id of the operation that records a batch."""
    return f"{BATCH_REVIEW}:{batch_review_id}"


def membership_write(item: ReviewItem) -> tuple[str, str, Document]:
    """Return the corpus and the node whose membership an item's operation writes, and the rest."""
    disposing = DISPOSITIONS[item.disposition]
    own, target = item.item_membership_id, item.target_disposition_ref
    written, other = (target, own) if disposing.writes_target else (own, target)
    corpus_id, node_id = str(written).split("|", 1)
    payload: Document = {
        "corpus_id": corpus_id,
        "to_state": disposing.to_state,
        "transition_kind": item.disposition,
    }
    if disposing.from_state is not None:
        payload["from_state"] = disposing.from_state
    if disposing.other is not None:
        payload[disposing.other] = other
    return corpus_id, node_id, payload


def check_items(batch: BatchReview) -> None:
    """Refuse a batch that contradicts itself.

    Raises:
        ReviewRefused: `batch_review_item_repeated`, `batch_review_item_invalid`,
            `batch_review_too_large`.
    """
    _check_size(batch)
    written: dict[str, int] = {}
    for index, item in enumerate(batch.item_operations):
        field = f"item_operations.{index}"
        _check_target(item, field)
        for membership_id in _names_of(item):
            if membership_id in written:
                raise ReviewRefused(
                    "batch_review_item_repeated",
                    f"{membership_id} is in item {written[membership_id]} as well; an item is "
                    "reviewed once in a batch",
                    field,
                )
            written[membership_id] = index


def _check_size(batch: BatchReview) -> None:
    size = sum(
        2 * len(canonicalize(item.item_membership_id))
        + len(canonicalize(item.target_disposition_ref))
        for item in batch.item_operations
    )
    if size > NAMES_BYTES_MAX:
        message = f"its names take {size} bytes, at most {NAMES_BYTES_MAX} are taken"
        raise ReviewRefused("batch_review_too_large", message, "item_operations")


def _names_of(item: ReviewItem) -> tuple[str, ...]:
    """Return the memberships that an item writes, or is about."""
    part = item.target_disposition_ref if DISPOSITIONS[item.disposition].writes_target else None
    return (item.item_membership_id, *([part] if part is not None else ()))


def _check_target(item: ReviewItem, field: str) -> None:
    own, target = item.item_membership_id, item.target_disposition_ref
    needs_target = DISPOSITIONS[item.disposition].other is not None
    place, problem = f"{field}.target_disposition_ref", None
    if needs_target != (target is not None):
        problem = f"{item.disposition} names {'another' if needs_target else 'no other'} membership"
    elif target == own:
        problem = f"{own} is the item itself"
    elif target is not None and target.split("|", 1)[0] != own.split("|", 1)[0]:
        problem = f"{target} is of another corpus than {own}"
    if problem is not None:
        raise ReviewRefused("batch_review_item_invalid", problem, place)


def check_retry(batch: BatchReview, prior: BatchReviewOperation | None) -> None:
    """Refuse a retry of what did not fail; `prior` is the record of the batch that it names.

    Raises:
        ReviewRefused: `batch_review_unknown`, `batch_review_item_not_failed`.
    """
    if batch.prior_batch_review_ref is None:
        return
    if prior is None or prior.source_batch_id != batch.source_batch_id:
        raise ReviewRefused(
            "batch_review_unknown",
            f"{batch.source_batch_id} has no batch review {batch.prior_batch_review_ref}",
            "prior_batch_review_ref",
        )
    failed = {failure.item_membership_id for failure in prior.failure_summary or ()}
    for index, item in enumerate(batch.item_operations):
        if item.item_membership_id not in failed:
            raise ReviewRefused(
                "batch_review_item_not_failed",
                f"{item.item_membership_id} did not fail in {prior.batch_review_id}",
                f"item_operations.{index}.item_membership_id",
            )


def record_of(batch: BatchReview, outcomes: Sequence[ItemOutcome]) -> BatchReviewOperation:
    """Return the record of a batch whose items came to these outcomes, in their order."""
    counts = Counter(item.disposition for item in batch.item_operations)
    judged = tuple(zip(batch.item_operations, outcomes, strict=True))
    failures = [
        ReviewFailure(
            item_membership_id=item.item_membership_id,
            failure_reason_code=outcome.failure_reason_code,
            failure_message=outcome.failure_message[:FAILURE_CHARS_MAX],
            retryable=outcome.is_retryable,
        )
        for item, outcome in judged
        if outcome.failure_reason_code is not None
    ]
    return BatchReviewOperation(
        batch_review_id=batch.batch_review_id,
        source_batch_id=batch.source_batch_id,
        prior_batch_review_ref=batch.prior_batch_review_ref,
        item_operations=[
            ReviewedItem(**item.model_dump(), operation_id=outcome.operation_id)
            for item, outcome in judged
        ],
        total_items=len(judged),
        confirm_count=counts["confirm"],
        reject_count=counts["reject"],
        defer_count=counts["defer"],
        success_count=len(judged) - len(failures),
        failure_count=len(failures),
        failure_summary=failures or None,
        reviewed_by=batch.reviewed_by,
        grounds=batch.grounds,
    )


def asks_for_the_same(batch: BatchReview, recorded: BatchReviewOperation) -> bool:
    """Tell whether a batch asks for what was recorded under its id (K6)."""
    requested: dict[str, Any] = batch.model_dump()
    kept = recorded.model_dump()
    items = [
        {name: item[name] for name in ReviewItem.model_fields} for item in kept["item_operations"]
    ]
    requested["item_operations"] = list(requested["item_operations"])
    return requested == {name: kept[name] for name in requested} | {"item_operations": items}


def recorded_batch(view: LedgerView, batch_review_id: str) -> BatchReviewOperation | None:
    """Return the record of a batch, None where there is none."""
    receipts = view.receipts_of(operation_id_of(batch_review_id))
    for receipt in receipts:
        if receipt["receipt_kind"] == RECORD_RECEIPT:
            body = {
                name: receipt[name] for name in BatchReviewOperation.model_fields if name in receipt
            }
            return BatchReviewOperation.model_validate(body)
    return None
