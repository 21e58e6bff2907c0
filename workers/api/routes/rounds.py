"""Serves rounds of sessions of thoughts: opened, sealed, listed (seed 002)."""

from fastapi import Response

from actors.commit.thought_units import OpenRoundUnit, RoundDocument, SealRoundUnit
from workers.api.json_routes import json_router
from workers.api.routes.thoughts import answer_or_refusal
from workers.api.services import Given

router = json_router("operate.fleet", prefix="/v1/rounds", tags=["thoughts"])


@router.post("/open")
async def open_round(services: Given) -> RoundDocument | Response:
    """Open the round behind the newest one, which has to be sealed."""
    return answer_or_refusal(await services.write(OpenRoundUnit()))


@router.post("/seal")
async def seal_round(services: Given) -> RoundDocument | Response:
    """Seal the open round, which has to have a session."""
    return answer_or_refusal(await services.write(SealRoundUnit(services.sealing)))
