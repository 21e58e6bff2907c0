"""Operations in a session's order as a stream: an intent a line, and a result a line."""

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

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
from workers.api.openapi_errors import Error
from workers.api.operation_results import ResultDocument
from workers.api.operation_stream import MEDIA_TYPE
from workers.api.preferred_proofs import add_proofs, prefers_proof
from workers.api.services import Given

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


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


def _schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a line; what it refers to has its place in the document already."""
    schema = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return schema


LIMITS = (
    f"A line has at most {LINE.body_bytes} bytes, a stream {STREAM_LINES_MAX} lines,"
    f" {STREAM.body_bytes} bytes and {STREAM_S_MAX:g} s. At most {LINES_IN_FLIGHT_MAX} lines of"
    f" {BYTES_IN_FLIGHT_MAX} bytes are read ahead of their answers; who reads no answer before all"
    " is sent sends no more."
)
ANSWERS: dict[str, Any] = {
    "description": "A line for each line, in order; the schema is that of a line.",
    "content": {
        MEDIA_TYPE: {"schema": {"oneOf": [*map(_schema, (ResultLine, RefusedLine, LastLine))]}}
    },
}
BULK: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": f"An intent a line; the schema is that of a line. {LIMITS}",
        "content": {MEDIA_TYPE: {"schema": _schema(PublicIntent)}},
    }
}


@router.post(
    "/{session_id}/operations:bulk",
    summary="Put a stream of intents through the kernel in order",
    response_class=Response,
    responses={200: ANSWERS},
    openapi_extra=BULK,
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
