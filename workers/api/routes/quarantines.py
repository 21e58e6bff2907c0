"""Quarantined ranges of the log over HTTP: which stand, and the end of one (§17.5)."""

from typing import Annotated

from fastapi import Path

from actors.commit.quarantine_units import LiftQuarantineUnit
from workers.api.json_routes import json_router
from workers.api.routes.erasures import GroundsBody, LiftedDocument
from workers.api.services import Given
from workers.views.quarantines import QuarantinesDocument, quarantines_document

router = json_router(prefix="/v1", tags=["operators"])

_QuarantineId = Annotated[str, Path(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f/]+$")]


@router.get("/quarantines")
async def quarantines(services: Given) -> QuarantinesDocument:
    """List the quarantines that stand, in the order in which they were found."""
    return await services.read(quarantines_document)


@router.post("/quarantines/{quarantine_id}/lift")
async def lift_quarantine(
    quarantine_id: _QuarantineId, body: GroundsBody, services: Given
) -> LiftedDocument:
    """Lift a quarantine on the record, with the reason; again changes nothing.

    Its rows are read and computed from again as they stand. An audit that finds them otherwise than
    they stand now quarantines them anew.
    """
    return {"changed": await services.write(LiftQuarantineUnit(quarantine_id, body.grounds()))}
