"""Answers with the pages of requests: the list of those that fit, and one by itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from kernel.work.queue_kinds import QUEUE_KINDS
from queues.errors import QueueError
from workers.dashboard.formatting import duration
from workers.dashboard.headers import LIVE
from workers.dashboard.pages.bulk import bulk_links
from workers.dashboard.pages.filters import (
    STATES,
    TEXT_CHARS_MAX,
    exact_search_of,
    filters_of,
    no_times_of,
    place_of,
    query_of,
    search_of,
    text_of,
)
from workers.dashboard.pages.forms import done_message
from workers.dashboard.pages.page import Pages
from workers.dashboard.pages.request_files import MEDIA_TYPES, FileForm, request_lines
from workers.dashboard.pages.timeline import timeline
from workers.environment.system_host import utc_now

CONTENT_CHARS_MAX = 4_000

TITLE_CHARS_MAX = 80
IN_HAND: Final = "in-hand"


@dataclass(frozen=True, slots=True)
class ReadyView:
    """A list that no filter asks for."""

    name: str
    label: str
    says: str


VIEWS: Final[Mapping[str, ReadyView]] = {
    view.name: view
    for view in (
        ReadyView("waiting", "Waiting longest", "what has no outcome, the oldest first"),
        ReadyView(IN_HAND, "In hand longest", "what workers have in hand, the longest first"),
    )
}


async def list_requests(pages: Pages, request: Request) -> Response:
    """Answer with the requests of all queues that fit, newest first, or with a ready view."""
    query = request.query_params
    search, after = search_of(query), place_of(query, "after")
    view = VIEWS.get(query.get("view", ""))
    filters = filters_of(query, search)
    context: dict[str, Any] = {
        "queues": [*QUEUE_KINDS],
        "filters": filters,
        "no_times": no_times_of(query),
        "states": STATES,
        "is_first_page": after is None,
        "view": view,
        "heading": (text_of(query, "title") or "")[:TITLE_CHARS_MAX],
        "views": _ready_views(),
        "fitting": None,
        "in_hand": None,
        "bulk": [],
        "query": query_of(filters),
    }
    if view is not None and view.name == IN_HAND:
        try:
            context["in_hand"] = await pages.source.in_hand(search.queue)
        except QueueError as error:
            return await pages.refuse(request, error.code, str(error))
        return await pages.answer(request, "requests", context | {"page": None, "next_query": ""})
    if view is not None:
        page = await pages.source.oldest_open(search.queue, after)
        stated = {"view": view.name, "queue": search.queue}
    else:
        fitting = await pages.source.requests(search, after)
        page, stated = fitting.page, filters
        context["fitting"] = fitting
        context["bulk"] = bulk_links(filters, no_times_of(query))
    context["page"] = page
    context["next_query"] = query_of({**stated, "after": page.next_after})
    return await pages.answer(request, "requests", context)


def _ready_views() -> list[tuple[str, str]]:
    """Return links to lists that are asked for often: what each is called, and its query."""
    today = utc_now().strftime("%Y-%m-%dT00:00:00")
    return [
        *((view.label, query_of({"view": view.name})) for view in VIEWS.values()),
        ("Given up, not settled", query_of({"state": "standing"})),
        ("Given up, of today's", query_of({"state": "standing", "since": today})),
        ("Asked for today", query_of({"since": today})),
    ]


async def list_failures(pages: Pages, request: Request) -> Response:
    """Answer with what failed alike: what was given up and stands, and what failed last."""
    query = request.query_params
    queue, after = text_of(query, "queue"), query.get("after", "")[:TEXT_CHARS_MAX]
    groups, is_whole = await pages.source.dead_alike(queue)
    failing = await pages.source.failing_alike(queue, after)
    context = {
        "queue": queue,
        "queues": [*QUEUE_KINDS],
        "groups": groups,
        "is_whole": is_whole,
        "failing": failing,
        "is_first_page": not after,
        "next_query": query_of({"queue": queue, "after": failing.next_after}),
    }
    return await pages.answer(request, "failures", context)


async def download_csv(pages: Pages, request: Request) -> Response:
    """Answer with what fits as a table for spreadsheets, a row for each request."""
    return await _download(pages, request, "csv")


async def download_json_lines(pages: Pages, request: Request) -> Response:
    """Answer with what fits as JSON, a line for each request."""
    return await _download(pages, request, "jsonl")


async def _download(pages: Pages, request: Request, form: FileForm) -> Response:
    """Stream what fits; what nobody can read is refused, as a file does not say so."""
    pairs = [(name, value) for name, value in request.query_params.multi_items() if value]
    after = place_of(request.query_params, "after")
    try:
        search = exact_search_of([pair for pair in pairs if pair[0] != "after"])
    except ValueError as error:
        return await pages.refuse(request, "work_request_invalid", str(error))
    lines = request_lines(form, pages.source.more_requests, search, after)
    name = f"requests.{form}"
    headers = {**LIVE, "Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type=MEDIA_TYPES[form], headers=headers)


async def show_request(pages: Pages, request: Request) -> Response:
    """Answer with the page of a request."""
    queue, request_id = request.path_params["queue"], request.path_params["request_id"]
    picture = await pages.source.request(queue, request_id)
    if picture is None:
        message = f"nobody asked this queue for {request_id!r}"
        return await pages.refuse(request, "work_request_unknown", message)
    status = picture.status
    context = {
        "picture": picture,
        "status": status,
        "way": timeline(picture.history.events, status.enqueued_at, utc_now()),
        "duration": duration,
        "content": _document(status.content),
        "result": _document(status.result) if status.result else None,
        "done": done_message(request.query_params),
    }
    return await pages.answer(request, "request", context)


def _document(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return as much of a document as a page shows, and whether that is less than all of it."""
    text = json.dumps(content, indent=2)
    return {"text": text[:CONTENT_CHARS_MAX], "is_cut": len(text) > CONTENT_CHARS_MAX}
