"""Sends the results of operations as they leave the process, one by one or as all of an answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from fastapi.responses import JSONResponse
from typing_extensions import TypedDict

from actors.errors import ActorError, IntentInvalid
from kernel.model.result import (
    RejectedResult,
    RejectionDocument,
    SubmissionDocument,
    SubmissionResult,
)
from kernel.transaction.refusal_runs import EACH_S
from workers.api.errors import respond
from workers.views.log_proofs import DurabilityDocument, InclusionDocument


class EnvelopeDocument(SubmissionDocument):
    """An envelope that is on the record."""

    inclusion_proof: NotRequired[InclusionDocument]
    """Where `Prefer: proof` asks for it."""

    durability: NotRequired[DurabilityDocument]
    """Where `Prefer: durability=witnessed` asks for it."""


class OperationDocument(EnvelopeDocument):
    """An operation that is on the record."""

    duplicate: bool
    """Whether it was there before."""


class InvalidIntentDocument(TypedDict):
    """An intent of which no operation can be made."""

    validation_result: Literal["invalid"]
    reason_code: str
    field: str
    message: str


class FailedIntentDocument(TypedDict):
    """An intent that nothing was written of, for a reason that is not its own."""

    validation_result: Literal["failed"]
    reason_code: str
    message: str


ResultDocument = (
    OperationDocument | RejectionDocument | InvalidIntentDocument | FailedIntentDocument
)


class ResultsDocument(TypedDict):
    """The results of operations, in the order of what asked for them."""

    results: list[ResultDocument]
    durability: NotRequired[DurabilityDocument]
    """Of all results on the record, where `Prefer: durability=witnessed` asks for it."""


def operation_document(result: SubmissionResult) -> OperationDocument:
    """Return the result of an operation that is on the record."""
    document = {**result.document(), "duplicate": result.duplicate}
    return cast("OperationDocument", document)


def results_document(results: Sequence[object]) -> ResultsDocument:
    """Return the results of operations."""
    return {"results": [result_document(result) for result in results]}


def result_document(result: object) -> ResultDocument:
    """Return one operation's result."""
    if isinstance(result, SubmissionResult):
        return operation_document(result)
    if isinstance(result, RejectedResult):
        return result.document()
    if isinstance(result, IntentInvalid):
        return {
            "validation_result": "invalid",
            "reason_code": result.code,
            "field": result.field,
            "message": str(result),
        }
    code = result.code if isinstance(result, ActorError) else "internal"
    return {"validation_result": "failed", "reason_code": code, "message": "nothing was written"}


def are_only_counted(results: Sequence[object]) -> bool:
    """Tell whether nothing but refusals without a receipt came of what was asked."""
    return all(isinstance(result, RejectedResult) and not result.receipt_id for result in results)


def count_only_response(document: Mapping[str, Any] | None = None) -> JSONResponse:
    """Return the response where so much was refused that it is only counted."""
    message = f"so much was refused that it is only counted; again in {EACH_S} s"
    response = respond("refusals_too_many", message, document)
    response.headers["Retry-After"] = str(EACH_S)
    return response
