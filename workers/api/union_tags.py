"""Judges the tag by which a document says what it is, before the framework repeats it.

An error of a tag repeats the whole of it several times: one of eight megabytes held the event loop
for 96 ms.
"""

from typing import Any, Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

TAG_CHARS_MAX: Final = 64


def short_tag(name: str) -> BeforeValidator:
    """Return what refuses a document whose field of this name is longer than any tag."""

    def check_tag(value: Any) -> Any:
        tag = value.get(name) if isinstance(value, dict) else None
        if isinstance(tag, str) and len(tag) > TAG_CHARS_MAX:
            message = f"{name} has at most {TAG_CHARS_MAX} characters"
            raise PydanticCustomError("union_tag_invalid", "{message}", {"message": message})
        return value

    return BeforeValidator(check_tag)
