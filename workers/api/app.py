"""The FastAPI application of a gateway: its routes, its middleware, and how it answers errors."""

from inspect import unwrap
from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig

from kernel.values.host import Host
from workers.api import errors
from workers.api.middleware.admission import AdmissionMiddleware
from workers.api.middleware.answer_headers import AnswerHeadersMiddleware
from workers.api.middleware.request_guard import RequestGuardMiddleware
from workers.api.middleware.thin_routes import ThinRoutesMiddleware
from workers.api.openapi_errors import ERROR_RESPONSES
from workers.api.routes import (
    archive,
    authority,
    belief_sessions,
    bindings,
    cron_jobs,
    erasures,
    explanations,
    health,
    implications,
    landscape,
    ledger_heads,
    log_proofs,
    operation_streams,
    published_log,
    quarantines,
    questions,
    queue_operations,
    records,
    replays,
    reviews,
    rollbacks,
    rounds,
    session_operations,
    shards,
    simulations,
    sources,
    syntheses,
    thoughts,
    work_requests,
    worker_reports,
)
from workers.api.services import Services

MODULES = (
    belief_sessions,
    session_operations,
    operation_streams,
    syntheses,
    simulations,
    work_requests,
    questions,
    records,
    explanations,
    log_proofs,
    published_log,
    bindings,
    sources,
    shards,
    authority,
    reviews,
    rollbacks,
    replays,
    queue_operations,
    implications,
    landscape,
    thoughts,
    rounds,
    erasures,
    quarantines,
    ledger_heads,
    archive,
    worker_reports,
    cron_jobs,
    health,
)

HOT = frozenset(
    {
        belief_sessions.eliminate,
        session_operations.operate,
        session_operations.submit,
        work_requests.enqueue,
        worker_reports.recomputed,
        worker_reports.work,
    }
)
"""The endpoints that are asked most, which are called without the framework."""

NO_TELEMETRY: TelemetryConfig = {
    "auto_configure": False,
    "tracing": False,
    "metrics": False,
    "logs": False,
}
"""The framework's own telemetry; asking whether it is wanted costs each request something."""

DOCUMENT = Path(__file__).with_name("openapi.json")
"""The OpenAPI document; making it takes longer than a request may hold the event loop."""


def build_app(
    services: Services, dashboard: APIRouter, *, hosts: frozenset[str], host: Host
) -> FastAPI:
    """Return the application; nothing of it runs before a server serves it."""
    app = FastAPI(
        title="Rotulus",
        description="Decisions through one kernel onto one record.",
        telemetry=NO_TELEMETRY,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        servers=[{"url": "./", "description": "The folder in which this document lies."}],
        responses=ERROR_RESPONSES,
    )
    app.state.services = services
    errors.install(app)
    # A router that is included is looked through twice, and its routes are worked out anew.
    for router in (*(module.router for module in MODULES), dashboard):
        app.router.routes.extend(router.routes)
    document = DOCUMENT.read_bytes()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi_document() -> Response:
        return Response(document, media_type="application/json")

    # What is added last comes first.
    app.add_middleware(ThinRoutesMiddleware, routes=hot_routes(), services=services)
    app.add_middleware(AdmissionMiddleware, admission=services.admission)
    app.add_middleware(AnswerHeadersMiddleware, owner_url=services.fleet.owner_url)
    app.add_middleware(
        RequestGuardMiddleware, hosts=hosts, host=host, went_back=services.health.went_back
    )
    return app


def hot_routes() -> list[APIRoute]:
    """Return the declarations of the hot routes."""
    declared = (route for module in MODULES for route in module.router.routes)
    routes = [route for route in declared if isinstance(route, APIRoute)]
    return [route for route in routes if unwrap(route.endpoint) in HOT]
