"""The results of operations as they leave the process, one by one or as all of an answer."""

from collections.abc import Sequence
from typing import Any

from fastapi.responses import JSONResponse

from actors.errors import ActorError, IntentInvalid
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.refusal_runs import EACH_S
from workers.api.errors import respond


def result_document(result: object) -> dict[str, Any]:
    """Return one operation's result."""
    if isinstance(result, SubmissionResult):
        return result.document() | {"duplicate": result.duplicate}
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


def only_counted(document: dict[str, Any] | None = None) -> JSONResponse:
    """Return the response where so much was refused that it is only counted."""
    message = f"so much was refused that it is only counted; again in {EACH_S} s"
    response = respond("refusals_too_many", message, document)
    response.headers["Retry-After"] = str(EACH_S)
    return response
