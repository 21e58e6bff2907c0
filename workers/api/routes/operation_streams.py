"""Serves operations in a session's order as a stream: an intent a line, a result a line."""

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from actors.messages import Operate
from actors.orchestrator.intents import PublicIntent
from kernel.model.numbers import Count
from workers.api.body_limits import (
    BYTES_IN_FLIGHT_MAX,
    LINE,
    LINES_IN_FLIGHT_MAX,
    STREAM,
    STREAM_LINES_MAX,
    STREAM_S_MAX,
)
from workers.api.openapi_errors import ERROR_RESPONSES, Error
from workers.api.operation_results import ResultDocument
from workers.api.operation_stream import MEDIA_TYPE
from workers.api.preferred_proofs import add_proofs, prefers_proof
from workers.api.services import Given
from workers.use_cases.access import does

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=ERROR_RESPONSES)


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ResultLine(_Line):
    """What came of a line."""

    line: Annotated[int, Field(ge=1, le=STREAM_LINES_MAX)]
    result: ResultDocument
    """As in an answer of `/operations`."""


class RefusedLine(_Line):
    """A line that could not be read."""

    line: Annotated[int, Field(ge=1, le=STREAM_LINES_MAX)]
    error: Error


class LastLine(_Line):
    """Why the lines without an answer have none; they may be sent again where the code says so."""

    error: Error
    status: Annotated[int, Field(ge=400, le=599)]
    """As that of a response with this error."""

    retry_after_s: Count | None = None


LINES: dict[str, Any] = {
    "IntentLine": PublicIntent,
    "AnswerLine": ResultLine | RefusedLine | LastLine,
}
"""What a line is, by its name in the OpenAPI document."""


def _stream(line: str) -> dict[str, Any]:
    """Return the media type of a stream: bytes, because a schema of JSON says nothing of lines."""
    reference = {"$ref": f"#/components/schemas/{line}"}
    return {"schema": {"type": "string", "format": "binary"}, "x-itemSchema": reference}


LIMITS = (
    f"A line has at most {LINE.body_bytes} bytes, a stream {STREAM_LINES_MAX} lines,"
    f" {STREAM.body_bytes} bytes and {STREAM_S_MAX:g} s. At most {LINES_IN_FLIGHT_MAX} lines of"
    f" {BYTES_IN_FLIGHT_MAX} bytes are read ahead of their answers; who reads no answer before all"
    " is sent sends no more."
)
ANSWERS: dict[str, Any] = {
    "description": "An `AnswerLine` for each line, in order.",
    "content": {MEDIA_TYPE: _stream("AnswerLine")},
}
BULK: dict[str, Any] = {
    "requestBody": {
        # A stream of no lines is answered with none.
        "required": False,
        "description": f"An `IntentLine` a line. {LIMITS}",
        # Generators that know of no lines know of bytes.
        "content": dict.fromkeys((MEDIA_TYPE, "application/octet-stream"), _stream("IntentLine")),
    }
}


@router.post(
    "/{session_id}/operations:bulk",
    summary="Put a stream of intents through the kernel in order",
    response_class=Response,
    responses={200: ANSWERS},
    openapi_extra=BULK | does("write.sessions"),
)
async def operate_in_bulk(session_id: UUID, request: Request, services: Given) -> Response:
    """Put a stream of intents through the kernel in order; each line has its own result.

    A line is answered when it is on the record, with `line` and `result`, or with `line` and
    `error` where it cannot be read; the lines after it go on. What ends the stream is a last line
    that has an `error` and no `line`. With `Prefer: proof` a result on the record has the proof
    that its row is in the log.
    """

    async def ask(message: Operate) -> Any:
        return await services.sessions.ask(str(session_id), message)

    prove = partial(add_proofs, services) if prefers_proof(request) else None
    return services.streams.open(ask, prove)
