"""Declares the routes of the dashboard; all of them only read, but for the forms of the pages.

URLs are relative to the page that names them, so the page works under any mount point and behind
any proxy. Every answer carries the security headers.
"""

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from jinja2 import Template
from starlette.responses import HTMLResponse, Response

from kernel.records.access.actions import PUBLIC
from kernel.records.access.readable_view import RecordReader
from workers.dashboard import formatting, page_model
from workers.dashboard.assets import load_assets
from workers.dashboard.event_stream import EventStream
from workers.dashboard.headers import FOREVER, LIVE, PAGE, RECHECK, refusal
from workers.dashboard.hub import Published, SnapshotHub
from workers.dashboard.pages import ROUTES, past
from workers.dashboard.pages.charts import charts_context
from workers.dashboard.pages.page import PageRoute, Pages, frame_context, templates
from workers.dashboard.pages.source import PageSource
from workers.dashboard.snapshot import snapshot_json
from workers.use_cases.access import caller_of, does, reader_of


class _Hubs:
    """What takes pictures, by who looks at them."""

    def __init__(self, whole: SnapshotHub, cleared: Mapping[str, SnapshotHub]) -> None:
        self._whole = whole
        self._cleared = cleared

    def of(self, reader: RecordReader) -> SnapshotHub:
        """Return what takes the picture that a reader may see."""
        return self._whole if reader.reads_everything else self._cleared[reader.clearance]

    async def page_for(self, request: Request) -> page_model.Row:
        """Return the newest picture for whoever opens a page."""
        caller = caller_of(request.scope)
        reader = reader_of(request.scope) if caller is None else caller.reader("read.fleet")
        # Of a clearance nobody takes a picture that nobody has asked for.
        hub = self.of(reader)
        return (hub.newest if hub is self._whole else await hub.fresh()).page


def build_router(
    hub: SnapshotHub,
    source: PageSource | None = None,
    cleared: Mapping[str, SnapshotHub] = MappingProxyType({}),
) -> APIRouter:
    """Return the router of the dashboard; the caller runs `hub.run()` and calls `hub.stop()`.

    Without a source of pages only the overview is served. Of `cleared` there is a hub for each
    clearance below everything, where access takes keys.

    Templates and files are read here, once, and never again while serving.
    """
    assets, template = load_assets(), _load_template()
    hubs = _Hubs(hub, cleared)
    pages = None if source is None else Pages(source, assets, hubs.page_for)

    async def overview(request: Request) -> Response:
        if "at" in request.query_params and pages is not None:
            request.scope["rotulus.place"] = "Overview"
            return await past.answer(pages.for_request(request), request, "/")
        reader = reader_of(request.scope)
        picture = await hubs.of(reader).fresh()
        frame = frame_context(request, assets, "Overview", picture.page)
        context = frame | _context(picture, hub.clock())
        if source is not None:
            charts = source.for_reader(reader)
            context |= await charts_context(charts, request.query_params)
        # A full page takes tens of milliseconds; in a thread it does not hold the loop.
        return HTMLResponse(await to_thread.run_sync(template.render, context), headers=PAGE)

    async def events(request: Request) -> Response:
        return EventStream(hubs.of(reader_of(request.scope)))

    async def static(version: str, name: str) -> Response:
        asset = assets.by_name.get(name)
        if asset is None:
            return refusal("not_found", "no such file")
        # A page of another release may still ask here; it must not keep what it gets.
        headers = FOREVER if version == assets.version else RECHECK
        return Response(asset.body, media_type=asset.media_type, headers=headers)

    async def snapshot(request: Request) -> Response:
        body = snapshot_json((await hubs.of(reader_of(request.scope)).fresh()).snapshot)
        return Response(body, media_type="application/json", headers=LIVE)

    router = APIRouter()
    table: tuple[tuple[str, str, Callable[..., Awaitable[Response]]], ...] = (
        ("/", "read.fleet", overview),
        ("/events", "read.fleet", events),
        ("/static/{version}/{name}", PUBLIC, static),
        ("/snapshot.json", "read.fleet", snapshot),
    )
    for path, action, endpoint in table:
        router.add_api_route(
            path,
            endpoint,
            response_model=None,
            include_in_schema=False,
            openapi_extra=does(action),
        )
    if pages is not None:
        _add_pages(router, pages)
    return router


def _add_pages(router: APIRouter, pages: Pages) -> None:
    def answering(page: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            request.scope["rotulus.place"] = page.place
            readable = pages.for_request(request)
            if page.method == "GET" and "at" in request.query_params:
                return await past.answer(readable, request, page.path)
            return await page.handler(readable, request)

        return answer

    for page, declared in zip(ROUTES, _declared_pages(), strict=True):
        route = copy(declared)
        route.endpoint = answering(page)
        router.routes.append(route)


async def _any_page(request: Request) -> None:
    """Have the signature that the endpoint of every page has."""


@cache
def _declared_pages() -> tuple[APIRoute, ...]:
    """Return the routes of the pages, whose signatures the framework looks at once a process."""
    return tuple(
        APIRoute(
            page.path,
            _any_page,
            methods=[page.method],
            response_model=None,
            include_in_schema=False,
            openapi_extra=does(page.action),
        )
        for page in ROUTES
    )


@cache
def _load_template() -> Template:
    return templates().get_template("overview.html")


def _context(picture: Published, now: datetime) -> dict[str, Any]:
    return {
        "page": picture.page,
        "parts": page_model.notes(picture.snapshot, now),
        "time_iso": formatting.iso(picture.snapshot.time),
        "version": str(picture.snapshot.version),
        "duration": formatting.duration,
        "empty": page_model.Rows([], {}),
    }
