"""Serves what a person reviews: batches of memberships, and what waits (§13.6, §14.4)."""

from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from actors.commit.review_units import (
    AdjudicateUnit,
    BatchReviewDocument,
    BatchReviewUnit,
    DismissOutcomeUnit,
    TakeItemUnit,
)
from actors.orchestrator.intents import Adjudicate
from kernel.model.envelope import ItemDecision
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.records.reviews.batch import BatchReview
from kernel.records.reviews.evidence import EvidenceKind
from kernel.values.canonical import digest
from workers.api.access import decider
from workers.api.errors import respond
from workers.api.json_routes import json_router
from workers.api.operation_results import OperationDocument, operation_document
from workers.api.services import Given

router = json_router("review.items", prefix="/v1/reviews", tags=["reviews"])

Name = Annotated[str, Field(min_length=1, max_length=512)]
Grounds = Annotated[str, Field(min_length=1, max_length=1024)]


class Decision(BaseModel):
    """What a person decides about evidence, and on what grounds."""

    model_config = ConfigDict(extra="forbid")

    decision_key: Annotated[str, Field(min_length=1, max_length=400)]
    """The caller's own name for this decision; under the same key it is taken once."""

    kind: EvidenceKind
    record_id: Name
    decision: Annotated[str, Field(pattern=r"^(confirm|reject)$")]
    adjudicated_by: Annotated[str, Field(min_length=1, max_length=400)]
    grounds: Grounds
    normalized_label: Grounds | None = None
    scope_targets: Annotated[list[Name], Field(max_length=256, fail_fast=True)] = []


class Dismissal(BaseModel):
    """An outcome that a person has looked at, and why nothing is done about it."""

    model_config = ConfigDict(extra="forbid")

    receipt_id: Annotated[str, Field(min_length=1, max_length=512)]
    reason: Grounds


class Taking(BaseModel):
    """An item of which somebody takes what it holds back, and why."""

    model_config = ConfigDict(extra="forbid")

    receipt_id: Name
    decided_by: Annotated[str, Field(min_length=1, max_length=400)]
    grounds: Grounds
    supplied: Annotated[dict[str, Any], Field(max_length=16)] = {}
    """What an operation that migration holds lacks, by the names of the fields."""


@router.post("/batches")
async def review_batch(
    batch: BatchReview, services: Given, request: Request
) -> BatchReviewDocument:
    """Dispose of every item of a batch; answered when all of it is durable.

    Items that fail leave the others as they are. The same batch sent again is answered from its
    record.
    """
    reviewed_by = decider(request, batch.reviewed_by or "")
    if reviewed_by:
        batch = batch.model_copy(update={"reviewed_by": reviewed_by})
    answer: BatchReviewDocument = await services.write(BatchReviewUnit(batch))
    return answer


@router.post("/decisions")
async def decide(
    decision: Decision, services: Given, request: Request
) -> OperationDocument | Response:
    """Confirm or reject evidence, as an operation of its own; answered when it is durable."""
    decider(request, decision.adjudicated_by)
    stated = decision.model_dump(exclude={"decision_key"}, exclude_none=True)
    intent = Adjudicate(intent_key=digest(decision.decision_key), **stated)
    return _answer(await services.write(AdjudicateUnit(intent)))


@router.post("/dismissals")
async def dismiss(dismissal: Dismissal, services: Given) -> OperationDocument | Response:
    """Settle an outcome that a person has looked at; answered when it is durable."""
    unit = DismissOutcomeUnit(dismissal.receipt_id, dismissal.reason)
    return _answer(await services.write(unit))


@router.post("/takings")
async def take(stated: Taking, services: Given, request: Request) -> OperationDocument | Response:
    """Submit anew what a conflict or migration holds back, as the operation of who takes it.

    Answered when it is durable. A refusal leaves the item open. The same taking sent again is
    answered from the record.
    """
    decision = ItemDecision(decided_by=decider(request, stated.decided_by), grounds=stated.grounds)
    unit = TakeItemUnit(stated.receipt_id, decision, stated.supplied)
    return _answer(await services.write(unit))


def _answer(result: SubmissionResult | RejectedResult) -> OperationDocument | Response:
    if isinstance(result, SubmissionResult):
        return operation_document(result)
    response = respond(result.rejection.reason_code, result.rejection.message, result.document())
    response.status_code = 422
    return response
