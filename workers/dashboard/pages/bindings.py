"""Shows source bindings and manifests: what fired on what, and why others did not."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kernel.values.errors import KernelError
from workers.dashboard.pages.filters import place_of, query_of, text_of
from workers.dashboard.pages.page import Pages
from workers.views.binding_activity import outcomes_of


async def list_all(pages: Pages, request: Request) -> Response:
    """Answer with a page of the bindings."""
    after = text_of(request.query_params, "after")
    page = await pages.source.bindings(after)
    context = {
        "bindings": page["bindings"],
        "next_query": query_of({"after": page["next_after"]}),
        "is_first_page": after is None,
    }
    return await pages.answer(request, "bindings", context)


async def show(pages: Pages, request: Request) -> Response:
    """Answer with a binding: what it selects, what it fired on lately, and why it did not."""
    binding_id = request.path_params["binding_id"]
    picture = await pages.source.binding(binding_id)
    if picture is None:
        return await pages.refuse(request, "not_found", f"no binding is called {binding_id!r}")
    snapshot = picture.binding["binding_snapshot"] or {}
    selectors = snapshot.get("selector_list") or {}
    context = {
        "binding": picture.binding,
        "picture": picture,
        "selectors": [(side, *each) for side in selectors for each in _by_kind(selectors[side])],
        "stated": [
            (name.replace("_", " "), value)
            for name, value in snapshot.items()
            if name != "selector_list"
        ],
    }
    return await pages.answer(request, "binding", context)


def _by_kind(selectors: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the values of each kind of selector, any of which is enough."""
    values: dict[str, list[str]] = {}
    for each in selectors:
        values.setdefault(each["kind"], []).append(str(each["value"]))
    return [*values.items()]


async def show_manifests(pages: Pages, request: Request) -> Response:
    """Answer with what bindings made of a source event, cycle by cycle."""
    source_event_id = request.path_params["source_event_id"]
    after = place_of(request.query_params, "after")
    try:
        page = await pages.source.manifests(source_event_id, after or 0)
    except KernelError as error:
        return await pages.refuse(request, error.code, str(error))
    context = {
        "source_event_id": source_event_id,
        "manifests": [
            (each, [] if each["manifest"] is None else outcomes_of(each["manifest"]))
            for each in page["manifests"]
        ],
        "next_query": query_of({"after": page["next_after"]}),
        "is_first_page": after is None,
    }
    return await pages.answer(request, "manifests", context)
