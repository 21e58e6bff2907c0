"""Encodes a column of many rows as one array in PostgreSQL's binary form.

A statement takes a whole table's rows as an array for each column. The driver's own dumper of lists
asks for a dumper of each element; the columns of the ledger have three types, so that one pass
over the values does.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from psycopg import DataError

_NULL: Final = struct.pack("!i", -1)
_NUMBER: Final = struct.Struct("!iq")
_HEAD: Final = struct.Struct("!iiiii")
_LENGTH: Final = struct.Struct("!i")


class ColumnArray:
    """The values of a column, encoded."""

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded


def column_array(type_name: str, values: Sequence[Any]) -> ColumnArray:
    """Return the values of a column of a type, one of `text`, `bytea` and `int8`.

    Raises:
        UnicodeEncodeError: a text has half of a surrogate pair.
        DataError: a number has more than 64 bits.
    """
    element_oid, encode = _TYPES[type_name]
    head = _HEAD.pack(1, None in values, element_oid, len(values), 1)
    return ColumnArray(head + b"".join(encode(values)))


def _texts(values: Sequence[str | None]) -> list[bytes]:
    return _contents([None if value is None else value.encode() for value in values])


def _contents(values: Sequence[bytes | None]) -> list[bytes]:
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_LENGTH.pack(len(value)), value)
    return parts


def _numbers(values: Sequence[int | None]) -> list[bytes]:
    try:
        return [_NULL if value is None else _NUMBER.pack(8, value) for value in values]
    except struct.error as error:
        raise DataError(f"a number has more than 64 bits: {error}") from error


_TYPES: Final[dict[str, tuple[int, Callable[[Sequence[Any]], list[bytes]]]]] = {
    "text": (25, _texts),
    "bytea": (17, _contents),
    "int8": (20, _numbers),
}
"""By the name of a type the number that the server has for it, and how its values are encoded."""
