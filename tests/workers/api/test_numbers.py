"""Numbers in requests: each end of what may be asked for is answered, and nothing beyond it is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.ledger.sqlite.store import SqliteStore
from tests import openapi_doc
from tests.kernel.build import adapt, changed
from tests.workers.api.door import SESSION, source, understanding
from tests.workers.api.kept import KeptDoor, kept_door, typed

PATHS = openapi_doc.document()["paths"]
BEYOND = ("true", "9" * 400, "-" + "9" * 400, "1e400", "NaN", "Infinity", str(2**64))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptDoor]:
    """On a file: a database has integers of 64 bits, and memory of any size."""
    with kept_door(SqliteStore(tmp_path_factory.mktemp("numbers") / "ledger.db")) as kept:
        yield kept


def _asked() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each number of each question: its path, its name, and the shape that it has."""
    for path, operations in PATHS.items():
        for parameter in operations.get("get", {}).get("parameters", ()):
            shapes = [parameter["schema"], *parameter["schema"].get("anyOf", ())]
            for shape in shapes:
                if shape.get("type") in ("integer", "number"):
                    yield path, parameter["name"], shape


ASKED = [pytest.param(path, name, shape, id=f"{path} {name}") for path, name, shape in _asked()]


def _url(path: str, name: str, value: object) -> tuple[str, dict[str, str]]:
    """The path with its places filled in, and the query that is left."""
    operation = PATHS[path]["get"]
    query = {}
    for parameter in operation.get("parameters", ()):
        is_asked, schema = parameter["name"] == name, parameter["schema"]
        known = SESSION if schema.get("format") == "uuid" else schema.get("enum", ["x"])[0]
        known = int(schema["minimum"]) if "minimum" in schema else known
        stated = str(value if is_asked else known)
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", stated)
        elif parameter["in"] == "query" and (is_asked or parameter.get("required")):
            query[parameter["name"]] = stated
    return path, query


@pytest.mark.parametrize(("path", "name", "shape"), ASKED)
def test_a_number_is_taken_up_to_its_ends_and_no_further(kept: KeptDoor, path, name, shape):
    least, most = shape["minimum"], shape["maximum"]
    for value in (least, most, (least + most) // 2):
        url, query = _url(path, name, int(value))
        response = kept.send("GET", url, params=query)
        assert typed(response) != "INVALID_REQUEST", response.text
    for value in (int(least) - 1, int(most) + 1, *BEYOND):
        url, query = _url(path, name, value)
        response = kept.send("GET", url, params=query)
        assert typed(response) == "INVALID_REQUEST", response.text


@pytest.mark.parametrize("after", ["9" * 19, "9" * 30, "9" * 1000, str(2**63)])
def test_a_place_that_is_told_as_a_text_is_none_of_any_size(kept: KeptDoor, after):
    response = kept.send("GET", "/v1/reviews/open", params={"kind": "outcome", "after": after})
    assert typed(response) == "INVALID_REQUEST"


NUMBERS = ("NaN", "Infinity", "-Infinity", "1e400", str(2**53), str(-(2**53)), "9" * 400)
"""What canonical form has no number for."""


def _bodies() -> Iterator[tuple[str, str, dict[str, Any]]]:
    operations, envelopes = (
        f"/v1/sessions/{SESSION}/{name}" for name in ("operations", "envelopes")
    )
    adapted = {"intent_kind": "field_adapt", "intent_key": "k", "node_id": "u-1"}
    yield "fields", operations, {"intents": [adapted | {"fields": {"n": "NUMBER"}}]}
    yield "deep", operations, {"intents": [adapted | {"fields": {"n": [{"m": "NUMBER"}]}}]}
    yield "metadata", operations, {"intents": [source("s-9", metadata={"m": "NUMBER"})]}
    spans = understanding("u-9", "s-1")
    spans["source_spans"][0]["length"] = "NUMBER"
    yield "span", operations, {"intents": [spans]}
    yield "payload", envelopes, adapt("u-1", n="NUMBER")
    cost = "affected_subgraph_descriptor.estimated_capacity_cost"
    yield "cost", envelopes, changed(adapt("u-1", n=1), {cost: "NUMBER"})
    yield "duration", envelopes, adapt("u-1", n=1) | {"duration_ms": "NUMBER"}
    yield "unnamed", envelopes, adapt("u-1", n=1) | {"notes": "NUMBER"}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("path", "body"), [case[1:] for case in _bodies()])
def test_a_body_with_a_number_that_canonical_form_has_not_is_refused(
    kept: KeptDoor, path, body, number
):
    content = json.dumps(body).replace('"NUMBER"', number).encode()
    headers = {"content-type": "application/json"}
    response = kept.send("POST", path, content=content, headers=headers)
    if typed(response) is None:
        [result] = response.json()["results"]
        assert result["validation_result"] in ("rejected", "invalid")
        assert result["reason_code"] in ("envelope_schema_invalid", "intent_invalid")
