"""The OpenAPI document as words: every route, its parameters, its body, its answers."""

from typing import Any

import pytest

from tests.workers.api.answer_shapes import DOCUMENT
from workers.views.interface import Interface, ShownType, type_of

REF = {"$ref": "#/components/schemas/Receipt"}


@pytest.mark.parametrize(
    ("schema", "words", "names"),
    [
        ({"type": "string"}, "string", ()),
        (REF, "Receipt", ("Receipt",)),
        ({"type": "array", "items": REF}, "list of Receipt", ("Receipt",)),
        ({"anyOf": [REF, {"type": "null"}]}, "Receipt or null", ("Receipt",)),
        ({"enum": ["a", "b"]}, "one of 'a', 'b'", ()),
        ({"const": 1}, "1", ()),
        ({"type": "object", "additionalProperties": REF}, "map to Receipt", ("Receipt",)),
        ({"type": "object", "additionalProperties": True}, "object", ()),
        ({}, "anything", ()),
    ],
)
def test_a_type_is_said_in_words(schema: dict[str, Any], words: str, names: tuple[str, ...]):
    assert type_of(schema) == ShownType(words, names)


def test_every_route_and_every_schema_that_is_named_is_there():
    interface = Interface.of(DOCUMENT)
    assert len(interface.routes) == sum(len(ways) for ways in DOCUMENT["paths"].values())
    assert sum(map(len, interface.by_tag().values())) == len(interface.routes)
    types = [
        shown
        for route in interface.routes.values()
        for shown in (
            *(parameter.type for parameter in route.parameters),
            route.body,
            *(answer[1] for answer in route.answers),
        )
    ]
    types += [field.type for schema in interface.schemas.values() for field in schema.fields]
    named = {name for shown in types if shown is not None for name in shown.names}
    assert named <= interface.schemas.keys()
    [enqueue] = [route for route in interface.routes.values() if route.summary == "Ask for work"]
    assert (enqueue.method, enqueue.body) == ("POST", ShownType("EnqueueBody", ("EnqueueBody",)))
    [queue] = enqueue.parameters
    says = "1 characters at least; 128 characters at most"
    assert (queue.name, queue.place, queue.is_required, queue.says) == ("queue", "path", True, says)
