"""Serves detectors of implications: how far they have read, what is halted (§19.1)."""

from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from actors.commit.units import IntentUnit
from actors.messages import PRINCIPAL
from actors.orchestrator.intents import ResumeImplications
from kernel.model.result import RejectedResult
from kernel.model.stated_receipts import ImplicationResumed
from kernel.records.implications.halts import UNKNOWN, halt_of
from kernel.values.canonical import digest
from workers.api.errors import ApiError, respond
from workers.api.json_routes import RecordId, json_router
from workers.api.operation_results import OperationDocument, operation_document
from workers.api.services import Given

_CHARS_MAX = 512

router = json_router("operate.fleet", prefix="/v1/implications", tags=["operators"])


class ResumeBody(BaseModel):
    """Why what was halted may go on; it is put on the record."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, Field(max_length=_CHARS_MAX, pattern=r"^[^\x00]*$")] = ""


@router.post("/halts/{halt_id:path}/resume")
async def resume(
    halt_id: RecordId, body: ResumeBody, services: Given
) -> OperationDocument | Response:
    """Let a halted loop, or a halted detector, go on; an operation of its own records it."""
    halt = await services.read(lambda view: halt_of(view, halt_id))
    if halt is None:
        raise ApiError("not_found", f"nothing is halted under {halt_id}")
    # The same halt is ended once, however often that is asked.
    intent = ResumeImplications(
        intent_key=digest([halt.operation_id, halt_id]),
        resumed=ImplicationResumed(halt_id=halt_id, reason=body.reason),
    )
    result = await services.write(IntentUnit(intent, None, principal=PRINCIPAL.get()))
    if isinstance(result, RejectedResult):
        if result.rejection.reason_code == UNKNOWN:
            raise ApiError("not_found", result.rejection.message)
        response = respond(
            result.rejection.reason_code, result.rejection.message, result.document()
        )
        response.status_code = 422
        return response
    return operation_document(result)
