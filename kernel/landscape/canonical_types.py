"""Writes canonical and typed JSON of a pipeline's data (seed 003, Serialization Pipeline).

Canonical JSON is RFC 8785, and what is called a hash is taken of it, so that any library computes
the same one (ruling L2). Typed JSON is what is kept and read back; a reference is its SHA-256.

1. A value that JSON has stays what it is: null, booleans, texts, integers up to 2^53 - 1,
   fractions, lists, objects. A tuple is a list, a UUID its text, an enumeration's member its value.
2. A time is ISO 8601 in UTC (one without a zone is in UTC), a Decimal its text, pandas' NaT and NA
   are null. Their types are not in the text; the source's schema restores them.
3. Bytes are an object of one key, `BYTES`, with their base64.
4. In canonical JSON a float is a number, whether it is whole or not, and an integer beyond 2^53 - 1
   is its decimal text.
5. In typed JSON what would come back as something else is an object of one key, a tag: bytes, whole
   floats (``1.0`` would come back as an integer, and 1e20 as one that cannot be written again),
   integers beyond 2^53 - 1. An object of the data whose only key is a tag is put into one of
   `OBJECT`, so none is taken for what it is not (decision kernel/0390).
6. NaN, infinities and every other type are refused at any depth, with their place.

Values with the same typed bytes are therefore the same value, but for what rules 1 and 2 call a
list, a text or null; and what was read is written again as it was. NumPy and pandas are known by
the names of their types; neither is imported.

Decision kernel/0605 says why.
"""

import base64
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any
from uuid import UUID

import orjson

from kernel.values.canonical import (
    MAX_SAFE_INTEGER,
    STRING,
    CanonicalizationError,
    canonicalize,
    four_byte_character,
    holds_infinite,
    sha256_hex,
)
from kernel.values.errors import FieldRefused

CANONICAL_VERSION = "sha256-rfc8785-v1"
"""What hashes of a run are taken by; a changed rule is another version."""

TYPED_VERSION = "sha256-rfc8785-tagged-v1"
"""What they were taken by before: of typed JSON. The runtime's own runs have none that differ."""

BYTES = "__bytes__"
FLOAT = "__float__"
INTEGER = "__integer__"
OBJECT = "__object__"
TAGS = frozenset({BYTES, FLOAT, INTEGER, OBJECT})

DEPTH_MAX = 100
INTEGER_BITS_MAX = 8192
DATA_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of the canonical form of one value."""

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_WHOLE_FLOAT = re.compile(rb"\.0[,}\]]").search
_WHOLE_FLOATS = re.compile(rb"(?<!\d)(-?\d++\.0)(?=[,}\]])")
_EXPONENT = re.compile(rb"e[-+]?\d+[,}\]]").search

_Place = tuple[str | int, ...]
_REFUSED_ARRAYS = frozenset("mMcV")
"""Kinds of NumPy's times, complex numbers and structures."""


class DataRefused(FieldRefused):
    """A value has no canonical form; `field` is its place in the data."""


class Canonical(bytes):
    """The typed JSON of a value, where it is at hand already: its typed form is it."""

    @cached_property
    def digest(self) -> str:
        """The hash, taken once: a row's data is named by each state that it was in."""
        return _digest(self)


def typed_data(value: Any) -> bytes:
    """Return the typed JSON of a value.

    Raises:
        DataRefused: `data_not_finite`, `data_type_unknown`, `data_too_deep`, `data_too_large`,
            `data_not_canonical`.
    """
    if type(value) is Canonical:
        return value
    content = _encode_by_library(value)
    if content is None:
        try:
            content = canonicalize(_normalize(value, (), DEPTH_MAX))
        except CanonicalizationError as error:
            raise DataRefused("data_not_canonical", "", str(error)) from None
    if len(content) > DATA_BYTES_MAX:
        problem = f"{len(content)} bytes, {DATA_BYTES_MAX} are allowed"
        raise DataRefused("data_too_large", "", problem)
    return content


UNREADABLE = "__canonical_error__"
"""In what is recorded of a value without a canonical form, beside how it looks: why."""


def data_or_repr(value: Any) -> bytes:
    """Return the typed JSON of a value, or of how it looks where it has none."""
    try:
        return typed_data(value)
    except DataRefused as error:
        shown = {"__repr__": repr(value)[:4096], "__type__": type(value).__name__}
        return typed_data(shown | {UNREADABLE: str(error)})


