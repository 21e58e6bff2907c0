"""The FastAPI application of a gateway: the doors, the places, the guard, the table of errors."""

from fastapi import APIRouter, FastAPI

from kernel.host import Host
from workers.api import errors
from workers.api.middleware.admission import Door
from workers.api.middleware.request_guard import Guard
from workers.api.openapi_errors import ERROR_RESPONSES
from workers.api.routes import (
    audit,
    authority,
    belief_sessions,
    cron_jobs,
    health,
    queue_operations,
    records,
    replays,
    rollbacks,
    session_operations,
    shards,
    simulations,
    syntheses,
    work_requests,
    worker_reports,
)
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
        redirect_slashes=False,
        responses=ERROR_RESPONSES,
    )
    app.state.services = services
    errors.install(app)
    for module in (
        belief_sessions,
        session_operations,
        syntheses,
        simulations,
        records,
        shards,
        audit,
        authority,
        rollbacks,
        replays,
        work_requests,
        queue_operations,
        worker_reports,
        cron_jobs,
        health,
    ):
        app.include_router(module.router)
    app.include_router(dashboard, include_in_schema=False)
    app.add_middleware(Door, admission=services.admission)
    app.add_middleware(Guard, hosts=hosts, host=host)
    return app
