"""Serves bulk operations: counted first, begun, looked at while they go on, stopped."""

from typing import Annotated

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field

from actors.commit.bulk_units import StopBulkUnit
from kernel.model.numbers import SEQUENCE_MAX
from kernel.work.bulk_operations import (
    BulkOperation,
    BulkPreview,
    BulkRequest,
    Verb,
)
from kernel.work.outcomes import REASON_CHARS_MAX
from workers.api.json_routes import json_router
from workers.api.routes.work_requests import Decider, requester_of
from workers.api.services import Given
from workers.questions.requests import RequestFilter, expect_queue
from workers.use_cases import bulk_operations

Number = Annotated[int, Path(ge=1, le=SEQUENCE_MAX)]

router = json_router("operate.queues", prefix="/v1/bulk-operations", tags=["operators"])


class PreviewBody(BaseModel):
    """What is to be done, and to which requests; their state follows from the verb."""

    model_config = ConfigDict(extra="forbid")

    verb: Verb
    filter: RequestFilter = RequestFilter()


class BulkBody(PreviewBody):
    """What is done to all requests that fit, why, and who decides."""

    reason: Annotated[str, Field(min_length=1, max_length=REASON_CHARS_MAX)]
    priority: Annotated[str, Field(max_length=64)] | None = None
    decided_by: Decider = ""
    idempotency_key: Annotated[
        str,
        Field(max_length=128, description="Under which it begins once, however often it is sent."),
    ] = ""
    upper_sequence: Annotated[
        int | None,
        Field(
            ge=0,
            le=SEQUENCE_MAX,
            strict=True,
            description="Of a preview: about no request beyond it.",
        ),
    ] = None


class StopBody(BaseModel):
    """Who stops it."""

    model_config = ConfigDict(extra="forbid")

    decided_by: Decider = ""


@router.post(":preview")
async def preview_bulk(body: PreviewBody, services: Given) -> BulkPreview:
    """Count the requests that fit now, with the ten newest of them; nothing is recorded."""
    expect_queue(body.filter.queue)
    return await bulk_operations.preview(services.read, body.verb, body.filter.search())


@router.post("")
async def begin_bulk(body: BulkBody, services: Given, request: Request) -> BulkOperation:
    """Decide something about all requests that fit; it goes on by itself, whatever is killed."""
    expect_queue(body.filter.queue)
    stated = BulkRequest(
        body.verb,
        body.filter.search(),
        body.reason,
        requester_of(request, body.decided_by),
        body.priority,
        body.idempotency_key,
    )
    return await bulk_operations.begin(services.read, services.write, stated, body.upper_sequence)


@router.post("/{bulk_number}/stop")
async def stop_bulk(
    bulk_number: Number, body: StopBody, services: Given, request: Request
) -> BulkOperation:
    """End a bulk operation where it is; what it has done stays."""
    stopped_by = requester_of(request, body.decided_by)
    operation: BulkOperation = await services.write(StopBulkUnit(bulk_number, stopped_by))
    return operation
