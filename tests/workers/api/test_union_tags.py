"""A tag that is longer than any is refused before it is repeated."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from workers.api.union_tags import TAG_CHARS_MAX, short_tag


class Left(BaseModel):
    kind: Literal["left"]


class Right(BaseModel):
    kind: Literal["right"]


Tagged = TypeAdapter(
    list[Annotated[Annotated[Left | Right, Field(discriminator="kind")], short_tag("kind")]]
)


@pytest.mark.parametrize("length", [TAG_CHARS_MAX, TAG_CHARS_MAX + 1, 8 << 20])
def test_no_tag_is_repeated_that_is_longer_than_any(length):
    with pytest.raises(ValidationError) as refused:
        Tagged.validate_python([{"kind": "x" * length}])
    [error] = refused.value.errors(include_url=False, include_input=False)
    assert error["type"] == "union_tag_invalid"
    assert len(str(error)) < 1000


@pytest.mark.parametrize("document", [None, [], "left", {}, {"kind": 7}, {"kind": "other"}])
def test_what_has_no_such_tag_is_refused_as_before(document):
    with pytest.raises(ValidationError):
        Tagged.validate_python([document])


def test_a_known_tag_is_read():
    assert Tagged.validate_python([{"kind": "left"}, {"kind": "right"}]) == [
        Left(kind="left"),
        Right(kind="right"),
    ]
