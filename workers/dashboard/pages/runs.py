"""Shows runs: which there are, what one came to, and the way of a token (seed 003)."""

import json
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from kernel.ledger.landscape_tables import RUN_STATUSES
from kernel.values.errors import KernelError
from workers.dashboard.pages.page import Pages

NAME_CHARS_MAX = 512
DATA_CHARS_MAX = 4_000
_CURSOR_DIGITS_MAX = 17


async def show_all(pages: Pages, request: Request) -> Response:
    """Answer with a page of runs; a filter that nobody can mean is left out."""
    query = request.query_params
    status = next((status for status in RUN_STATUSES if status == query.get("status")), None)
    cursor = query.get("before", "")
    is_cursor = cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR_DIGITS_MAX
    before_us = int(cursor) if is_cursor else None
    try:
        picture = await pages.source.runs(status, before_us)
    except KernelError as error:
        return await pages.refuse(request, error.code, str(error))
    following = {"status": status, "before": picture.next_before_us}
    context = {
        "picture": picture,
        "status": status,
        "statuses": RUN_STATUSES,
        "is_first_page": before_us is None,
        "next_query": urlencode({name: value for name, value in following.items() if value}),
    }
    return await pages.answer(request, "runs", context)


async def show(pages: Pages, request: Request) -> Response:
    """Answer with the page of a run."""
    run_id = request.path_params["run_id"]
    after = request.query_params.get("after", "").replace("\x00", "")[:NAME_CHARS_MAX] or None
    try:
        picture = await pages.source.run(run_id, after)
    except KernelError as error:
        return await pages.refuse(request, error.code, str(error))
    context = {
        "picture": picture,
        "summary": picture.summary,
        "is_first_page": after is None,
        "next_query": urlencode({"after": picture.next_after or ""}),
    }
    return await pages.answer(request, "run", context)


async def show_token(pages: Pages, request: Request) -> Response:
    """Answer with the way of a token."""
    run_id, token_id = request.path_params["run_id"], request.path_params["token_id"]
    try:
        picture = await pages.source.token(run_id, token_id)
    except KernelError as error:
        return await pages.refuse(request, error.code, str(error))
    lineage = picture.lineage
    data, is_cut = _indented_text(lineage["source_row"]["source_data"])
    context = {
        "run": picture.run,
        "lineage": lineage,
        "data": data,
        "is_cut": is_cut,
        "errors": [_indented_text(state["error"])[0] for state in lineage["node_states"]],
    }
    return await pages.answer(request, "token", context)


def _indented_text(value: Any) -> tuple[str, bool]:
    """Return data as text, as much as is shown, and whether that is not all."""
    text = json.dumps(value, indent=2)
    return text[:DATA_CHARS_MAX], len(text) > DATA_CHARS_MAX
