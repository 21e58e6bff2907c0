"""Runs over HTTP (seed 003): which there are, what they came to, why a row went as it did."""

from typing import Annotated

from fastapi import Query, Response

from actors.commit.run_units import RunSealDocument, SealRunUnit
from kernel.landscape.seals import seal_to_state
from workers.api.json_routes import json_router
from workers.api.routes.records import RecordId
from workers.api.routes.thoughts import answered
from workers.api.services import Given
from workers.views import landscape

_Text = Annotated[str, Query(min_length=1, max_length=512)]


router = json_router(prefix="/v1/landscape", tags=["landscape"])


@router.post("/runs/{run_id}/seal")
async def seal_run(run_id: RecordId, services: Given) -> RunSealDocument | Response:
    """State the digests of a run that has ended on the log; a second time, answer with them."""
    stated = await services.read(lambda view: seal_to_state(view, run_id))
    return answered(await services.write(SealRunUnit(stated)))


@router.get("/explain")
async def explain(
    services: Given, record_id: _Text, run_id: _Text | None = None, sink: _Text | None = None
) -> landscape.ExplanationDocument:
    """Return what an id names, and the lineage of every token that it leads to."""
    return await services.read(
        lambda view: landscape.explain_token(view, record_id, run_id=run_id, sink=sink)
    )


@router.get("/activity")
async def activity(
    services: Given, minutes: Annotated[int, Query(ge=1, le=landscape.MINUTES_MAX)] = 60
) -> landscape.ActivityDocument:
    """Return the runs that began in the last minutes."""
    now_us = services.ledger.host.now_us()
    return await services.read(
        lambda view: landscape.recent_activity(view, now_us, minutes=minutes)
    )


@router.get("/diagnose")
async def diagnose(services: Given) -> landscape.DiagnosisDocument:
    """Return what needs attention among the newest runs."""
    now_us = services.ledger.host.now_us()
    return await services.read(lambda view: landscape.diagnose(view, now_us))
