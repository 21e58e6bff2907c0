"""Records reviews: a batch of memberships, a decision about evidence (§13.6, §14.4).

A batch is one transaction, so a crash leaves all of it or nothing: the operations of its items and
its record are durable together, and one item that is refused changes nothing for the others
(decision kernel/0293).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from actors.commit.unit_context import CommitContext
from actors.commit.units import Submitted
from actors.error_codes import is_retryable
from actors.orchestrator.intents import (
    Adjudicate,
    Intent,
    RecordBatchReview,
    ReviewMembership,
)
from kernel.ledger.ledger import Document
from kernel.migration.review_items import discard, take
from kernel.model.dumped import DumpOf
from kernel.model.envelope import ItemDecision
from kernel.model.result import RejectedResult
from kernel.model.stated_receipts import BatchReviewOperation, ReviewedItem, ReviewFailure
from kernel.records.conflicts.adjudications import resolution_of
from kernel.records.reviews.batch import (
    BatchReview,
    ItemOutcome,
    ReviewItem,
    asks_for_the_same,
    check_items,
    check_retry,
    record_of,
    recorded_batch,
)
from kernel.records.reviews.errors import ReviewRefused
from kernel.records.reviews.evidence import (
    EvidenceKind,
    evidence_of,
    evidence_record,
    is_open,
    open_evidence,
    why_a_person_decides,
)
from kernel.values.canonical import digest

GROUNDS_CHARS_MAX = 1024


class BatchReviewDocument(TypedDict):
    """What became of every item of a batch, and whether it was disposed of before."""

    batch_review_id: str
    source_batch_id: str
    prior_batch_review_ref: NotRequired[str]
    item_operations: list[Annotated[Document, DumpOf(ReviewedItem)]]
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
    duplicate: bool


@dataclass(frozen=True, slots=True)
class BatchReviewUnit:
    """Dispose of every item of a batch, and record what became of each."""

    batch: BatchReview

    def run(self, context: CommitContext) -> BatchReviewDocument:
        """Return the record; that of the same batch, sent before, if there is one (K6).

        Raises:
            ReviewRefused: what is wrong with the batch itself; nothing is recorded.
        """
        batch, view = self.batch, context.transaction
        check_items(batch)
        recorded = recorded_batch(view, batch.batch_review_id)
        if recorded is not None:
            if not asks_for_the_same(batch, recorded):
                raise ReviewRefused(
                    "batch_review_conflict",
                    f"{batch.batch_review_id} was another batch; a retry has an id of its own",
                    "batch_review_id",
                )
            return _batch_document(recorded, duplicate=True)
        prior = batch.prior_batch_review_ref
        check_retry(batch, None if prior is None else recorded_batch(view, prior))
        outcomes = [self._dispose(item, context) for item in batch.item_operations]
        record = record_of(batch, outcomes)
        key = batch.batch_review_id
        result = _submit(context, RecordBatchReview(intent_key=key, record=record))
        if isinstance(result, RejectedResult):
            rejection = result.rejection
            raise ReviewRefused(
                "batch_review_not_recorded",
                f"{rejection.reason_code} at {rejection.field}: {rejection.message}",
            )
        return _batch_document(record, duplicate=False)

    def _dispose(self, item: ReviewItem, context: CommitContext) -> ItemOutcome:
        batch_review_id = self.batch.batch_review_id
        key = digest([batch_review_id, item.item_membership_id])
        intent = ReviewMembership(intent_key=key, batch_review_id=batch_review_id, item=item)
        result = _submit(context, intent)
        if not isinstance(result, RejectedResult):
            return ItemOutcome(result.operation_id)
        rejection = result.rejection
        return ItemOutcome(
            str(result.operation_id),
            rejection.reason_code,
            rejection.message,
            is_retryable(rejection.reason_code),
        )


def _batch_document(record: BatchReviewOperation, *, duplicate: bool) -> BatchReviewDocument:
    document = record.model_dump(mode="json", exclude_none=True) | {"duplicate": duplicate}
    return cast("BatchReviewDocument", document)


@dataclass(frozen=True, slots=True)
class AdjudicateUnit:
    """Confirm or reject evidence, as a person decided."""

    intent: Adjudicate

    def run(self, context: CommitContext) -> Submitted:
        """Submit it as the user's; raises `IntentInvalid` where nothing waits under the id."""
        return _submit(context, self.intent)


