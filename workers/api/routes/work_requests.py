"""The routes of producers: asking for work, its state, waiting for its outcome, taking it back.

What is answered is on the record. The producer's key makes asking again safe (K6). A call is all or
nothing, and its refusal names the `index` and the `field` that are to blame. A queue with 100,000
open requests answers 429; requests that are on the record already are answered all the same, so a
repetition never runs into the limit.
"""

from typing import Annotated, Any, TypeVar

from fastapi import Path, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.convertors import PathConvertor, register_url_convertor
from typing_extensions import TypedDict

from actors.commit.work_units import RequestWorkUnit
from kernel.records.head_acceptance import is_lost
from kernel.work.contents import BindingEvaluation, ExtractionTask, ExtractionTransition
from kernel.work.outcomes import REASON_CHARS_MAX
from kernel.work.requests import (
    DELAY_S_MAX,
    KEY_CHARS_MAX,
    REQUESTS_MAX,
    RequestOutcome,
    WorkReceipt,
    WorkRequest,
    WorkStatus,
    outcome_of,
    status_of,
)
from queues.queue.job_progress import JobProgress
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.outcome_watch import Until
from workers.api.routes.log_proofs import Size
from workers.api.services import Given, Services
from workers.questions.log_tree import tree_sizes
from workers.use_cases import queue_operations
from workers.views.log_proofs import OutcomeProofDocument, outcome_proof
from workers.views.surroundings import why_open

WAIT_S_MAX = 30
NAME_CHARS_MAX = 512
DECIDER_CHARS_MAX = 100

T = TypeVar("T")

QueueName = Annotated[str, Path(min_length=1, max_length=128)]
RequestId = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
Decider = Annotated[str, Field(max_length=DECIDER_CHARS_MAX)]
"""The name of who asks; the record has it with the address that the request came from."""


class _RequestIdConvertor(PathConvertor):
    """An id with any slashes in it, but for that of the path by which a request is cancelled."""

    regex = ".*(?<!/cancel)"


register_url_convertor("work_request", _RequestIdConvertor())

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

router = json_router(prefix="/v1/queues/{queue}", tags=["producers"])


class RequestBody(BaseModel):
    """What one request asks for; under the same key the same is asked once."""

    model_config = ConfigDict(extra="forbid")

    request_key: Annotated[str, Field(min_length=1, max_length=KEY_CHARS_MAX)]
    content: Content
    priority: Annotated[str, Field(max_length=64)] | None = None
    delay_s: Annotated[int, Field(ge=0, le=DELAY_S_MAX, strict=True)] = 0
    run_at: Annotated[str, Field(max_length=40)] | None = None
    """A time before which nobody begins with it, such as 2026-01-31T12:00:00Z."""


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


class ReceiptsDocument(TypedDict):
    """The requests that were asked for, in order, and which of them were there before."""

    requests: list[WorkReceipt]


class OutcomesDocument(TypedDict):
    """How requests ended, in the order in which they were named."""

    outcomes: list[RequestOutcome]


class WaitingDocument(TypedDict):
    """Why a request waits, in a sentence; null where it has its outcome."""

    request_id: str
    state: str
    why: str | None


class ProgressDocument(TypedDict):
    """How far a job is, as its handler says; kept for an hour, and lost with Redis."""

    percent: int | None
    """From 0 to 100; null where nothing is known."""

    note: str


class CancelledDocument(TypedDict):
    """A request, and whether it was taken back."""

    cancelled: bool
    request: WorkStatus


@router.post("/requests")
async def enqueue(queue: QueueName, body: EnqueueBody, services: Given) -> ReceiptsDocument:
    """Ask for work; each request is on the record when this answers."""
    receipts = await services.write(
        RequestWorkUnit(
            tuple(WorkRequest(queue, **request.model_dump()) for request in body.requests)
        )
    )
    return {"requests": list(receipts)}


@router.post("/outcomes")
async def outcomes(queue: QueueName, body: OutcomesBody, services: Given) -> OutcomesDocument:
    """Return how requests ended; waits until all have, or any has, or for `wait_s` seconds."""
    ended = await _outcomes(services, queue, body.request_ids, body.wait_s, body.until)
    return {"outcomes": ended}


