"""Searches everything for a text: one thing of that name is shown at once, others are listed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from workers.dashboard.headers import PAGE
from workers.dashboard.pages.filters import query_of, text_of
from workers.dashboard.pages.page import Pages, in_url, relative_root
from workers.views.search import ROWS_MAX, SearchSubject, SubjectKind

_PATHS: Final[Mapping[SubjectKind, str]] = {
    "queue": "queues/{name}",
    "request": "queues/{queue}/requests/{name}",
    "operation": "operations/{name}",
    "session": "sessions/{name}",
    "run": "runs/{name}",
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
    context: dict[str, Any] = {
        "text": text,
        "results": None,
        "criteria": CRITERIA,
        "query_of": query_of,
    }
    context |= {"path_of": _path, "workers": []}
    if text is None:
        return await pages.answer(request, "search", context)
    subject = await pages.source.subject(text)
    workers: Sequence[str] = () if subject is not None else await pages.source.workers_like(text)
    if subject is not None or text in workers:
        place = "/".join(("workers", in_url(text))) if subject is None else _path(subject)
        return RedirectResponse(f"{relative_root(request)}/{place}", 303, headers=PAGE)
    context |= {"results": await pages.source.search(text), "workers": workers[:ROWS_MAX]}
    return await pages.answer(request, "search", context)


def _path(subject: SearchSubject) -> str:
    names = {"name": in_url(subject.name), "queue": in_url(subject.queue)}
    return _PATHS[subject.kind].format(**names)
