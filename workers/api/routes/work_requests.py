"""Serves producers: asking for work, its state, waiting for its outcome, taking it back.

An answer is on the record. The producer's key makes asking again safe (K6). A call is all or
nothing, and its refusal names the `index` and the `field` that are to blame. A queue with 100,000
open requests answers 429; requests that are on the record already are answered all the same, so a
repetition never runs into the limit.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from typing_extensions import TypedDict

from actors.commit.work_units import RequestWorkUnit
from kernel.records.access.readable_view import ReadableView
from kernel.work.contents import BindingEvaluation, ExtractionTask, ExtractionTransition
from kernel.work.outcomes import REASON_CHARS_MAX
from kernel.work.requests import (
    DELAY_S_MAX,
    KEY_CHARS_MAX,
    REQUESTS_MAX,
    SCHEDULE_KEY,
    RequestOutcome,
    WorkReceipt,
    WorkRequest,
    WorkStatus,
    ask_ahead_of,
    closed_requests,
    outcome_of,
    recorded_requests,
    request_id_of,
)
from workers.api.access import decider, is_of_worker
from workers.api.json_answers import short_json
from workers.api.json_routes import json_router
from workers.api.outcome_watch import Until
from workers.api.services import Given, Services
from workers.questions.request_status import existing_request, existing_status
from workers.use_cases import queue_operations
from workers.use_cases.access import does
from workers.use_cases.principal_use import PrincipalUse, current_use

WAIT_S_MAX = 30
NAME_CHARS_MAX = 512
DECIDER_CHARS_MAX = 100

QueueName = Annotated[str, Path(min_length=1, max_length=128)]
RequestId = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
Decider = Annotated[str, Field(max_length=DECIDER_CHARS_MAX)]
"""The name of who asks; the record has it with the address that the request came from."""


RequestIdInPath = Annotated[str, Path(min_length=1, max_length=NAME_CHARS_MAX)]
Content = Annotated[
    dict[str, Any],
    BeforeValidator(
        lambda stated: stated,
        json_schema_input_type=BindingEvaluation
        | ExtractionTransition
        | ExtractionTask
        | dict[str, Any],
    ),
]
"""What a queue takes, of a plug-in's queue what its model says; the kernel reads it by that."""

WaitSeconds = Annotated[float, Field(ge=0, le=WAIT_S_MAX, allow_inf_nan=False, strict=True)]

router = json_router("write.work", prefix="/v1/queues/{queue}", tags=["producers"])


class RequestBody(BaseModel):
    """What one request asks for; under the same key the same is asked once."""

    model_config = ConfigDict(extra="forbid")

    request_key: Annotated[str, Field(min_length=1, max_length=KEY_CHARS_MAX)]
    content: Content
    priority: Annotated[str, Field(max_length=64)] | None = None
    delay_s: Annotated[int, Field(ge=0, le=DELAY_S_MAX, strict=True)] = 0
    run_at: Annotated[str, Field(max_length=40)] | None = None
    """A time before which nobody begins with it, such as 2026-01-31T12:00:00Z."""

    tags: dict[str, str] = {}
    """At most 16, by which it is found later, such as {"customer": "acme"}."""


class EnqueueBody(BaseModel):
    """Requests that are recorded together: all, or none."""

    model_config = ConfigDict(extra="forbid")

    requests: Annotated[
        list[RequestBody], Field(min_length=1, max_length=REQUESTS_MAX, fail_fast=True)
    ]


class OutcomesBody(BaseModel):
    """Requests whose outcomes are wanted."""

    model_config = ConfigDict(extra="forbid")

    request_ids: Annotated[
        list[RequestId], Field(min_length=1, max_length=REQUESTS_MAX, fail_fast=True)
    ]
    wait_s: WaitSeconds = 0
    until: Until = "all"


