"""Answers with the record as it stood behind a row of the log, which `at` in a page's URL names.

Such a page is read-only: it has no form, and every link of it keeps the row, so that whoever is
sent its URL sees the same and stays there.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kernel.ledger.past_rows import StateAsOfUnknown
from workers.dashboard.pages import record
from workers.dashboard.pages.filters import place_of, query_of, text_of
from workers.dashboard.pages.page import Handler, Pages

CONTENT_CHARS_MAX: Final = 8_000


async def answer(pages: Pages, request: Request, path: str) -> Response:
    """Answer with what a page showed when the log ended at a row."""
    sequence = place_of(request.query_params, "at")
    if sequence is None:
        return await pages.refuse(request, "INVALID_REQUEST", "at: the number of a row of the log")
    try:
        request.scope["rotulus.moment"] = await pages.source.moment(sequence)
        return await _HANDLERS.get(path, _nobody_knows)(pages, request)
    except StateAsOfUnknown as error:
        return await pages.refuse(request, error.code, str(error))


async def _overview(pages: Pages, request: Request) -> Response:
    picture = await pages.source.past(_sequence(request))
    is_known = not isinstance(picture.queues, StateAsOfUnknown)
    context = {
        "queues": picture.queues if is_known else [],
        "unknown": None if is_known else picture.queues,
        "sessions": picture.sessions["sessions"],
        "operations": picture.operations["operations"],
    }
    return await pages.answer(request, "past", context)


async def _sessions(pages: Pages, request: Request) -> Response:
    after = text_of(request.query_params, "after")
    page = await pages.source.past_sessions(_sequence(request), after)
    context = {
        "page": page,
        "words": None,
        "next_query": query_of({"after": page["next_after"]}),
        "is_first_page": after is None,
    }
    return await pages.answer(request, "sessions", context)


async def _session(pages: Pages, request: Request) -> Response:
    session_id = request.path_params["session_id"]
    picture = await pages.source.past_session(session_id, _sequence(request))
    if picture is None:
        message = f"no session {session_id!r} was declared then"
        return await pages.refuse(request, "SESSION_NOT_FOUND", message)
    context = {
        "session_id": session_id,
        "summary": picture.summary,
        "events": picture.events[::-1],
        "first": picture.first,
        "operations_query": query_of({"session_id": session_id}),
    }
    return await pages.answer(request, "past_session", context)


async def show_node(pages: Pages, request: Request) -> Response:
    """Answer with the page of a node of the graph, as it is or as it stood."""
    node_id, moment = request.path_params["node_id"], request.scope.get("rotulus.moment")
    node = await pages.source.node(node_id, None if moment is None else moment.sequence)
    if node is None:
        return await pages.refuse(request, "not_found", f"the record has no node {node_id!r}")
    payload = json.dumps(node["payload"], indent=2, ensure_ascii=False)
    context = {
        "node": node,
        "payload": payload[:CONTENT_CHARS_MAX],
        "is_cut": len(payload) > CONTENT_CHARS_MAX,
        "operations_query": query_of({"entity": node_id}),
    }
    return await pages.answer(request, "node", context)


async def _nobody_knows(pages: Pages, request: Request) -> Response:
    return await pages.answer(request, "past_unknown", {})


def _sequence(request: Request) -> int:
    sequence: int = request.scope["rotulus.moment"].sequence
    return sequence


_HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "/": _overview,
        "/queues": _overview,
        "/record": _overview,
        "/sessions": _sessions,
        "/sessions/{session_id:path}": _session,
        "/operations": record.list_operations,
        "/operations/{operation_id:path}": record.show_operation,
        "/nodes/{node_id:path}": show_node,
    }
)
"""What is known of the past, by the path of its page."""
