"""The page of a queue: its numbers, its pauses, its dead letters, its requests by a search."""

from collections.abc import Mapping
from typing import get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from kernel.work.queue_kinds import no_such_queue
from kernel.work.request_lists import RequestSearch
from kernel.work.requests import State
from workers.dashboard.pages.forms import VERBS
from workers.dashboard.pages.page import Pages
from workers.views.backlog import Backlog
from workers.views.records import SEQUENCE_MAX

STATES: tuple[State, ...] = get_args(State)
TEXT_CHARS_MAX = 512
_CURSOR_DIGITS_MAX = 19


async def show(pages: Pages, request: Request) -> Response:
    """Answer with the page of a queue; a filter that nobody can mean is left out."""
    name, query = request.path_params["queue"], request.query_params
    search, after = search_of(query)
    picture = await pages.source.queue(name, search, after)
    if picture is None:
        return await pages.refused(request, "work_queue_unknown", no_such_queue(name))
    filters = {"state": search.state, "priority": search.priority, "words": search.words}
    following = {**filters, "after": picture.requests.next_after}
    context = {
        "name": name,
        "picture": picture,
        "numbers": _numbers(picture.backlog),
        "filters": filters,
        "states": STATES,
        "next_query": urlencode({key: value for key, value in following.items() if value}),
        "is_first_page": after is None,
        "done": done_of(query),
    }
    return await pages.answer(request, "queue", context)


def search_of(query: Mapping[str, str]) -> tuple[RequestSearch, int | None]:
    """Return the search that a query string gives, and where its page begins."""
    state = next((state for state in STATES if state == query.get("state")), None)
    priority = query.get("priority", "")[:TEXT_CHARS_MAX] or None
    words = query.get("words", "")[:TEXT_CHARS_MAX] or None
    cursor = query.get("after", "")
    is_cursor = cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR_DIGITS_MAX
    after = min(int(cursor), SEQUENCE_MAX) if is_cursor else None
    return RequestSearch(state=state, priority=priority, words=words), after


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