@dataclass(frozen=True, slots=True)
class DecideAsSeenUnit:
    """Confirm or reject evidence as somebody has seen it, and not as others left it since.

    A confirmation that names no label confirms what the evidence says.
    """

    intent: Adjudicate
    seen_operation_id: str
    """The operation that wrote what was seen."""

    def run(self, context: CommitContext) -> Submitted:
        """Submit it as the user's.

        Raises:
            IntentInvalid: nothing is on record under the id.
            ReviewRefused: `review_decided_meanwhile`.
        """
        intent = self.intent
        record = evidence_record(context.transaction, intent.kind, intent.record_id)
        if record is not None:
            _check_seen(intent, record, self.seen_operation_id)
            said = record["payload"].get(_LABELS[intent.kind])
            if intent.normalized_label is None and isinstance(said, str):
                intent = intent.model_copy(update={"normalized_label": said})
        return _submit(context, intent)


_LABELS: Mapping[EvidenceKind, str] = MappingProxyType(
    {"relationship": "relationship_type", "observation": "disposition"}
)


def _check_seen(intent: Adjudicate, record: Document, seen_operation_id: str) -> None:
    if is_open(intent.kind, record) and record["updated_by_operation_id"] == seen_operation_id:
        return
    payload = record["payload"]
    adjudication = payload.get("adjudication")
    became = payload.get("lifecycle_state")
    message = f"it was written anew, and is {became}: look at it again"
    if adjudication is not None and not is_open(intent.kind, record):
        by, grounds = adjudication["adjudicated_by"], adjudication["grounds"]
        message = f"it is {became} since {record['updated_at']}, by {by}: {grounds}"
    raise ReviewRefused("review_decided_meanwhile", message, "record_id")


@dataclass(frozen=True, slots=True)
class DismissOutcomeUnit:
    """Settle an item that a person has looked at; nothing else is done about it."""

    receipt_id: str
    reason: str
    decided_by: str | None = None

    def run(self, context: CommitContext) -> Submitted:
        """Submit it as the user's.

        Raises:
            ReviewRefused: `review_decided_meanwhile`, where it is said who decides.
        """
        resolution = resolution_of(context.transaction, self.receipt_id)
        if resolution is not None and self.decided_by is not None:
            at, by = resolution["adjudicated_at"], resolution["operation_id"]
            message = f"it is settled since {at}, by the operation {by}"
            raise ReviewRefused("review_decided_meanwhile", message, "receipt_id")
        return discard(
            context.kernel, context.transaction, self.receipt_id, self.reason, self.decided_by
        )


@dataclass(frozen=True, slots=True)
class TakeItemUnit:
    """Submit what a conflict or migration holds back, because a person takes it."""

    receipt_id: str
    decision: ItemDecision
    supplied: Mapping[str, Any] = field(default_factory=dict)
    """Fields that migration lacks."""

    def run(self, context: CommitContext) -> Submitted:
        """Submit it as the user's; raises what `take` does."""
        return take(
            context.kernel, context.transaction, self.receipt_id, self.decision, self.supplied
        )


@dataclass(frozen=True, slots=True)
class AutoConfirmUnit:
    """Confirm evidence by the safe path, if that is open; else it stays in the queue (§13.6).

    It is asked for after the evidence was committed, never in the operation that wrote it.
    """

    kind: EvidenceKind
    record_id: str

    def run(self, context: CommitContext) -> Submitted | str:
        """Return the result of the confirmation, or why a person decides."""
        view = context.transaction
        record = open_evidence(view, self.kind, self.record_id)
        if record is None:
            return "not_open"
        evidence = evidence_of(view, self.kind, self.record_id, record)
        reason = why_a_person_decides(evidence)
        if reason is not None:
            return reason
        payload = record["payload"]
        intent = Adjudicate(
            intent_key=digest(["auto_confirm", self.record_id, record["version"]]),
            kind=self.kind,
            record_id=self.record_id,
            decision="confirm",
            adjudicated_by="safe_path",
            grounds=f"{evidence.signed_source_ref}: {evidence.signature}"[:GROUNDS_CHARS_MAX],
            normalized_label=payload.get("relationship_type") or payload.get("disposition"),
            evidence=evidence.document(),
        )
        return _submit(context, intent, "system")


def _submit(
    context: CommitContext, intent: Intent, actor: Literal["user", "system"] = "user"
) -> Submitted:
    transaction = context.transaction
    document = context.orchestrator.construct(intent, transaction, actor=actor, session_id=None)
    return context.kernel.submit(transaction, document, "orchestrator")
