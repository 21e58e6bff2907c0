"""Decodes what Redis replies, as bytes of a stranger: each value by a reader, records by a table.

One value that no fleet writes (a key of another type, a hash without a rank, a name that is not
UTF-8) used to stop every claim of a queue, or ended a gateway. So nothing else reads a reply by
hand: a reader returns a value that lies within its bounds or raises `Foreign`, and `records` reads
many and drops the foreign ones, so that one of them spoils no other. `redis/dropped.py` counts
them.

A field that a table does not name is left alone, so that a heartbeat of another version is read.
How much one value weighs before it is read has no bound: a note of 512 MiB comes in one piece.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, TypeVar

import orjson

from queues.redis.dropped import count_dropped

T = TypeVar("T")
Read = Callable[[Any], T]

WHOLE_MAX: Final = 2**53 - 1
NAME_BYTES_MAX: Final = 1024
TEXT_BYTES_MAX: Final = 64 * 1024
_WHOLE_DIGITS: Final = len(str(-WHOLE_MAX))
_REQUIRED: Final = object()


class Foreign(ValueError):
    """Raised for a value that no version of this program writes."""


@dataclass(frozen=True, slots=True)
class Field:
    """How one field of a record is read."""

    read: Read[Any]
    default: Any = _REQUIRED
    """The value of an absent field; without a default such a record is foreign."""

    name: str = ""
    """Its name after decoding, where that differs from the name in Redis."""


def whole(low: int = -WHOLE_MAX, high: int = WHOLE_MAX) -> Read[int]:
    """Return a reader of whole numbers, as integers or as digits."""

    def read(value: Any) -> int:
        if isinstance(value, str):
            value = value.encode("ascii", "replace")
        if isinstance(value, bytes):
            is_number = len(value) <= _WHOLE_DIGITS and value.removeprefix(b"-").isdigit()
            value = int(value) if is_number else None
        if type(value) is not int or not low <= value <= high:
            raise Foreign("not a whole number within its bounds")
        return value

    return read


def moment(value: Any) -> int | None:
    """Read a score that is a time in ms; nothing for an empty one."""
    if value in (b"", None):
        return None
    try:
        at_ms = float(value)
    except (TypeError, ValueError):
        raise Foreign("not a time") from None
    if not isfinite(at_ms) or abs(at_ms) > WHOLE_MAX:
        raise Foreign("not a time that can be")
    return int(at_ms)


def text(bytes_max: int = NAME_BYTES_MAX) -> Read[str]:
    """Return a reader of UTF-8 texts of at most `bytes_max`."""

    def read(value: Any) -> str:
        try:
            encoded = value.encode() if isinstance(value, str) else value
            if isinstance(encoded, bytes) and len(encoded) <= bytes_max:
                return encoded.decode()
        except UnicodeError:
            pass
        raise Foreign("not a text within its bounds")

    return read


def content(bytes_max: int = TEXT_BYTES_MAX) -> Read[bytes]:
    """Return a reader of byte strings of at most `bytes_max`."""

    def read(value: Any) -> bytes:
        if not isinstance(value, bytes) or len(value) > bytes_max:
            raise Foreign("not bytes within their bounds")
        return value

    return read


def matching(pattern: str) -> Read[str]:
    """Return a reader of texts that a pattern describes as a whole."""
    read_text, whole_text = text(), re.compile(pattern)

    def read(value: Any) -> str:
        decoded = read_text(value)
        if not whole_text.fullmatch(decoded):
            raise Foreign("not of the form that it should have")
        return decoded

    return read


def one_of(*values: str) -> Read[str]:
    """Return a reader of one of a few words."""
    read_text = text()

    def read(value: Any) -> str:
        word = read_text(value)
        if word not in values:
            raise Foreign("not a word that is known here")
        return word

    return read


def many(read_element: Read[T], count_max: int) -> Read[tuple[T, ...]]:
    """Return a reader of lists of at most `count_max` elements."""

    def read(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list | tuple) or len(value) > count_max:
            raise Foreign("not a list within its bounds")
        return tuple([read_element(entry) for entry in value])

    return read


def row(*readers: Read[Any]) -> Read[tuple[Any, ...]]:
    """Return a reader of lists whose elements have a reader each."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) != len(readers):
            raise Foreign("not as many values as there should be")
        return tuple([reader(entry) for reader, entry in zip(readers, value, strict=True)])

    return read


def by_name(read_element: Read[T], count_max: int) -> Read[dict[str, T]]:
    """Return a reader of objects of at most so many values, each under a name."""
    name = text()

    def read(value: Any) -> dict[str, T]:
        if not isinstance(value, dict) or len(value) > count_max:
            raise Foreign("not an object within its bounds")
        return {name(key): read_element(element) for key, element in value.items()}

    return read


def json_object(value: Any) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        document = orjson.loads(content()(value))
    except orjson.JSONDecodeError:
        raise Foreign("not JSON") from None
    if not isinstance(document, dict):
        raise Foreign("JSON, and no object")
    return document


def pairs(value: Any) -> dict[bytes, bytes]:
    """Read a flat list of fields and values."""
    if not isinstance(value, list | tuple) or len(value) % 2:
        raise Foreign("not pairs")
    if not {*map(type, value)} <= {bytes}:
        raise Foreign("pairs of something else")
    return dict(zip(value[::2], value[1::2], strict=True))


def fields(table: Mapping[Any, Field]) -> Read[dict[str, Any]]:
    """Return a reader of the fields of a record that a table names, whatever else it has."""
    columns = [
        (name, field.name or (name.decode() if isinstance(name, bytes) else name), field)
        for name, field in table.items()
    ]

    def read(record: Mapping[Any, Any]) -> dict[str, Any]:
        values = {}
        for name, own_name, field in columns:
            if name in record:
                values[own_name] = field.read(record[name])
            elif field.default is _REQUIRED:
                raise Foreign("a field is missing")
            else:
                values[own_name] = field.default
        return values

    return read


def records(
    kind: str, values: Iterable[Any], read: Read[T], foreign: list[Any] | None = None
) -> list[T]:
    """Read many values; what is foreign is left out, counted, and added to `foreign`."""
    readable, left_out = [], 0
    for value in values:
        try:
            readable.append(read(value))
        except Foreign:
            left_out += 1
            if foreign is not None:
                foreign.append(value)
    if left_out:
        count_dropped(kind, left_out)
    return readable
