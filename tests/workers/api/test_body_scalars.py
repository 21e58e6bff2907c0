"""In a body a boolean is no number, a number no boolean, and a text neither (JSON Schema, §4.2)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from actors.orchestrator.intents import PublicIntent
from tests.kernel.build import changed, places
from tests.workers.api.bodies import BODIES, KEY, SENDER
from tests.workers.api.door import SESSION
from tests.workers.api.kept import typed
from workers.api.app import MODULES

OTHERS = {
    "int": (True, False, "1", 1.5),
    "float": (True, False, "1"),
    "bool": (0, 1, "true", 1.0),
}
"""Values of other types, by the kind of schema that may not take them."""

TIERS = {"UndoOperation.tier", "UndoEpoch.tier"}
"""Numbers of which there is one: a literal, which takes `true` for 1, so the model refuses it."""


def _bodies() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        for route in module.router.routes:
            if isinstance(route, APIRoute) and route.body_field is not None:
                kind = route.body_field.field_info.annotation
                yield route.path, TypeAdapter(kind).core_schema
    yield "operations:bulk", TypeAdapter(PublicIntent).core_schema


def scalars(schema: Any, place: str = "", **config: Any) -> Iterator[tuple[str, str, Any]]:
    """Each number and boolean of a schema: where it stands, of which kind it is, its schema."""
    if not isinstance(schema, dict) or callable(schema.get("discriminator")):
        return  # Any JSON is told apart by a function.
    kind = schema.get("type")
    if kind == "model":
        place, config = schema["cls"].__name__, schema.get("config", {})
    if kind in OTHERS or (kind == "literal" and place not in TIERS):
        yield place, kind, {"strict": config.get("strict", False)} | schema
    for name, part in schema.items():
        if name not in ("metadata", "serialization", "config"):
            for field, inner in _listed(part):
                yield from scalars(inner, f"{place}.{field}" if field else place, **config)


def _listed(part: Any) -> Any:
    """The schemas of a part, each with its name: of a table, of a list, of one alone."""
    if isinstance(part, dict) and "type" not in part:
        return part.items()
    return [(None, inner) for inner in part] if isinstance(part, list | tuple) else [(None, part)]


@pytest.mark.parametrize(
    ("path", "schema"), [pytest.param(*body, id=body[0]) for body in _bodies()]
)
def test_no_number_of_a_body_takes_a_boolean_or_a_text(path, schema):
    for place, kind, scalar in scalars(schema):
        for value in OTHERS.get(kind, (True, False)):
            with pytest.raises(ValidationError):
                assert SchemaValidator(scalar).validate_python(value) is None, (place, value)


def _numbers() -> Iterator[tuple[str, str]]:
    for path, body in BODIES.items():
        for place in places(body):
            value: Any = body
            for part in place.split("."):
                value = value[int(part)] if isinstance(value, list) else value[part]
            is_free = {"metadata", "note", "more", "j", "c", "payload"} & {*place.split(".")}
            if type(value) in (int, float) and not is_free:
                yield path, place


@pytest.mark.parametrize(("path", "place"), [*_numbers()])
def test_true_is_refused_where_a_number_is_asked_for(kept, path, place):
    body = changed(BODIES[path], {place: True})
    response = kept.send("POST", path, content=json.dumps(body).encode(), headers=SENDER)
    assert typed(response) in (
        "INVALID_REQUEST",
        "envelope_schema_invalid",
        "envelope_schema_version_unsupported",
    ), response.text


def test_a_whole_number_may_be_written_with_a_fraction(kept):
    """To JSON Schema 1.0 is an integer, as it is to canonical form."""
    intent = {
        "intent_kind": "synthesize_cu",
        "intent_key": KEY,
        "node_id": "u-whole",
        "corpus_id": "corpus:test",
        "title": "",
        "source_spans": [{"source_ref": "s-1", "offset": 0.0, "length": 3.0}],
    }
    path = f"/v1/sessions/{SESSION}/operations"
    response = kept.send("POST", path, json={"intents": [intent]})
    [result] = response.json()["results"]
    assert result["validation_result"] == "accepted", result
    # Under its key the same intent is the same, however its numbers are written.
    intent["source_spans"] = [{"source_ref": "s-1", "offset": 0, "length": 3}]
    again = kept.send("POST", path, json={"intents": [intent]}).json()["results"][0]
    assert again["operation_id"] == result["operation_id"]
    intent["source_spans"] = [{"source_ref": "s-1", "offset": 0, "length": 2.5}]
    assert typed(kept.send("POST", path, json={"intents": [intent]})) == "INVALID_REQUEST"
