"""Takes the reports of workers, which prove themselves with a token (K18).

Without a token setting these routes are closed. A batch of reports goes through the actor of a
session of this gateway's own (`actors/sharding/report_sessions.py`), so mailboxes limit what
reports at once, unless it is of critical work (decision actors/0042). A worker names a request; the
unit reads from the record what it asks for.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, Self

import anyio
from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator
from typing_extensions import TypedDict

from actors.commit.recompute_units import RecomputeUnit
from actors.commit.units import Unit
from actors.commit.work_units import RegisterQueuesUnit, RetryPolicyUnit, WorkReportUnit
from actors.messages import Recomputed, Reports
from actors.orchestrator.intents import RecalculateAuthority
from actors.sharding.assignment import NO_SESSION
from actors.sharding.report_sessions import report_session
from kernel.model.numbers import PositiveCount
from kernel.model.result import RejectedResult
from kernel.values.priorities import CapacityPriority, QueuePriority
from kernel.work.attempts import RetryPause
from kernel.work.queue_kinds import PRIORITIES_MAX, QUEUE_KINDS, QUEUES_MAX
from kernel.work.registrations import QueueRegistration, registered_definitions
from kernel.work.reports import SuccessfulAttempt, WorkReport
from kernel.work.retry_policy import RetryPolicy
from queues.errors import QueueError
from workers.api.access import is_of_worker
from workers.api.errors import ApiError
from workers.api.json_answers import short_json
from workers.api.json_routes import json_router
from workers.api.services import Given, Services, Traceparents
from workers.api.union_tags import short_tag
from workers.telemetry.trace_context import TRACED_CAUSES_MAX

RESULTS_MAX = 256

Traceparent = Annotated[str, Field(max_length=64)]
GivenTraceparents = Annotated[
    list[Annotated[list[Traceparent], Field(max_length=TRACED_CAUSES_MAX, fail_fast=True)]],
    Field(max_length=RESULTS_MAX, fail_fast=True),
]
"""The spans of the worker that each part belongs to; none, or as many as there are parts."""

router = json_router("report.work", prefix="/internal", include_in_schema=False)


class RecomputeResult(BaseModel):
    """One computed authority and the session whose actor records it."""

    model_config = ConfigDict(extra="forbid")

    session_id: str = NO_SESSION
    intent: RecalculateAuthority


def _check_traceparents(traceparents: Sequence[object], parts: Sequence[object]) -> None:
    if traceparents and len(traceparents) != len(parts):
        raise ValueError("traceparents are none, or as many as there are parts")


class _Batch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    traceparents: GivenTraceparents = []
    urgent: StrictBool = False
    """Of critical work: it waits neither in a session's mailbox nor behind other commits."""