@router.get("/requests/{request_id:path}/outcome")
async def outcome(
    queue: QueueName,
    request_id: RequestIdInPath,
    services: Given,
    wait_s: Annotated[float, Query(ge=0, le=WAIT_S_MAX, allow_inf_nan=False)] = 0,
) -> RequestOutcome:
    """Return how a request ended; waits until it has, or for `wait_s` seconds."""
    [ended] = await _outcomes(services, queue, [request_id], wait_s)
    return ended


@router.get("/requests/{request_id:path}/progress")
async def progress(
    queue: QueueName, request_id: RequestIdInPath, services: Given
) -> ProgressDocument:
    """Return what the handler of a plug-in's queue said last of a job that it has in hand."""
    ended = await services.read(lambda view: outcome_of(view, queue, request_id))
    await _existing(services, ended, request_id)
    said = await JobProgress(services.work.redis).of(queue, request_id)
    if said is None:
        return {"percent": None, "note": ""}
    return {"percent": said.percent, "note": said.note}


@router.get("/requests/{request_id:path}/proof")
async def proof(
    queue: QueueName, request_id: RequestIdInPath, services: Given, tree_size: Size = None
) -> OutcomeProofDocument:
    """Return the proof that the outcome of a request is in the log, in the tree of a size.

    A gateway seals outcomes every few seconds; before that the answer is `outcome_not_sealed`.
    """
    ended = await services.read(lambda view: outcome_of(view, queue, request_id))
    await _existing(services, ended, request_id)
    with tree_sizes():
        return await services.read(lambda view: outcome_proof(view, request_id, tree_size))


@router.post("/requests/{request_id:path}/cancel")
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
    state = await services.read(lambda view: _status(view, queue, request_id))
    await _existing(services, state, request_id)
    cancelled, status = await queue_operations.cancel(
        services.write,
        services.work.queues.get(queue),
        request_id,
        body.reason,
        asked_by_of(request, body.decided_by),
    )
    return {"cancelled": cancelled, "request": status}


@router.get("/requests/{request_id:path}/waiting")
async def waiting(
    queue: QueueName, request_id: RequestIdInPath, services: Given
) -> WaitingDocument:
    """Say in one sentence why an open request waits; null where it has its outcome."""
    status = await services.read(lambda view: _status(view, queue, request_id))
    state = (await _existing(services, status, request_id)).state
    why = await why_open(services, queue, request_id)
    return {"request_id": request_id, "state": state if why is None else "open", "why": why}


@router.get("/requests/{request_id:work_request}")
async def status(queue: QueueName, request_id: RequestIdInPath, services: Given) -> WorkStatus:
    """Return a request as it stands."""
    state = await services.read(lambda view: _status(view, queue, request_id))
    return await _existing(services, state, request_id)


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
    await services.outcomes.wait(waiting, wait_s, until)
    return await _read_outcomes(services, queue, request_ids)


async def _read_outcomes(
    services: Services, queue: str, request_ids: list[str]
) -> list[RequestOutcome]:
    outcomes = await services.read(
        lambda view: [outcome_of(view, queue, request_id) for request_id in request_ids]
    )
    return [
        await _existing(services, outcome, request_ids[index])
        for index, outcome in enumerate(outcomes)
    ]


def asked_by_of(request: Request, name: str) -> str:
    """Return who asks, as the record has it: the name given, if any, and the address."""
    return queue_operations.asked_by(name, request.client.host if request.client else None)


def _status(view: Any, queue: str, request_id: str) -> WorkStatus | None:
    state = status_of(view, request_id)
    return state if state is not None and state.queue == queue else None


async def _existing(services: Services, record: T | None, request_id: str) -> T:
    if record is not None:
        return record
    if await services.read(lambda view: is_lost(view, request_id)):
        message = f"{request_id!r} was lost when the ledger went back: ask again under its key"
        raise ApiError("work_request_lost", message)
    raise ApiError("work_request_unknown", f"nobody asked this queue for {request_id!r}")
