"""Searches everything for a text: one thing of that name is shown at once, others are listed."""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from workers.dashboard.headers import PAGE
from workers.dashboard.pages.filters import query_of, text_of
from workers.dashboard.pages.page import Pages, in_url, relative_root
from workers.views.search import SearchSubject, SubjectKind

_PATHS: Final[Mapping[SubjectKind, str]] = {
    "queue": "queues/{name}",
    "request": "queues/{queue}/requests/{name}",
    "operation": "operations/{name}",
    "session": "sessions/{name}",
    "run": "runs/{name}",
    "worker": "workers/{name}",
    "record": "explain?id={name}",
}
CRITERIA: Final = {
    "request_key": "Requests with this key",
    "item_key": "Requests about this item",
    "tag": "Requests with this tag",
    "error_signature": "Requests that failed so",
    "words": "Requests with these words in an error",
}
"""How a text occurs in requests, in words."""


async def show(pages: Pages, request: Request) -> Response:
    """Answer with the page of what the text names, or with a list of where it occurs."""
    text = text_of(request.query_params, "q")
    context = {"text": text, "results": None, "criteria": CRITERIA, "query_of": query_of}
    if text is None:
        return await pages.answer(request, "search", context)
    subject = await pages.source.subject(text)
    if subject is not None:
        place = f"{relative_root(request)}/{_path(subject)}"
        return RedirectResponse(place, 303, headers=PAGE)
    results = await pages.source.search(text)
    return await pages.answer(request, "search", context | {"results": results})


def _path(subject: SearchSubject) -> str:
    names = {"name": in_url(subject.name), "queue": in_url(subject.queue)}
    return _PATHS[subject.kind].format(**names)