def canonical_json(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a value.

    Raises:
        DataRefused: as `typed_data`.
    """
    return _canonical(typed_data(value))


def stable_hash(value: Any) -> str:
    """Return the SHA-256 of a value's RFC 8785 bytes as hex.

    Raises:
        DataRefused: as `typed_data`.
    """
    return digest_of(typed_data(value))


def digest_of(content: bytes) -> str:
    """Return the hash of a value, of whose typed JSON it is given the bytes."""
    return content.digest if type(content) is Canonical else _digest(content)


def is_hash_of(content: bytes, recorded: str) -> bool:
    """Tell whether a recorded hash is that of a value, by this version or by `TYPED_VERSION`."""
    return recorded in (digest_of(content), sha256_hex(content))


def _digest(content: bytes) -> str:
    return sha256_hex(_canonical(content))


def _canonical(content: bytes) -> bytes:
    # Every tag begins so; without one the two forms are the same bytes.
    if content.find(b'"__') < 0:
        return content
    return canonicalize(_plain_value(orjson.loads(memoryview(content))))


def _plain_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_value(x) for x in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(key, stated)] = value.items()
        if key == FLOAT:
            return float(stated)
        if key == INTEGER:
            return stated
        if key == OBJECT:
            value = stated
    return {name: _plain_value(x) for name, x in value.items()}


def restore_value(content: bytes) -> Any:
    """Return the value of typed JSON, but for the types that rule 2 names.

    Raises:
        ValueError: the bytes are not what `typed_data` writes.
    """
    try:
        if type(content) is Canonical:
            return _restore(orjson.loads(memoryview(content)))
        value = _restore(orjson.loads(content))
        is_canonical = typed_data(value) == content
    except (DataRefused, ValueError, RecursionError) as error:
        raise ValueError(f"no canonical data: {error}") from None
    if not is_canonical:
        raise ValueError("no canonical data: written otherwise")
    return value


def _encode_by_library(value: Any) -> bytes | None:
    """Return the typed JSON where a library writes it as it is, else None.

    None of every output with a trace of what the library does otherwise: a large or a small float,
    a null that was NaN, a tag, a character that UTF-16 sorts otherwise in a key.
    """
    if type(value) not in (dict, list):
        return None
    try:
        content = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return None
    is_canonical = (
        (content.isascii() or four_byte_character(content) is None)
        and (content.find(b"null") < 0 or not holds_infinite(value))
        and content.find(b'"__') < 0
        and _EXPONENT(content) is None
        and content.count(b"{") + content.count(b"[") <= DEPTH_MAX
    )
    if not is_canonical:
        return None
    return content if _WHOLE_FLOAT(content) is None else _with_tagged_floats(content)


def _with_tagged_floats(content: bytes) -> bytes:
    """Return what the library has written with a tag around each whole float.

    In what it writes no control character is left, so two of them can stand for the tag's ends
    while strings are set apart.
    """
    parts = STRING.split(content)
    outside = _WHOLE_FLOATS.sub(b"\x01\\1\x02", b'"'.join(parts[::2]))
    parts[::2] = outside.split(b'"')
    return b"".join(parts).replace(b"\x01", b'{"%s":"' % FLOAT.encode()).replace(b"\x02", b'"}')


def _normalize(value: Any, place: _Place, levels: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _normalize(value.value, place, levels)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _of_integer(int(value), place)
    if isinstance(value, float):
        return _of_float(float(value), place)
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict | list | tuple):
        return _of_container(value, place, levels)
    return _of_other(value, place, levels)


def _of_integer(value: int, place: _Place) -> Any:
    if abs(value) <= MAX_SAFE_INTEGER:
        return value
    if value.bit_length() > INTEGER_BITS_MAX:
        raise _refusal("data_too_large", place, f"an integer of {value.bit_length()} bits")
    return {INTEGER: str(value)}


def _of_float(value: float, place: _Place) -> Any:
    if not math.isfinite(value):
        raise _refusal("data_not_finite", place, f"{value} is no finite number")
    return {FLOAT: repr(value)} if value.is_integer() else value


def _of_container(
    value: dict[Any, Any] | list[Any] | tuple[Any, ...], place: _Place, levels: int
) -> Any:
    if not levels:
        raise _refusal("data_too_deep", place, f"more than {DEPTH_MAX} levels")
    if not isinstance(value, dict):
        return [_normalize(x, (*place, at), levels - 1) for at, x in enumerate(value)]
    fields = {}
    for key, x in value.items():
        if not isinstance(key, str):
            raise _refusal("data_type_unknown", place, f"a key is {type(key).__name__}, not text")
        name = str.__str__(key)
        fields[name] = _normalize(x, (*place, name), levels - 1)
    return {OBJECT: fields} if len(fields) == 1 and TAGS & fields.keys() else fields


def _of_other(value: Any, place: _Place, levels: int) -> Any:
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library == "numpy":
        return _of_numpy(value, place, levels)
    if library == "pandas" and kind.__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, datetime):
        return _of_time(value, place)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise _refusal("data_not_finite", place, f"{value} is no finite number")
        return str(value)
    if isinstance(value, UUID):
        return str(value)
    raise _refusal("data_type_unknown", place, f"{kind.__module__}.{kind.__qualname__}")


def _of_numpy(value: Any, place: _Place, levels: int) -> Any:
    if getattr(getattr(value, "dtype", None), "kind", "V") not in _REFUSED_ARRAYS:
        plain = value.tolist()
        if type(plain).__module__.partition(".")[0] != "numpy":
            return _normalize(plain, place, levels)
    raise _refusal("data_type_unknown", place, f"numpy.{type(value).__qualname__}")


def _of_time(value: datetime, place: _Place) -> str:
    if value.utcoffset() is None:
        value = value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC).isoformat()
    except OverflowError:
        raise _refusal(
            "data_not_finite", place, f"{value} is before year 1 or after 9999"
        ) from None


def _refusal(code: str, place: _Place, problem: str) -> DataRefused:
    return DataRefused(code, ".".join(map(str, place)), problem)


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return [_restore(x) for x in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(key, stated)] = value.items()
        if key == BYTES:
            return base64.b64decode(_text(stated), validate=True)
        if key == FLOAT:
            return float(_text(stated))
        if key == INTEGER:
            return int(_text(stated))
        if key == OBJECT and isinstance(stated, dict):
            return {name: _restore(x) for name, x in stated.items()}
    return {name: _restore(x) for name, x in value.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a tag without its text")  # noqa: TRY004 - the bytes are wrong, no call is
    return value
