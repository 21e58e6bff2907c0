"""Serves what the fleet does periodically and only a writer can do: a unit each.

Workers claim a period among themselves; should two come with one, the second changes nothing.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from actors.commit.units import Unit
from actors.commit.work_units import AuditUnit, RetentionSweepUnit
from kernel.verify.recent import AuditMark, audit_since
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.routes.worker_reports import authorize
from workers.api.services import Given
from workers.use_cases.log_archiving import archive_some

router = json_router("report.work", prefix="/internal/crons", include_in_schema=False)

CRON_UNITS: Mapping[str, Unit] = MappingProxyType({"retention-sweep": RetentionSweepUnit()})
"""The unit of each cron, by its name in `workers/worker/cron.py`."""

_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Sequence = Annotated[int, Field(ge=0, le=2**53 - 1, strict=True)]


class MarkBody(BaseModel):
    """From where on an audit found something."""

    model_config = ConfigDict(extra="forbid")

    ec_sequence_number: _Sequence
    row_hash: _Hash
    receipt_sequence: _Sequence
    receipt_hash: _Hash
    tile_index: _Sequence = 0


class AuditDocument(TypedDict):
    """How many findings an audit has, and the receipt that it left if there are any."""

    findings: int
    receipt_id: str | None


class CronDocument(TypedDict):
    """What a cron came to."""

    result: Any


@router.post("/chain-audit")
async def chain_audit(body: MarkBody, services: Given, request: Request) -> AuditDocument:
    """Look again from a mark, and record what is found, once.

    Rows of the log are quarantined by that, and health is degraded until it is lifted; what is
    about no row turns it red until then (L3).
    """
    await authorize(services, request)
    mark = AuditMark(**body.model_dump())
    audited = await services.read(partial(audit_since, mark=mark))
    if audited.verification.ok:
        return {"findings": 0, "receipt_id": None}
    receipt_id = await services.write(AuditUnit(audited.verification))
    return {"findings": len(audited.verification.findings), "receipt_id": receipt_id}


@router.post("/log-archival")
async def log_archival(services: Given, request: Request) -> CronDocument:
    """Take a few steps of archival; a caller goes on while it is not complete."""
    await authorize(services, request)
    retention = services.retention.of(services.ledger)
    done = await archive_some(services.ledger, services.write, retention)
    return {"result": asdict(done)}


@router.post("/{name}")
async def cron(
    name: Annotated[str, Path(max_length=64)], services: Given, request: Request
) -> CronDocument:
    """Run what a cron has to write; returns what it came to."""
    await authorize(services, request)
    unit = CRON_UNITS.get(name)
    if unit is None:
        raise ApiError("not_found", f"no cron is called {name!r}")
    return {"result": await services.write(unit)}