class CancelBody(BaseModel):
    """Why a request is taken back, and who says so."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, Field(min_length=1, max_length=REASON_CHARS_MAX)]
    decided_by: Decider = ""


class RequestPriorityBody(BaseModel):
    """At which priority of its queue a request waits from now on, why, and who says so."""

    model_config = ConfigDict(extra="forbid")

    priority: Annotated[str, Field(min_length=1, max_length=64)]
    reason: Annotated[str, Field(max_length=REASON_CHARS_MAX)] = ""
    decided_by: Decider = ""


class ReceiptsDocument(TypedDict):
    """The requests that were asked for, in order, and which of them were there before."""

    requests: list[WorkReceipt]


class OutcomesDocument(TypedDict):
    """How requests ended, in the order in which they were named."""

    outcomes: list[RequestOutcome]


class CancelledDocument(TypedDict):
    """A request, and whether it was taken back."""

    cancelled: bool
    request: WorkStatus


class PrioritizedDocument(TypedDict):
    """A request, and whether its priority is another one now."""

    changed: bool
    request: WorkStatus


@router.post("/requests")
async def enqueue(
    queue: QueueName, body: EnqueueBody, services: Given, request: Request
) -> ReceiptsDocument | Response:
    """Ask for work; each request is on the record when this answers."""
    requests = tuple(WorkRequest(queue, **each.model_dump()) for each in body.requests)
    is_scheduled = any(each.request_key.startswith(SCHEDULE_KEY) for each in requests)
    by_worker = is_scheduled and await is_of_worker(services.worker_token, request)
    unit = RequestWorkUnit(requests, by_worker)
    if services.door is None or (use := current_use()) is None:
        receipts = await services.write(unit)
    else:
        receipts = await _write_within_limit(services, use, unit)
    return short_json({"requests": list(receipts)})


@router.post("/outcomes", openapi_extra=does("read.producers"))
async def outcomes(queue: QueueName, body: OutcomesBody, services: Given) -> OutcomesDocument:
    """Return how requests ended; waits until all have, or any has, or for `wait_s` seconds."""
    ended = await _outcomes(services, queue, body.request_ids, body.wait_s, body.until)
    return {"outcomes": ended}


@router.get("/requests/{request_id:path}/outcome", openapi_extra=does("read.producers"))
async def outcome(
    queue: QueueName,
    request_id: RequestIdInPath,
    services: Given,
    wait_s: Annotated[float, Query(ge=0, le=WAIT_S_MAX, allow_inf_nan=False)] = 0,
) -> RequestOutcome:
    """Return how a request ended; waits until it has, or for `wait_s` seconds."""
    [ended] = await _outcomes(services, queue, [request_id], wait_s)
    return ended


@router.post("/requests/{request_id:path}/cancel", openapi_extra=does("withdraw.work"))
async def cancel(
    queue: QueueName,
    request_id: RequestIdInPath,
    body: CancelBody,
    services: Given,
    request: Request,
) -> CancelledDocument:
    """Take a request back; `cancelled` is false where it had its outcome before.

    The reason on the record ends with who asked, in brackets: the name given and the address.
    """
    await services.read(lambda view: existing_status(view, queue, request_id))
    cancelled, status = await queue_operations.cancel(
        services.write,
        services.work.queues.get(queue),
        request_id,
        body.reason,
        requester_of(request, body.decided_by),
    )
    return {"cancelled": cancelled, "request": status}


@router.post("/requests/{request_id:path}/prioritize", openapi_extra=does("withdraw.work"))
async def prioritize(
    queue: QueueName,
    request_id: RequestIdInPath,
    body: RequestPriorityBody,
    services: Given,
    request: Request,
) -> PrioritizedDocument:
    """Let an open request wait at another priority; what a worker has in hand goes on.

    `changed` is false where it has its outcome, or waits at that priority already.
    """
    await services.read(lambda view: existing_status(view, queue, request_id))
    changed, status = await queue_operations.prioritize(
        services.write,
        services.work.queues.get(queue),
        request_id,
        body.priority,
        body.reason,
        requester_of(request, body.decided_by),
    )
    return {"changed": changed, "request": status}


async def _write_within_limit(
    services: Services, use: PrincipalUse, unit: RequestWorkUnit
) -> Sequence[WorkReceipt]:
    """Record requests where their principal may have so many open; those it has are no more.

    Raises:
        PrincipalLimited: it may not.
    """
    ids = {request_id_of(each.queue, each.request_key) for each in unit.requests}
    if not use.has_room(len(ids)):
        looks = use.looks()
        ended, known = await services.read(
            lambda view: (closed_requests(view, looks), recorded_requests(view, ids))
        )
        use.end(ended)
        ids -= known
    with use.asking(len(ids)):
        receipts: Sequence[WorkReceipt] = await services.write(unit)
        use.note_open([each.request_id for each in receipts if not each.duplicate])
    return receipts


async def _outcomes(
    services: Services,
    queue: str,
    request_ids: list[str],
    wait_s: float,
    until: Until = "all",
) -> list[RequestOutcome]:
    outcomes = await _read_outcomes(services, queue, request_ids)
    waiting = {outcome.request_id for outcome in outcomes if outcome.state == "open"}
    is_over = not waiting or (until == "any" and len(waiting) < len(set(request_ids)))
    if is_over or not wait_s:
        return outcomes
    if services.door is None or (use := current_use()) is None:
        await services.outcomes.wait(waiting, wait_s, until)
    else:
        with use.waiting(len(waiting)):
            await services.outcomes.wait(waiting, wait_s, until)
    return await _read_outcomes(services, queue, request_ids)


async def _read_outcomes(
    services: Services, queue: str, request_ids: list[str]
) -> list[RequestOutcome]:
    def read(view: ReadableView) -> list[RequestOutcome]:
        ask_ahead_of(view, request_ids)
        return [
            existing_request(view, outcome_of(view, queue, request_id), request_id)
            for request_id in request_ids
        ]

    return await services.read(read)


def requester_of(request: Request, name: str) -> str:
    """Return who asks, as the record has it: the name, and the address.

    Raises:
        ApiError: `principal_differs`, see `decider`.
    """
    name = decider(request, name)
    return queue_operations.requester_name(name, request.client.host if request.client else None)
