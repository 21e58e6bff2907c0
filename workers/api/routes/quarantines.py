"""Serves what was found damaged: what stands, what a reader met, and its end (§17.5)."""

from functools import partial
from typing import Annotated

import anyio.to_thread
from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from actors.commit.quarantine_units import LiftQuarantineUnit
from kernel.ledger.damage import DAMAGE_CODES, TEXT_CHARS_MAX, Damage
from kernel.ledger.quarantine import RecordKey
from kernel.verify.checked_reading import is_damaged
from workers.api.json_routes import json_router
from workers.api.routes.erasures import GroundsBody, LiftedDocument
from workers.api.services import Given

router = json_router("operate.fleet", prefix="/v1", tags=["operators"])

_QuarantineId = Annotated[str, Path(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f/]+$")]


class DamageBody(BaseModel):
    """A damaged record that a process met which reads beside the gateway."""

    model_config = ConfigDict(extra="forbid")

    code: Annotated[str, Field(pattern=r"^[a-z_]{1,64}$")]
    table: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")]
    key: Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
    message: Annotated[str, Field(max_length=TEXT_CHARS_MAX)]


class DamageNoted(TypedDict):
    """Whether it was noted; a row that this gateway reads as it was written is none."""

    noted: bool


@router.post("/quarantines")
async def report_damage(body: DamageBody, services: Given) -> DamageNoted:
    """Note a record that a reader beside this gateway found damaged; again changes nothing.

    It is looked at here first, and counts where this gateway reads the row as damaged too: what is
    not there, or has no row, may be anything that a caller makes up.
    """
    damage = Damage(**body.model_dump())
    record = RecordKey(damage.table, damage.key)
    noted = damage.code in DAMAGE_CODES and await anyio.to_thread.run_sync(
        services.ledger.read, partial(is_damaged, record=record)
    )
    if noted:
        services.ledger.damage.add(damage)
    return {"noted": noted}


@router.post("/quarantines/{quarantine_id}/lift")
async def lift_quarantine(
    quarantine_id: _QuarantineId, body: GroundsBody, services: Given, request: Request
) -> LiftedDocument:
    """Lift a quarantine on the record, with the reason; again changes nothing.

    Its rows are read and computed from again as they stand. An audit that finds them otherwise than
    they stand now quarantines them anew.
    """
    changed = await services.write(LiftQuarantineUnit(quarantine_id, body.grounds(request)))
    if changed:
        services.health.problems.pop("record", None)
    return {"changed": changed}
