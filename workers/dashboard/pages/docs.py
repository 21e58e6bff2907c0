"""Shows the pages of the HTTP interface: every route, and every schema that a route names."""

from starlette.requests import Request
from starlette.responses import Response

from workers.dashboard.pages.page import Pages


async def index(pages: Pages, request: Request) -> Response:
    """Answer with the routes by their subject."""
    interface = await pages.source.interface()
    return await pages.answer(request, "docs", {"tags": interface.by_tag()})


async def route(pages: Pages, request: Request) -> Response:
    """Answer with the page of a route."""
    interface = await pages.source.interface()
    shown = interface.routes.get(request.path_params["route_id"])
    if shown is None:
        return await pages.refuse(request, "not_found", "the interface has no such route")
    return await pages.answer(request, "docs_route", {"route": shown})


async def schema(pages: Pages, request: Request) -> Response:
    """Answer with the page of a schema."""
    interface = await pages.source.interface()
    shown = interface.schemas.get(request.path_params["name"])
    if shown is None:
        return await pages.refuse(request, "not_found", "the interface has no such schema")
    return await pages.answer(request, "docs_schema", {"schema": shown})
