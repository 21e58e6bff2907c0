"""Answers with the pages of work: queues, requests, who works, and what a form there asks for."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from actors.error_codes import status_of
from kernel.values.errors import KernelError
from kernel.work.queue_kinds import QUEUE_KINDS, no_such_queue
from queues.errors import REDIS_FAILED, QueueError
from workers.dashboard.headers import PAGE
from workers.dashboard.pages.bulk import bulk_links
from workers.dashboard.pages.charts import charts_context
from workers.dashboard.pages.filters import (
    STATES,
    filters_of,
    no_times_of,
    place_of,
    query_of,
    search_of,
)
from workers.dashboard.pages.forms import FormRefused, action_of, done_message
from workers.dashboard.pages.page import Pages, in_url, relative_root
from workers.views.backlog import Backlog


async def list_queues(pages: Pages, request: Request) -> Response:
    """Answer with what stands in each queue; without Redis with the ways to their pages."""
    context: dict[str, Any] = {"queues": None, "names": [*QUEUE_KINDS]}
    try:
        context["queues"] = await pages.source.queues()
    except QueueError as error:
        context["problem"] = str(error)
        return await pages.answer(request, "queues", context, status_of(error.code))
    return await pages.answer(request, "queues", context)


async def show_queue(pages: Pages, request: Request) -> Response:
    """Answer with the page of a queue; a filter that nobody can mean is left out."""
    name, query = request.path_params["queue"], request.query_params
    search = replace(search_of(query), queue=name)
    after, dead_after = place_of(query, "after"), place_of(query, "dead")
    picture = await pages.source.queue(name, search, after, dead_after)
    if picture is None:
        return await pages.refuse(request, "work_queue_unknown", no_such_queue(name))
    filters = filters_of(query, search) | {"queue": None}
    context = {
        "name": name,
        "bulk": bulk_links({**filters, "queue": name}, no_times_of(query)),
        "picture": picture,
        "numbers": _numbers(picture.backlog),
        "filters": filters,
        "no_times": no_times_of(query),
        "states": STATES,
        "next_query": query_of({**filters, "after": picture.requests.next_after}),
        "dead_query": query_of({"dead": picture.dead.next_after}),
        "is_first_page": after is None,
        "is_first_of_dead": dead_after is None,
        "done": done_message(query),
        **await charts_context(pages.source, query, name),
    }
    return await pages.answer(request, "queue", context)


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


async def act(pages: Pages, request: Request) -> Response:
    """Do what a form asks for; a reload of the page that follows does not ask again."""
    queue, verb = request.path_params["queue"], request.path_params["verb"]
    try:
        action = await action_of(request, queue, verb)
        if action.request_id and await pages.source.request(queue, action.request_id) is None:
            message = "nobody asked this queue for this request"
            return await pages.refuse(request, "work_request_unknown", message)
        await pages.source.act(action)
    except (FormRefused, KernelError) as error:
        return await pages.refuse(request, error.code, str(error))
    except QueueError as error:
        if error.code not in REDIS_FAILED:
            return await pages.refuse(request, error.code, str(error))
        message = "it is on the record, and Redis did not answer; the queue follows once it does"
        return await pages.refuse(request, error.code, message)
    place = f"{relative_root(request)}/queues/{in_url(queue)}"
    if action.request_id:
        place += f"/requests/{in_url(action.request_id)}"
    return RedirectResponse(f"{place}?{urlencode({'done': verb})}", 303, headers=PAGE)
