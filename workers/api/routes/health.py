"""Serves the health of the process: whether it is alive and ready, with what is missing.

A gateway is ready when it owns a shard. With more gateways than shards some own none and say so;
they pass requests on all the same.
"""

from typing import Annotated, Any, Literal

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from actors.sharding import SHARDS_MAX
from kernel.ledger.head_watch import LedgerWentBack
from workers.api.json_routes import json_router
from workers.api.services import Given, Services
from workers.views.quarantines import damage_problems, quarantine_problem
from workers.views.readiness import damaged_records, problems_of_process

router = json_router("public", tags=["health"])


class ShardsOwned(BaseModel):
    """How many of the ledger's shards this gateway owns."""

    model_config = ConfigDict(extra="forbid")

    owned: Annotated[int, Field(ge=0, le=SHARDS_MAX)]
    of: Annotated[int, Field(ge=1, le=SHARDS_MAX)]


class ReadinessReport(BaseModel):
    """Whether work can be taken, and what is missing by component."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["ready", "degraded", "not ready"]
    """Degraded: work is taken, and a part of the log is read by nobody who computes."""

    problems: dict[str, str]
    shards: ShardsOwned | None = None


class Liveness(TypedDict):
    """That the process answers."""

    status: Literal["alive"]


@router.get("/healthz")
async def healthz() -> Liveness:
    """Say that the process answers."""
    return {"status": "alive"}


@router.get(
    "/readyz",
    response_model=ReadinessReport,
    responses={503: {"model": ReadinessReport, "description": "Something is missing"}},
)
async def readyz(services: Given) -> JSONResponse:
    """Say whether work can be taken: ledger, Redis, a shard, the clock, no damaged record.

    A quarantined range of the log degrades a gateway, which goes on to take work (§17.5); any other
    damaged record keeps health red until an operator has dealt with it (L3).
    """
    degraded: dict[str, str] = {}
    await services.work.redis_watch.current()
    problems = problems_of_process(services)
    if "ledger_went_back" not in problems:
        problems |= await _ledger_problems(services, degraded)
    body: dict[str, Any] = {}
    if (shards := services.fleet.held_shards) is not None:
        body["shards"] = {"owned": len(shards.held), "of": shards.shards}
    status = "not ready" if problems else "degraded" if degraded else "ready"
    body |= {"status": status, "problems": problems | degraded}
    return JSONResponse(body, 503 if problems else 200)


async def _ledger_problems(services: Services, degraded: dict[str, str]) -> dict[str, str]:
    """Return why the ledger does not serve, and add what of it is quarantined."""
    met = damaged_records(services)
    try:
        _, quarantines = await services.read(lambda view: (view.head(), view.quarantines()))
    except LedgerWentBack as error:
        return {"ledger_went_back": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever it is, the ledger cannot be read
        return damage_problems(met) | {"ledger": type(error).__name__}
    if quarantines.ranges:
        degraded["quarantine"] = quarantine_problem(quarantines.ranges)
    return damage_problems(met | quarantines.records)
