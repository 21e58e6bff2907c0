"""Answers with the pages of work: queues, requests, who works, and what a form there asks for."""

import json
from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kernel.values.errors import KernelError
from kernel.work.queue_kinds import no_such_queue
from queues.errors import REDIS_FAILED, QueueError
from workers.dashboard.headers import PAGE
from workers.dashboard.pages.filters import (
    STATES,
    filters_of,
    no_times_of,
    place_of,
    query_of,
    search_of,
    text_of,
)
from workers.dashboard.pages.forms import VERBS, FormRefused, action_of
from workers.dashboard.pages.page import Pages, in_url, relative_root
from workers.views.backlog import Backlog

CONTENT_CHARS_MAX = 4_000


async def show_queue(pages: Pages, request: Request) -> Response:
    """Answer with the page of a queue; a filter that nobody can mean is left out."""
    name, query = request.path_params["queue"], request.query_params
    search, after, dead_after = search_of(query), place_of(query, "after"), text_of(query, "dead")
    picture = await pages.source.queue(name, search, after, dead_after or "")
    if picture is None:
        return await pages.refused(request, "work_queue_unknown", no_such_queue(name))
    filters = filters_of(query, search)
    context = {
        "name": name,
        "picture": picture,
        "numbers": _numbers(picture.backlog),
        "filters": filters,
        "no_times": no_times_of(query),
        "states": STATES,
        "next_query": query_of({**filters, "after": picture.requests.next_after}),
        "dead_query": query_of({"dead": picture.dead.next_after}),
        "is_first_page": after is None,
        "is_first_of_dead": dead_after is None,
        "done": done_of(query),
    }
    return await pages.answer(request, "queue", context)


def done_of(query: Mapping[str, str]) -> str | None:
    """Return what a page says after a form: a sentence of the table, never of the URL."""
    verb = VERBS.get(query.get("done", ""))
    return None if verb is None else verb.done


def _numbers(backlog: Backlog | None) -> dict[str, int]:
    """Return the open requests and where they stand, whose sum they are."""
    if backlog is None:
        return {}
    return {
        "Open": backlog.open,
        "Ready": backlog.ready,
        "Held": backlog.held,
        "Delayed": backlog.delayed,
        "Suspended": backlog.suspended,
        "In flight": backlog.in_flight,
    }


async def list_requests(pages: Pages, request: Request) -> Response:
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


async def show_request(pages: Pages, request: Request) -> Response:
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


async def show_worker(pages: Pages, request: Request) -> Response:
    """Answer with the page of a living worker."""
    worker_id = request.path_params["worker_id"]
    try:
        beat = await pages.source.worker(worker_id)
    except QueueError as error:
        return await pages.refused(request, error.code, str(error))
    if beat is None:
        message = f"no living worker is called {worker_id!r}; its beat may have ended"
        return await pages.refused(request, "not_found", message)
    return await pages.answer(request, "worker", {"beat": beat})


async def act(pages: Pages, request: Request) -> Response:
    """Do what a form asks for; a reload of the page that follows does not ask again."""
    queue, verb = request.path_params["queue"], request.path_params["verb"]
    try:
        action = await action_of(request, queue, verb)
        if action.request_id and await pages.source.request(queue, action.request_id) is None:
            message = "nobody asked this queue for this request"
            return await pages.refused(request, "work_request_unknown", message)
        await pages.source.act(action)
    except (FormRefused, KernelError) as error:
        return await pages.refused(request, error.code, str(error))
    except QueueError as error:
        if error.code not in REDIS_FAILED:
            return await pages.refused(request, error.code, str(error))
        message = "it is on the record, and Redis did not answer; the queue follows once it does"
        return await pages.refused(request, error.code, message)
    place = f"{relative_root(request)}/queues/{in_url(queue)}"
    if action.request_id:
        place += f"/requests/{in_url(action.request_id)}"
    return RedirectResponse(f"{place}?{urlencode({'done': verb})}", 303, headers=PAGE)
