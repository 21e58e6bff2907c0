"""The page of a queue: its numbers, its pauses, its dead letters, its requests by a search."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from kernel.work.queue_kinds import no_such_queue
from workers.dashboard.pages.filters import (
    STATES,
    filters_of,
    no_times_of,
    place_of,
    query_of,
    search_of,
    text_of,
)
from workers.dashboard.pages.forms import VERBS
from workers.dashboard.pages.page import Pages
from workers.views.backlog import Backlog


async def show(pages: Pages, request: Request) -> Response:
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
