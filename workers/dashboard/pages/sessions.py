"""The page of a session, and the list of belief sessions."""

from starlette.requests import Request
from starlette.responses import Response

from workers.dashboard.pages.filters import place_of, query_of, text_of
from workers.dashboard.pages.page import Pages


async def index(pages: Pages, request: Request) -> Response:
    """Answer with the belief sessions that fit, the last changed first."""
    words, after = text_of(request.query_params, "words"), text_of(request.query_params, "after")
    page = await pages.source.sessions(words, after)
    context = {
        "page": page,
        "words": words,
        "next_query": query_of({"words": words, "after": page["next_after"]}),
        "is_first_page": after is None,
    }
    return await pages.answer(request, "sessions", context)


async def show(pages: Pages, request: Request) -> Response:
    """Answer with the page of a session; `before` is a number of entries of its trail."""
    session_id, before = request.path_params["session_id"], request.query_params
    picture = await pages.source.session(session_id, place_of(before, "before"))
    if picture is None:
        message = f"the record has no session {session_id!r}"
        return await pages.refused(request, "SESSION_NOT_FOUND", message)
    entries = 0 if picture.summary is None else picture.summary["n_events"]
    context = {
        "session_id": session_id,
        "picture": picture,
        "events": picture.trail["events"][::-1],
        "is_newest": picture.first + len(picture.trail["events"]) == entries,
        "operations_query": query_of({"session_id": session_id}),
    }
    return await pages.answer(request, "session", context)
