"""Serves what operators do to queues: pause, resume, requeue and dismiss dead letters."""

from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from kernel.work.dead_letters import DeadLetterDismissal
from kernel.work.outcomes import REASON_CHARS_MAX
from kernel.work.pauses import PauseDecision
from kernel.work.queue_kinds import no_such_queue
from kernel.work.requests import REQUESTS_MAX
from queues.queue.work_queue import WorkQueue
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.routes.work_requests import (
    Decider,
    QueueName,
    ReceiptsDocument,
    RequestId,
    requester_of,
)
from workers.api.services import Given, Services
from workers.use_cases import queue_operations

router = json_router("operate.queues", prefix="/v1/queues/{queue}", tags=["operators"])


class PauseBody(BaseModel):
    """What of a queue is meant, one priority or all of it; who decides, and why."""

    model_config = ConfigDict(extra="forbid")

    priority: Annotated[str, Field(max_length=64)] | None = None
    decided_by: Decider = ""
    reason: Annotated[str, Field(max_length=REASON_CHARS_MAX)] = ""


class RequeueBody(BaseModel):
    """The dead letters that are asked for anew, and who asks."""

    model_config = ConfigDict(extra="forbid")

    request_ids: Annotated[
        list[RequestId], Field(min_length=1, max_length=REQUESTS_MAX, fail_fast=True)
    ]
    decided_by: Decider = ""


class DismissBody(RequeueBody):
    """The dead letters that need nobody any more, why, and who says so."""

    reason: Annotated[str, Field(min_length=1, max_length=REASON_CHARS_MAX)]


class DismissDocument(TypedDict):
    """How many were not dismissed before."""

    dismissed: int


class PauseDocument(TypedDict):
    """Whether anything changed."""

    changed: bool


@router.post("/pause")
async def pause(
    queue: QueueName, body: PauseBody, services: Given, request: Request
) -> PauseDocument:
    """Let workers begin with nothing more, or nothing of a priority; asking for work goes on.

    The pause is on the record and holds until it is resumed, whatever Redis loses.
    """
    return await _switch(services, queue, body, request, paused=True)


@router.post("/resume")
async def resume(
    queue: QueueName, body: PauseBody, services: Given, request: Request
) -> PauseDocument:
    """End the pause of the queue, or that of a priority."""
    return await _switch(services, queue, body, request, paused=False)


@router.post("/requeue")
async def requeue(
    queue: QueueName, body: RequeueBody, services: Given, request: Request
) -> ReceiptsDocument:
    """Ask anew for dead letters, each as a request of its own; again is the same request."""
    known = _queue(services, queue)
    receipts = await queue_operations.requeue(
        services.write, queue, known, body.request_ids, requester_of(request, body.decided_by)
    )
    return {"requests": list(receipts)}


@router.post("/dismiss")
async def dismiss(
    queue: QueueName, body: DismissBody, services: Given, request: Request
) -> DismissDocument:
    """Settle dead letters without asking for them anew, on the record; again changes nothing."""
    known = _queue(services, queue)
    dismissal = DeadLetterDismissal(body.reason, requester_of(request, body.decided_by))
    dismissed = await queue_operations.dismiss(
        services.write, queue, known, body.request_ids, dismissal
    )
    return {"dismissed": dismissed}


async def _switch(
    services: Services, name: str, body: PauseBody, request: Request, *, paused: bool
) -> PauseDocument:
    queue = _queue(services, name)
    decision = PauseDecision(
        name, body.priority, requester_of(request, body.decided_by), body.reason
    )
    changed = await queue_operations.switch(services.write, queue, decision, paused=paused)
    return {"changed": changed}


def _queue(services: Services, name: str) -> WorkQueue:
    queue = services.work.queues.get(name)
    if queue is None:
        raise ApiError("work_queue_unknown", no_such_queue(name))
    return queue
