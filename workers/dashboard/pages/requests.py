"""The page of a request, and the list of the requests of all queues."""

import json

from starlette.requests import Request
from starlette.responses import Response

from workers.dashboard.pages.filters import (
    STATES,
    filters_of,
    no_times_of,
    place_of,
    query_of,
    search_of,
)
from workers.dashboard.pages.page import Pages
from workers.dashboard.pages.queues import done_of

CONTENT_CHARS_MAX = 4_000


async def index(pages: Pages, request: Request) -> Response:
    """Answer with the requests of all queues that fit, newest first."""
    query = request.query_params
    search, after = search_of(query), place_of(query, "after")
    page = await pages.source.requests(search, after)
    filters = filters_of(query, search)
    context = {
        "page": page,
        "filters": filters,
        "no_times": no_times_of(query),
        "states": STATES,
        "next_query": query_of({**filters, "after": page.next_after}),
        "is_first_page": after is None,
    }
    return await pages.answer(request, "requests", context)


async def show(pages: Pages, request: Request) -> Response:
    """Answer with the page of a request."""
    queue, request_id = request.path_params["queue"], request.path_params["request_id"]
    picture = await pages.source.request(queue, request_id)
    if picture is None:
        message = f"nobody asked this queue for {request_id!r}"
        return await pages.refused(request, "work_request_unknown", message)
    content = json.dumps(picture.status.content, indent=2)
    context = {
        "picture": picture,
        "status": picture.status,
        "content": content[:CONTENT_CHARS_MAX],
        "is_cut": len(content) > CONTENT_CHARS_MAX,
        "done": done_of(request.query_params),
    }
    return await pages.answer(request, "request", context)
