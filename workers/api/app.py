"""The FastAPI application of a gateway: the doors, the places, the guard, the table of errors."""

from pathlib import Path

from fastapi import APIRouter, FastAPI, Response

from kernel.host import Host
from workers.api import errors
from workers.api.middleware.admission import AdmissionMiddleware
from workers.api.middleware.request_guard import RequestGuardMiddleware
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

_DOCUMENT = Path(__file__).with_name("openapi.json")
"""The OpenAPI document; making it takes longer than a request may hold the event loop."""


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
        openapi_url=None,
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
    document = _DOCUMENT.read_bytes()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi_document() -> Response:
        return Response(document, media_type="application/json")

    app.add_middleware(AdmissionMiddleware, admission=services.admission)
    app.add_middleware(RequestGuardMiddleware, hosts=hosts, host=host)
    return app
