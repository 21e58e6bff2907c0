"""A schema that a worker states decides of contents as JSON Schema says, in bounded steps."""

import time
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from kernel.work.content_schema import (
    CONTENT_DIGEST,
    DEPTH_MAX,
    PATTERN_CHARS_MAX,
    SCHEMA_BYTES_MAX,
    ContentMisfit,
    ContentSchema,
    SchemaRefused,
)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: Annotated[int, Field(ge=1, le=4000, multiple_of=2)]
    unit: Literal["px", "mm"] = "px"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Box(BaseModel):
    kind: Literal["box"]
    inside: list["Cat | Box"] = []


class Job(BaseModel):
    """A content with everything that parameters of functions commonly are."""

    model_config = ConfigDict(extra="forbid")

    image_id: Annotated[str, Field(min_length=1, max_length=5, pattern="^[a-z]+$")]
    size: Size | None = None
    ratio: Annotated[float, Field(gt=0, lt=2)] = 1.0
    colour: Colour = Colour.RED
    tags: Annotated[set[str], Field(max_length=2)] = set()
    pair: tuple[int, str] | None = None
    labels: dict[str, int] = {}
    price: Decimal | None = None
    pet: Annotated[Cat | Box, Field(discriminator="kind")] | None = None


SCHEMA = Job.model_json_schema()

SMALL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([0.5, 2.0, 1.5, "a", "b1", "abcdef", "red", "px", "mm", "cat", "box", ""]),
)
VALUES = st.recursive(
    SMALL,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["width", "unit", "kind", "lives", "inside", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
CONTENTS = st.dictionaries(
    st.sampled_from([*Job.model_fields, "other"]), VALUES, max_size=5
) | st.fixed_dictionaries(
    {"image_id": st.sampled_from(["a", "abc", "A", ""])},
    optional={
        "size": st.fixed_dictionaries({"width": st.integers(0, 6)}),
        "pair": st.lists(SMALL, min_size=1, max_size=3),
        "tags": st.lists(st.sampled_from(["a", "b"]), max_size=3),
        "labels": st.dictionaries(st.sampled_from(["a", "b"]), SMALL, max_size=2),
        "pet": st.fixed_dictionaries(
            {"kind": st.sampled_from(["cat", "box"])}, optional={"inside": VALUES, "lives": SMALL}
        ),
    },
)


def fits(schema: ContentSchema, content: dict[str, Any]) -> bool:
    try:
        schema.read(content)
    except ContentMisfit:
        return False
    return True


@pytest.mark.parametrize("model", [Job, Size, Box], ids=lambda model: model.__name__)
def test_it_decides_as_another_implementation_of_json_schema(model):
    schema = model.model_json_schema()
    ours, other = ContentSchema(schema), jsonschema_rs.validator_for(schema)

    @given(CONTENTS | st.dictionaries(st.sampled_from(["width", "kind", "inside"]), VALUES))
    def agree(content: dict[str, Any]) -> None:
        assert fits(ours, content) == other.is_valid(content), content

    agree()


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        ({}, "image_id", "is required"),
        ({"image_id": 7}, "image_id", "should be a text"),
        ({"image_id": "a", "colour": "grey"}, "colour", "should be one of"),
        ({"image_id": "a", "size": {"width": "x"}}, "size.width", "should be a whole number"),
        ({"image_id": "a", "size": {"width": 5000}}, "size.width", "should be at most 4000"),
        ({"image_id": "a", "size": {"width": 2, "height": 3}}, "size.height", "is no field of it"),
        ({"image_id": "a", "pair": [1, 2]}, "pair.1", "should be a text"),
        ({"image_id": "a", "labels": {"b": "c"}}, "labels.b", "should be a whole number"),
        ({"image_id": "a", "pet": {"kind": "dog"}}, "pet.kind", "should be one of box, cat"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(content, place, message):
    with pytest.raises(ContentMisfit, match=message) as misfit:
        ContentSchema(SCHEMA).read(content)
    assert ".".join(misfit.value.place) == place


def test_a_field_that_is_left_out_has_its_default_and_all_fields_have_a_digest():
    content = ContentSchema(SCHEMA).read({"image_id": "a"})
    assert (content.field("image_id"), content.field("colour")) == ("a", "red")
    again = ContentSchema(SCHEMA).read({"image_id": "a"})
    assert content.field(CONTENT_DIGEST) == again.field(CONTENT_DIGEST)


class Timed(BaseModel):
    at: datetime
    of: UUID


def test_times_and_ids_are_read_as_such():
    schema = ContentSchema(Timed.model_json_schema())
    good = {"at": "2026-01-31T12:00:00Z", "of": "12345678123456781234567812345678"}
    assert fits(schema, good)
    assert not fits(schema, {**good, "at": "tomorrow"})
    assert not fits(schema, {**good, "of": "nobody"})


OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "string"}, "a content is an object"),
        ({**OBJECT, "if": {}}, "if: a keyword that is not supported"),
        ({**OBJECT, "properties": {"a": {"$ref": "https://example.com/s"}}}, "no definition"),
        ({**OBJECT, "properties": {"a": {"$ref": "#/$defs/b"}}}, "no definition"),
        ({**OBJECT, "properties": {"a": {"type": "odd"}}}, "properties.a.type"),
        ({**OBJECT, "properties": {"a": 3}}, "properties.a"),
        ({**OBJECT, "properties": {"a": {"pattern": "("}}}, "properties.a.pattern"),
        ({**OBJECT, "properties": {"a": {"pattern": "(?=a)"}}}, "properties.a.pattern"),
        ({**OBJECT, "properties": {"a": {"pattern": "a" * (PATTERN_CHARS_MAX + 1)}}}, "pattern"),
        ({**OBJECT, "properties": {"a": {"minimum": "1"}}}, "no number"),
        ({**OBJECT, "title": "x" * SCHEMA_BYTES_MAX}, "bytes"),
        ({**OBJECT, "$defs": 3}, "defs"),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "a content is an object"),
    ],
)
def test_a_schema_that_cannot_be_held_against_contents_is_refused(schema, problem):
    with pytest.raises(SchemaRefused, match=problem):
        ContentSchema(schema)


