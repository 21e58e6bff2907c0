"""Arguments that many tools have, each with its bounds and its description."""

from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from kernel.model.numbers import SEQUENCE_MAX
from workers.views.moments import in_utc

NAME_CHARS_MAX = 512
PAGE_MAX = 100

_NO_NUL = r"^[^\x00]*$"


def _from_number(value: object) -> object:
    """Take a number where a text is meant: models write sequences as either."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


def _dated(value: object) -> object:
    if isinstance(value, str) and "T" not in value.upper():
        raise ValueError("a time is written as 2026-01-31T12:00:00Z")
    return value


Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=_NO_NUL)]
OptionalName = Annotated[Name | None, Field(description="Only what has exactly this.")]
AfterSequence = Annotated[
    int, Field(ge=0, le=SEQUENCE_MAX, description="`next.after` of the page before.")
]
AfterName = Annotated[
    str,
    BeforeValidator(_from_number),
    Field(max_length=1024, pattern=_NO_NUL, description="`next.after` of the page before."),
]
Limit = Annotated[int, Field(ge=1, le=PAGE_MAX, description="Rows of a page; fewer where long.")]
Sequence = Annotated[int, Field(ge=1, le=SEQUENCE_MAX)]
TreeSize = Annotated[
    int | None, Field(ge=0, le=SEQUENCE_MAX, description="Rows of the tree; all by default.")
]
Time = Annotated[
    AwareDatetime | None,
    BeforeValidator(_dated),
    AfterValidator(in_utc),
    Field(description="Such as 2026-01-31T12:00:00Z."),
]
Part = Annotated[
    str,
    Field(
        max_length=NAME_CHARS_MAX,
        description="Show one part whole, by its path, such as `envelope.primitive_effects.0`.",
    ),
]
Offset = Annotated[
    int, Field(ge=0, le=1 << 40, description="Begin a long `part` here: `next.offset`.")
]
ThoughtSession = Annotated[Name, Field(description="Id of a session of thoughts, a UUID.")]
