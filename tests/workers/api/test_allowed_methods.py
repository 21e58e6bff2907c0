"""A method that a path has not is answered with all that it has: RFC 9110 §15.5.6."""

import re
from collections.abc import Iterator
from functools import partial

import pytest

from tests.workers.api.answer_shapes import DOCUMENT
from tests.workers.api.door import SESSION, error_of

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
UNDOCUMENTED = {
    "/": {"GET", "HEAD"},
    "/events": {"GET"},
    "/snapshot.json": {"GET", "HEAD"},
    "/openapi.json": {"GET", "HEAD"},
    "/tile/0/000": {"GET", "HEAD"},
    "/internal/work": {"POST"},
}
"""An answer without an end has no head alone."""


def _documented() -> Iterator[tuple[str, set[str]]]:
    for template, operations in DOCUMENT["paths"].items():
        methods = {method.upper() for method in operations}
        places = {
            parameter["name"]: parameter["schema"]
            for operation in operations.values()
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "path"
        }
        path = re.sub(r"\{(\w+)\}", partial(_value, places), template)
        yield path, methods | {"HEAD"} if "GET" in methods else methods


def _value(places: dict, name: re.Match) -> str:
    """Something that a place of a path takes."""
    schema = places[name[1]]
    known = SESSION if schema.get("format") == "uuid" else schema.get("enum", ["x"])[0]
    return str(schema.get("minimum", known))


@pytest.mark.parametrize(("path", "methods"), [*_documented(), *UNDOCUMENTED.items()])
def test_a_method_that_a_path_has_not_is_answered_with_all_that_it_has(kept, path, methods):
    for method in sorted(METHODS - methods):
        response = kept.send(method, path)
        assert response.headers.get("allow") == ", ".join(sorted(methods)), (method, path)
        assert response.status_code == 405
        if method != "HEAD":
            error_of(response, 405, "method_not_allowed")


def test_a_path_that_is_none_is_not_told_of_methods(kept):
    for method in METHODS:
        response = kept.send(method, "/v1/nothing")
        assert response.status_code == 404
        assert "allow" not in response.headers
