"""Serves authorities: asking for a recompute, the nightly tick, the backfill (§8.2, §8.6)."""

from typing import Annotated

import anyio.to_thread
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from actors.commit.units import AuthorityRecomputeReceipt, RequestRecomputeUnit
from actors.orchestrator.intents import Priority
from kernel.authority.sweeps import DEFAULT_DECAY_THRESHOLD_HOURS, BackfillDocument
from kernel.model.result import RejectedResult
from workers.api.errors import ApiError, respond
from workers.api.json_routes import RecordId, json_router
from workers.api.services import Given, Services
from workers.use_cases.access import does
from workers.use_cases.authority_sweeps import (
    Sweep,
    SweepDocument,
    backfill,
    backfill_progress,
    decay_tick,
    run_sweep,
)

NO_NUL = r"^[^\x00]+$"
"""Names on the record hold no U+0000."""

router = json_router("operate.fleet", prefix="/v1/authority", tags=["authority"])


class RecomputeBody(BaseModel):
    """Why a recompute is asked for; the same source asks for the same node once."""

    model_config = ConfigDict(extra="forbid")

    trigger_source_id: Annotated[str, Field(min_length=1, max_length=512, pattern=NO_NUL)]
    priority: Priority = "user_initiated_critical"


class TickBody(BaseModel):
    """The tick of today (UTC)."""

    model_config = ConfigDict(extra="forbid", strict=True)

    threshold_hours: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] = (
        DEFAULT_DECAY_THRESHOLD_HOURS
    )
    """How old a decay event has to be."""


class BackfilledDocument(SweepDocument):
    """What a backfill has asked for, and how far it is now."""

    progress: BackfillDocument


@router.post("/{node_id:path}/recompute", status_code=202)
async def recompute(
    node_id: RecordId, body: RecomputeBody, services: Given
) -> AuthorityRecomputeReceipt | Response:
    """Ask for an understanding's recompute and for all below it; answered when it is durable."""
    unit = RequestRecomputeUnit(node_id, body.trigger_source_id, body.priority)
    answer: AuthorityRecomputeReceipt | RejectedResult = await services.write(unit)
    if isinstance(answer, RejectedResult):
        rejection = answer.rejection
        if rejection.reason_code == "authority_target_unknown":
            raise ApiError("not_found", rejection.message)
        response = respond(rejection.reason_code, rejection.message, answer.document())
        response.status_code = 422
        return response
    return answer


@router.post("/tick")
async def tick(body: TickBody, services: Given) -> SweepDocument:
    """Ask for what is due tonight; run again, it asks for what was not asked for yet."""
    return await _run(services, decay_tick(services.ledger.host.now_us(), body.threshold_hours))


@router.post("/backfill")
async def fill(services: Given) -> BackfilledDocument:
    """Ask for every authority that is missing, parents first; run again, it goes on."""
    counts = await _run(services, backfill())
    progress = await anyio.to_thread.run_sync(backfill_progress, services.ledger)
    return {**counts, "progress": progress.document()}


@router.get("/backfill", openapi_extra=does("read.fleet"))
async def progress(services: Given) -> BackfillDocument:
    """Return how many understandings have an authority, and whether that is enough."""
    state = await anyio.to_thread.run_sync(backfill_progress, services.ledger)
    return state.document()


async def _run(services: Services, sweep: Sweep) -> SweepDocument:
    if sweep.trigger_kind in services.sweeping:
        raise ApiError("authority_sweep_running", "this sweep is running in this gateway")
    services.sweeping.add(sweep.trigger_kind)
    try:
        result = await run_sweep(sweep, services.ledger, services.write)
    finally:
        services.sweeping.discard(sweep.trigger_kind)
    return result.document()
