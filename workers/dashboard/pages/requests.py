"""The page of a request: what it asks for, how it stands, why it waits, and how to end it."""

import json

from starlette.requests import Request
from starlette.responses import Response

from workers.dashboard.pages.page import Pages
from workers.dashboard.pages.queues import done_of

CONTENT_CHARS_MAX = 4_000


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
