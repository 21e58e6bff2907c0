"""Rounds of sessions of thoughts over HTTP: opened, sealed, listed (seed 002)."""

from typing import Annotated

from fastapi import Query, Response

from actors.commit.thought_units import OpenRoundUnit, RoundDocument, SealRoundUnit
from workers.api.json_routes import json_router
from workers.api.routes.thoughts import PAGE_MAX, answered
from workers.api.services import Given
from workers.views.thoughts import RoundsDocument, rounds_document

router = json_router(prefix="/v1/rounds", tags=["thoughts"])


@router.get("")
async def rounds(
    services: Given,
    after: Annotated[int, Query(ge=0, le=(1 << 53) - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> RoundsDocument:
    """Return rounds in their order; go on after `next_after`."""
    return await services.read(lambda view: rounds_document(view, after=after, limit=limit))


@router.post("/open")
async def open_round(services: Given) -> RoundDocument | Response:
    """Open the round behind the newest one, which has to be sealed."""
    return answered(await services.write(OpenRoundUnit()))


@router.post("/seal")
async def seal_round(services: Given) -> RoundDocument | Response:
    """Seal the open round, which has to have a session."""
    return answered(await services.write(SealRoundUnit(services.sealing)))