class RecomputedBody(_Batch):
    """A batch of results, which one worker has computed together."""

    attempt: SuccessfulAttempt | None = None
    results: Annotated[list[RecomputeResult], Field(max_length=RESULTS_MAX, fail_fast=True)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_traceparents(self.traceparents, self.results)
        return self


class PolicyBody(BaseModel):
    """The policy of a queue, by which what waits for its next attempt shall wait."""

    model_config = ConfigDict(extra="forbid")

    queue: Annotated[str, Field(max_length=128)]
    policy: RetryPolicy


class WorkBody(_Batch):
    """A batch of reports of the requests of one queue."""

    queue: Annotated[str, Field(max_length=128)]
    reports: Annotated[
        list[Annotated[WorkReport, short_tag("report_kind")]],
        Field(max_length=RESULTS_MAX, fail_fast=True),
    ]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_traceparents(self.traceparents, self.reports)
        return self


Name = Annotated[str, Field(min_length=1, max_length=128)]


class PriorityBody(BaseModel):
    """A priority of a queue."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    capacity: CapacityPriority
    service_target_s: PositiveCount


class QueueBody(BaseModel):
    """What a worker states of a queue that it serves."""

    model_config = ConfigDict(extra="forbid")

    queue: Name
    content_schema: dict[str, Any]
    item_key: Name
    priorities: Annotated[
        list[PriorityBody], Field(min_length=1, max_length=PRIORITIES_MAX, fail_fast=True)
    ]
    default_priority: Name
    priority_field: Name | None = None


class QueuesBody(BaseModel):
    """The queues of a worker that is no part of Rotulus: all are registered, or none."""

    model_config = ConfigDict(extra="forbid")

    queues: Annotated[list[QueueBody], Field(max_length=QUEUES_MAX, fail_fast=True)]
    is_new: StrictBool
    """Whether the worker begins, and what it states takes the place of what was stated before."""


class RegisteredDocument(TypedDict):
    """How many registrations were recorded; the others were on the record."""

    registered: int


class ReportOutcome(TypedDict):
    """What became of one report; a refusal has its code."""

    outcome: str
    code: NotRequired[str]
    retry_after_s: NotRequired[int]
    pause_ms: NotRequired[int]


class ReportOutcomes(TypedDict):
    """An outcome for each report, in order."""

    outcomes: list[ReportOutcome]


class GivenUpRequests(TypedDict):
    """How many requests were given up."""

    given_up: int


@router.post("/recomputed")
async def recomputed(
    body: RecomputedBody, services: Given, request: Request
) -> ReportOutcomes | Response:
    """Record computed authorities; returns an outcome for each, in order."""
    await authorize(services, request)
    if body.urgent:
        units = [
            RecomputeUnit(result.intent, result.session_id, body.attempt) for result in body.results
        ]
        return await _urgent(services, units, body)
    by_session: dict[str, list[int]] = defaultdict(list)
    for index, recompute in enumerate(body.results):
        by_session[recompute.session_id].append(index)
    outcomes: list[ReportOutcome] = [{"outcome": "failed"} for _ in body.results]

    async def hand_over(session_id: str, indexes: list[int]) -> None:
        intents = tuple(body.results[index].intent for index in indexes)
        message = Recomputed(intents, body.attempt)
        if body.traceparents:
            message.traceparents = _traceparents_of([body.traceparents[index] for index in indexes])
        try:
            answers = await services.sessions.ask(session_id, message)
        except Exception as error:  # noqa: BLE001 - this session's results alone failed
            for index in indexes:
                outcomes[index] = {"outcome": "failed", "code": getattr(error, "code", "internal")}
            return
        for index, answer in zip(indexes, answers, strict=True):
            outcomes[index] = _outcome(answer)

    async with anyio.create_task_group() as tasks:
        for session_id, indexes in by_session.items():
            tasks.start_soon(hand_over, session_id, indexes)
    return short_json({"outcomes": outcomes})


@router.post("/retry-policy")
async def retry_policy(body: PolicyBody, services: Given, request: Request) -> GivenUpRequests:
    """Let a page of what waits by another policy wait by this one."""
    await authorize(services, request)
    return {"given_up": await services.write(RetryPolicyUnit(body.queue, body.policy))}


@router.post("/work")
async def work(body: WorkBody, services: Given, request: Request) -> ReportOutcomes | Response:
    """Record what became of asked-for work; returns an outcome for each report, in order.

    A batch goes through one actor unless it is urgent, and a queue that reports faster than is
    recorded is told so (`mailbox_full`).
    """
    await authorize(services, request)
    if body.queue not in QUEUE_KINDS:
        raise ApiError("work_queue_unknown", f"nobody reports of {body.queue!r}")
    if not body.reports:
        return short_json({"outcomes": []})
    if body.urgent:
        return await _urgent(services, [WorkReportUnit(report) for report in body.reports], body)
    message = Reports(tuple(body.reports))
    message.traceparents = _traceparents_of(body.traceparents)
    first = body.reports[0].request_id
    session_id = report_session(body.queue, first, services.fleet.held_shards)
    answers = await services.sessions.ask(session_id, message)
    return short_json({"outcomes": [_outcome(answer) for answer in answers]})


@router.post("/queues")
async def queues(body: QueuesBody, services: Given, request: Request) -> RegisteredDocument:
    """Register the queues that a worker serves, for every gateway of the ledger."""
    await authorize(services, request)
    try:
        beats = await services.work.heartbeats.alive()
        served = frozenset(queue for beat in beats for queue in beat.queues)
    except QueueError:  # then no registration makes room for another
        served = frozenset(await services.read(registered_definitions))
    stated = (
        QueueRegistration(
            each.queue,
            each.content_schema,
            each.item_key,
            tuple(QueuePriority(**row.model_dump()) for row in each.priorities),
            each.default_priority,
            each.priority_field,
        )
        for each in body.queues
    )
    unit = RegisterQueuesUnit(tuple(stated), served, body.is_new)
    return {"registered": await services.write(unit)}


async def _urgent(
    services: Services, units: Sequence[Unit], body: _Batch
) -> ReportOutcomes | Response:
    """Record units ahead of others: what they may do is decided by the record, not by order."""
    answers = await services.report(units, _traceparents_of(body.traceparents))
    return short_json({"outcomes": [_outcome(answer) for answer in answers]})


def _traceparents_of(traceparents: list[list[str]]) -> Traceparents:
    return tuple(tuple(of_claim) for of_claim in traceparents)


async def authorize(services: Services, request: Request) -> None:
    """Let a worker pass that proves that it knows the token, or shows it; raises `ApiError`."""
    if not await is_of_worker(services.worker_token, request):
        raise ApiError("unauthorized", "workers prove themselves with the worker token")


def _outcome(answer: object) -> ReportOutcome:
    if not isinstance(answer, tuple):
        return {"outcome": "failed", "code": getattr(answer, "code", "internal")}
    outcome, result = answer
    if result is None:
        return {"outcome": outcome}
    if isinstance(result, RejectedResult):
        document: ReportOutcome = {"outcome": outcome, "code": result.rejection.reason_code}
        if result.rejection.retry_after_s is not None:
            document["retry_after_s"] = result.rejection.retry_after_s
        return document
    if isinstance(result, RetryPause):
        return {"outcome": outcome, "pause_ms": result.pause_ms}
    return {"outcome": outcome}
