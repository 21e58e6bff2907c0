"""A request gets to the first of the routes that admit its path, whatever their number."""

from re import Pattern
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.api.answer_shapes import DOCUMENT
from tests.workers.api.door import SESSION
from workers.api.app import MODULES
from workers.api.application import Application, RouteTable

ROUTES: dict[str, list[APIRoute]] = {
    method: [
        route
        for module in MODULES
        for route in module.router.routes
        if isinstance(route, APIRoute) and method in route.methods
    ]
    for method in ("GET", "POST")
}
TABLES = {method: RouteTable(routes) for method, routes in ROUTES.items()}
WORDS = sorted({word for path in DOCUMENT["paths"] for word in path.split("/") if "{" not in word})
SEGMENTS = st.sampled_from([*WORDS, SESSION, "x", "1", "a\n", "é", "{session_id}"])
PATHS = st.one_of(
    st.sampled_from(sorted(DOCUMENT["paths"])),
    st.lists(SEGMENTS, max_size=7).map(lambda parts: f"/v1/{'/'.join(parts)}"),
    st.text(max_size=9).map(lambda text: f"/{text}"),
)


def first(routes: list[APIRoute], path: str) -> tuple[APIRoute, Any] | None:
    for route in routes:
        expression: Pattern[str] = route.path_regex
        if (match := expression.match(path)) is not None:
            return route, match.groupdict()
    return None


@pytest.mark.parametrize("method", TABLES)
@given(path=PATHS)
def test_the_first_route_that_admits_a_path_is_meant(method, path):
    meant = TABLES[method].bound_route(path)
    expected = first(ROUTES[method], path)
    assert (meant and (meant[0].route, meant[1])) == expected
    assert TABLES[method].has(path) is (expected is not None)


@pytest.mark.parametrize("path", DOCUMENT["paths"])
def test_every_path_of_the_document_has_its_route(path):
    for method in DOCUMENT["paths"][path]:
        bound, _ = TABLES[method.upper()].bound_route(path)
        assert bound.route.path_format == path


def test_what_is_declared_otherwise_is_refused_at_the_start():
    router = APIRouter()
    router.add_route("/", lambda request: request)
    with pytest.raises(TypeError, match="not declared"):
        Application(router.routes, services=None)  # type: ignore[arg-type]
