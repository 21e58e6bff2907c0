"""Declares the fields that many questions have, each with its bounds and its help."""

from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from kernel.model.numbers import SEQUENCE_MAX
from workers.questions.question import Question
from workers.views.moments import in_utc

NAME_CHARS_MAX: Final = 512
"""The longest name that the record can hold."""

PLACE_CHARS_MAX: Final = 1024
PAGE_MAX: Final = 500
NO_NUL: Final = r"^[^\x00]*$"
"""Names on the record hold no U+0000."""

_AFTER: Final = "`next_after` of the page before."


def _from_number(value: object) -> object:
    """Take a number where a text is meant: models write sequences as either."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


def _check_date(value: object) -> object:
    """Refuse seconds since an epoch, which a parser takes for a time and a document does not."""
    if isinstance(value, str) and "T" not in value.upper():
        raise ValueError("a time is written as 2026-01-31T12:00:00Z")
    return value


Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=NO_NUL)]
Sequence = Annotated[int, Field(ge=0, le=SEQUENCE_MAX)]
AfterNumber = Annotated[int, Field(ge=0, le=SEQUENCE_MAX, description=_AFTER)]
AfterName = Annotated[
    str,
    Field(max_length=PLACE_CHARS_MAX, pattern=NO_NUL, description=_AFTER),
    BeforeValidator(_from_number),
]
Limit = Annotated[int, Field(ge=1, le=PAGE_MAX, description="At most so many rows.")]
TreeSize = Annotated[
    int | None, Field(ge=0, le=SEQUENCE_MAX, description="The tree of the first so many rows.")
]
At = Annotated[
    int | None,
    Field(ge=0, le=SEQUENCE_MAX, description="As it stood behind this row, before the next one."),
]
Moment = Annotated[AwareDatetime, BeforeValidator(_check_date), AfterValidator(in_utc)]
Since = Annotated[Moment | None, Field(description="From this time on.")]
Until = Annotated[Moment | None, Field(description="Before this time.")]


ROWS_READ: Final = 20
"""See decision workers/0453."""


class PageByNumber(Question):
    """A page that goes on after a number."""

    rows_read: ClassVar = ROWS_READ

    after: AfterNumber = 0
    limit: Limit = 100


class PageByName(Question):
    """A page that goes on after a name."""

    rows_read: ClassVar = ROWS_READ

    after: AfterName = ""
    limit: Limit = 100