def test_a_schema_that_is_nested_too_deep_is_refused():
    schema: dict[str, Any] = {}
    for _ in range(DEPTH_MAX + 2):
        schema = {"items": schema}
    with pytest.raises(SchemaRefused, match="nested deeper"):
        ContentSchema({**OBJECT, "properties": {"a": schema}})


def both(name: str) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{name}"}, {"$ref": f"#/$defs/{name}"}]}


HOSTILE = {
    "doubles at each level": (
        {f"a{n}": both(f"a{n + 1}") for n in range(40)} | {"a40": {"type": "integer"}},
        "a0",
        "x",
    ),
    "refers to itself": ({"a": {"$ref": "#/$defs/a"}}, "a", 1),
    "tries each way down": (
        {"a": {"anyOf": [{"properties": {"n": {"$ref": "#/$defs/a"}}, "not": {}}] * 8}},
        "a",
        {"n": {"n": {"n": {"n": {"n": {"n": {"n": {"n": {"n": {}}}}}}}}}},
    ),
    "has a pattern that goes back": ({"a": {"pattern": "^(a+)+$"}}, "a", "a" * 30_000 + "!"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_takes_bounded_steps(name):
    defined, first, value = HOSTILE[name]
    schema = ContentSchema(
        {**OBJECT, "$defs": defined, "properties": {"v": {"$ref": f"#/$defs/{first}"}}}
    )
    began_s = time.process_time()
    assert not fits(schema, {"v": value})
    assert time.process_time() - began_s < 5  # unbounded, each would go on for years


@given(
    st.dictionaries(
        st.sampled_from(["type", "enum", "anyOf", "properties", "$ref", "items", "pattern", "x"]),
        VALUES,
        max_size=4,
    )
)
def test_any_document_is_a_schema_or_is_refused(document):
    try:
        schema = ContentSchema({**document, "type": "object"})
    except SchemaRefused:
        return
    fits(schema, {"a": 1, "width": [2]})
