"""The FastAPI application of a gateway: the doors, the places, the guard, the table of errors."""

from fastapi import APIRouter, FastAPI

from kernel.host import Host
from workers.api import (
    audit,
    authority,
    belief,
    crons,
    errors,
    health,
    intake,
    queue_operations,
    records,
    replay,
    requests,
    rollbacks,
    sessions,
    shards,
    simulations,
    synthesis,
)
from workers.api.admission import Door
from workers.api.error_documents import ERROR_RESPONSES
from workers.api.guard import Guard
from workers.api.services import Services


def build_app(
    services: Services, dashboard: APIRouter, *, hosts: frozenset[str], host: Host
) -> FastAPI:
    """Return the application; nothing of it runs before a server serves it."""
    app = FastAPI(
        title="Rotulus",
        description="Decisions through one kernel onto one record.",
        telemetry={"auto_configure": False},
        docs_url=None,
        redoc_url=None,
        responses=ERROR_RESPONSES,
    )
    app.state.services = services
    errors.install(app)
    for module in (
        belief,
        sessions,
        synthesis,
        simulations,
        records,
        shards,
        audit,
        authority,
        rollbacks,
        replay,
        requests,
        queue_operations,
        intake,
        crons,
        health,
    ):
        app.include_router(module.router)
    app.include_router(dashboard, include_in_schema=False)
    app.add_middleware(Door, admission=services.admission)
    app.add_middleware(Guard, hosts=hosts, host=host)
    return app
