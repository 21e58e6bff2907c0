"""Takes the reports of workers, which prove themselves with a token (K18).

Without a token setting these routes are closed. A batch of reports goes through the actor of a
session of this gateway's own (`actors/sharding/report_sessions.py`), so mailboxes limit what
reports at once, unless it is of critical work (decision actors/0042). A worker names a request; the
unit reads from the record what it asks for.
"""

import hmac
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, NotRequired, Self

import anyio
from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator
from typing_extensions import TypedDict

from actors.commit.recompute_units import RecomputeUnit
from actors.commit.units import DeadLetterUnit, Unit
from actors.commit.work_units import WorkReportUnit
from actors.messages import Recomputed, Reports
from actors.orchestrator.intents import RecalculateAuthority
from actors.sharding.assignment import NO_SESSION
from actors.sharding.report_sessions import report_session
from kernel.model.result import RejectedResult
from kernel.work.queue_kinds import asked_kind
from kernel.work.reports import WorkReport
from queues.queue.items import CAUSES_KEPT_MAX
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.services import Given, Services, Traceparents
from workers.api.union_tags import short_tag
from workers.client.typed.worker_proof import SCHEME, proof_of
from workers.telemetry.trace_context import TRACED_CAUSES_MAX

RESULTS_MAX = 256

Traceparent = Annotated[str, Field(max_length=64)]
GivenTraceparents = Annotated[
    list[Annotated[list[Traceparent], Field(max_length=TRACED_CAUSES_MAX, fail_fast=True)]],
    Field(max_length=RESULTS_MAX, fail_fast=True),
]
"""The spans of the worker that each part belongs to; none, or as many as there are parts."""

router = json_router(prefix="/internal", include_in_schema=False)


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
    """A batch of results."""

    results: Annotated[list[RecomputeResult], Field(max_length=RESULTS_MAX, fail_fast=True)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_traceparents(self.traceparents, self.results)
        return self


class DeadLetterBody(BaseModel):
    """An item that is given up, and the requests for it that were tried."""

    model_config = ConfigDict(extra="forbid")

    item_key: Annotated[str, Field(min_length=1, max_length=512)]
    request_ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=512)]],
        Field(min_length=1, max_length=CAUSES_KEPT_MAX, fail_fast=True),
    ]
    error_signature: Annotated[str, Field(min_length=1, max_length=200)]


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


class ReportOutcome(TypedDict):
    """What became of one report; a refusal has its code."""

    outcome: str
    code: NotRequired[str]
    retry_after_s: NotRequired[int]


class ReportOutcomes(TypedDict):
    """An outcome for each report, in order."""

    outcomes: list[ReportOutcome]


class ClosedRequests(TypedDict):
    """How many requests got their outcome."""

    closed: int


@router.post("/recomputed")
async def recomputed(body: RecomputedBody, services: Given, request: Request) -> ReportOutcomes:
    """Record computed authorities; returns an outcome for each, in order."""
    await authorize(services, request)
    if body.urgent:
        units = [RecomputeUnit(result.intent, result.session_id) for result in body.results]
        return await _urgent(services, units, body)
    by_session: dict[str, list[int]] = defaultdict(list)
    for index, recompute in enumerate(body.results):
        by_session[recompute.session_id].append(index)
    outcomes: list[ReportOutcome] = [{"outcome": "failed"} for _ in body.results]

    async def hand_over(session_id: str, indexes: list[int]) -> None:
        message = Recomputed(tuple(body.results[index].intent for index in indexes))
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
    return {"outcomes": outcomes}


@router.post("/dead-letters")
async def dead_letter(body: DeadLetterBody, services: Given, request: Request) -> ClosedRequests:
    """Record that an item is given up: of the requests that are named, the open ones."""
    await authorize(services, request)
    closed = await services.write(
        DeadLetterUnit(body.item_key, body.error_signature, tuple(body.request_ids))
    )
    return {"closed": closed}


@router.post("/work")
async def work(body: WorkBody, services: Given, request: Request) -> ReportOutcomes:
    """Record what became of asked-for work; returns an outcome for each report, in order.

    A batch goes through one actor unless it is urgent, and a queue that reports faster than is
    recorded is told so (`mailbox_full`).
    """
    await authorize(services, request)
    if asked_kind(body.queue) is None:
        raise ApiError("work_queue_unknown", f"nobody reports of {body.queue!r}")
    if not body.reports:
        return {"outcomes": []}
    if body.urgent:
        return await _urgent(services, [WorkReportUnit(report) for report in body.reports], body)
    message = Reports(tuple(body.reports))
    message.traceparents = _traceparents_of(body.traceparents)
    first = body.reports[0].request_id
    session_id = report_session(body.queue, first, services.fleet.held_shards)
    answers = await services.sessions.ask(session_id, message)
    return {"outcomes": [_outcome(answer) for answer in answers]}


async def _urgent(services: Services, units: Sequence[Unit], body: _Batch) -> ReportOutcomes:
    """Record units ahead of others: what they may do is decided by the record, not by order."""
    answers = await services.report(units, _traceparents_of(body.traceparents))
    return {"outcomes": [_outcome(answer) for answer in answers]}


def _traceparents_of(traceparents: list[list[str]]) -> Traceparents:
    return tuple(tuple(of_claim) for of_claim in traceparents)


async def authorize(services: Services, request: Request) -> None:
    """Let a worker pass that proves that it knows the token, or shows it; raises `ApiError`."""
    token, stated = services.worker_token, request.headers.get("authorization", "")
    if token is not None:
        if stated.startswith(SCHEME):
            expected = proof_of(token, request.method, _target(request), await request.body())
        else:
            stated, expected = stated.removeprefix("Bearer "), token
        if hmac.compare_digest(stated.encode(), expected.encode()):
            return
    raise ApiError("unauthorized", "workers prove themselves with the worker token")


def _target(request: Request) -> bytes:
    path, query = request.scope["raw_path"], request.scope["query_string"]
    return bytes(path + b"?" + query if query else path)


def _outcome(answer: object) -> ReportOutcome:
    if not isinstance(answer, tuple):
        return {"outcome": "failed", "code": getattr(answer, "code", "internal")}
    outcome, result = answer
    if isinstance(result, RejectedResult):
        document: ReportOutcome = {"outcome": outcome, "code": result.rejection.reason_code}
        if result.rejection.retry_after_s is not None:
            document["retry_after_s"] = result.rejection.retry_after_s
        return document
    return {"outcome": outcome}
