"""Serves operations in a session's order: intents and envelopes."""

from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from actors.messages import Operate, SubmitEnvelope
from actors.orchestrator.intents import PublicIntent
from kernel.model.result import RejectedResult, SubmissionResult
from workers.api.envelope_sizes import check_envelope_size
from workers.api.errors import RETRYABLE_STATUS, respond
from workers.api.json_answers import short_json
from workers.api.json_routes import json_router
from workers.api.operation_results import (
    EnvelopeDocument,
    ResultsDocument,
    are_only_counted,
    count_only_response,
    results_document,
)
from workers.api.preferences import preferences_of
from workers.api.preferred_proofs import add_preferred
from workers.api.services import Given
from workers.api.union_tags import short_tag

INTENTS_MAX = 256

router = json_router("write.sessions", prefix="/v1/sessions", tags=["sessions"])


_Tagged = Annotated[PublicIntent, short_tag("intent_kind")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class OperationsBody(_Body):
    """Intents, in order."""

    intents: Annotated[list[_Tagged], Field(min_length=1, max_length=INTENTS_MAX, fail_fast=True)]


@router.post("/{session_id}/operations")
async def operate(
    session_id: UUID, body: OperationsBody, request: Request, services: Given
) -> ResultsDocument | Response:
    """Put intents through the kernel in order; each has its own result.

    With `Prefer: proof` a result on the record has the proof that its row is in the log, and with
    `Prefer: durability=witnessed, wait=10` the answer waits until witnesses have cosigned.
    """
    results = await services.sessions.ask(str(session_id), Operate(tuple(body.intents)))
    document = results_document(results)
    preferences = preferences_of(request)
    await add_preferred(preferences, services, document, document["results"])
    if are_only_counted(results):
        return count_only_response(document)
    return document if preferences.proof else short_json(document)


@router.post("/{session_id}/envelopes")
async def submit(
    session_id: UUID, body: dict[str, Any], request: Request, services: Given
) -> EnvelopeDocument | Response:
    """Submit an envelope as its author wrote it; a refusal names check, reason and field.

    With `Prefer: proof` the answer has the proof that the operation's row is in the log, and with
    `Prefer: durability=witnessed, wait=10` it waits until witnesses have cosigned.
    """
    await check_envelope_size(body, len(await request.body()))
    result = await services.sessions.ask(str(session_id), SubmitEnvelope(body))
    if isinstance(result, SubmissionResult):
        document = cast("EnvelopeDocument", result.document())
        preferences = preferences_of(request)
        await add_preferred(preferences, services, document, [document])
        return document if preferences.proof else short_json(document)
    if isinstance(result, RejectedResult):
        return _refusal(result)
    raise result


def _refusal(result: RejectedResult) -> Response:
    """Return a refused envelope's response; what lacked capacity alone may be sent again as is."""
    rejection = result.rejection
    if result.receipt_id is None:
        return count_only_response(result.document())
    response = respond(rejection.reason_code, rejection.message, result.document())
    if rejection.retry_after_s is not None:
        response.status_code = 429
        response.headers["Retry-After"] = str(rejection.retry_after_s)
    elif response.status_code not in RETRYABLE_STATUS:
        response.status_code = 422
    return response
