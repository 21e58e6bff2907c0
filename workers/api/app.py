"""Puts the application of a gateway together: its routes, and its middleware before them."""

from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response

from kernel.records.access.actions import PUBLIC
from kernel.values.host import Host
from workers.api.application import Application
from workers.api.middleware.admission import AdmissionMiddleware
from workers.api.middleware.answer_headers import AnswerHeadersMiddleware
from workers.api.middleware.request_guard import ReaderSend, RequestGuardMiddleware
from workers.api.routes import (
    access,
    archive,
    authority,
    belief_sessions,
    bindings,
    bulk_operations,
    cron_jobs,
    erasures,
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
from workers.use_cases.access import does

MODULES = (
    belief_sessions,
    session_operations,
    operation_streams,
    syntheses,
    simulations,
    work_requests,
    questions,
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
    bulk_operations,
    implications,
    landscape,
    thoughts,
    access,
    rounds,
    erasures,
    quarantines,
    ledger_heads,
    archive,
    worker_reports,
    cron_jobs,
    health,
)

DOCUMENT = Path(__file__).with_name("openapi.json")
"""The OpenAPI document; making it takes longer than a request may hold the event loop."""


def build_app(
    services: Services,
    *others: APIRouter,
    hosts: frozenset[str],
    host: Host,
    reader_send: ReaderSend = lambda _, __, send: send,
) -> Application:
    """Return the application with its routes and those of others; a server serves it."""
    routers = (*(module.router for module in MODULES), *others, _document_router())
    app = Application((route for router in routers for route in router.routes), services)
    # What is added last comes first.
    app.add_middleware(AdmissionMiddleware, admission=services.admission)
    app.add_middleware(AnswerHeadersMiddleware, owner_url=services.fleet.owner_url)
    app.add_middleware(
        RequestGuardMiddleware,
        hosts=hosts,
        host=host,
        went_back=services.health.went_back,
        reader_send=reader_send,
    )
    return app


@cache
def _document_router() -> APIRouter:
    router, document = APIRouter(), DOCUMENT.read_bytes()

    @router.get("/openapi.json", include_in_schema=False, openapi_extra=does(PUBLIC))
    async def openapi_document() -> Response:
        return Response(document, media_type="application/json")

    return router
