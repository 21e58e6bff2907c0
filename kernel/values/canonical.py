"""Writes canonical JSON (RFC 8785) and takes digests of it.

The same value gives the same bytes everywhere, so a hash over those bytes means something.
orjson writes almost exactly these bytes; it differs from RFC 8785 in three places only:

1. whole floats ("1.0"), minus zero and some exponents are spelled differently; every float has the
   same shortest digits in both, and integers past 2^53 - 1 are refused;
2. NaN and the infinities become ``null`` instead of being refused;
3. keys are sorted by code point, RFC 8785 sorts by UTF-16 code unit: the two orders part only
   where one key holds a character outside the basic multilingual plane and another one of its end.

So orjson writes first. If its output shows no trace of the three cases it is already canonical; a
trace may be a false alarm (digits inside a string), and then looking closer changes nothing.
Numbers are spelled anew in the bytes, in a few passes over all of them at once: a body of nothing
but floats costs tenths of a microsecond for each (decision kernel/0215).
"""

import hashlib
import math
import re
from collections.abc import Iterable
from enum import Enum
from itertools import chain
from typing import Any

import orjson

MAX_SAFE_INTEGER = 2**53 - 1

GENESIS_HASH = "0" * 64
"""What the first entry of a chain names as the one before."""

_OPTIONS = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_SORTED = _OPTIONS | orjson.OPT_SORT_KEYS

# A whole float, or an exponent that is written out. orjson writes no blanks, so in an object or an
# array one of three ends directly follows a number. Each pattern begins with a literal and has no
# alternatives at its begin: so the regular expression engine skips instead of trying.
_WHOLE_FLOAT = re.compile(rb"\.0[,}\]]").search
_EXPONENT = re.compile(rb"e(?:-[56]|\+[12]\d)[,}\]]").search
# These find the same in a fraction of the time: they begin with a byte that is rare in texts.
_SMALL_EXPONENT = re.compile(rb"-[56][,}\]]").search
_PLUS = ord("+")
"""As a number: bytes that are looked for with `in` raise an error inside first."""

STRING = re.compile(rb'("(?:[^"\\]++|\\.)*+"?)')
_ENDS = (b",", b"]", b"}")
# These are searched from the end of a number on, in the reversed bytes: so the patterns begin with
# what is rare, and not with a digit.
_LARGE = re.compile(rb"(?<!\d)([6-9]1|02)\+e(?:(\d+)\.)?(\d)")
"""What RFC 8785 writes out as an integer: 1e21 is the first that it does not."""

_SMALL = tuple(
    (re.compile(rb"(?<!\d)%d-e([\d.]+)" % places), b"0" * (places - 1) + b".0") for places in (5, 6)
)
"""What it writes out as a fraction, with so many zeros: 1e-7 is the first that it does not."""

_LONG_WHOLE = re.compile(rb"0\.(\d{16,})").finditer
four_byte_character = re.compile(rb"[\xf0-\xf4]").search
_LAST_OF_THE_PLANE = re.compile(rb"[\xee\xef]").search
"""U+E000 to U+FFFF, which UTF-16 sorts behind all characters that are beyond them."""


_CONTAINERS = frozenset({dict, list, tuple})
_PLAIN = _CONTAINERS | {str, int, float, bool, type(None)}


class CanonicalizationError(ValueError):
    """The value has no canonical JSON form: not JSON, not finite, too large or not Unicode."""

    code = "canonical_json_invalid"


def canonicalize(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    Raises:
        CanonicalizationError: for NaN and infinities, integers beyond 2^53 - 1, lone surrogates,
            keys that are not strings, types that JSON does not have, and more than 254 levels.
    """
    try:
        fast = orjson.dumps(value, option=_SORTED)
    except TypeError as error:
        raise _unwritable(error) from None
    return _respell_value(value, fast) if _suspect(value, fast) else fast


def canonicalize_readable(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value that has such bytes when it is read back, too.

    RFC 8785 writes the float 1e17 as an integer, which nothing that reads it can write again.

    Raises:
        CanonicalizationError: as `canonicalize`, and for whole floats from 2^53 to 1e21.
    """
    try:
        fast = orjson.dumps(value, option=_SORTED)
    except TypeError as error:
        raise _unwritable(error) from None
    return _respell_value(value, fast, readable=True) if _suspect(value, fast) else fast


def canonicalize_plain(document: dict[str, Any]) -> bytes:
    """Return the RFC 8785 bytes of an object that holds texts, booleans and integers alone.

    Objects and lists in it may be of any depth; every key is inside the basic multilingual plane.
    Of the three differences none can then arise, so nothing is searched for them.

    Raises:
        CanonicalizationError: as `canonicalize`.
    """
    try:
        return orjson.dumps(document, option=_SORTED)
    except TypeError as error:
        raise _unwritable(error) from None


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of the bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """Return the SHA-256 of the value's canonical form as hex."""
    return hashlib.sha256(canonicalize(value)).hexdigest()


def _unwritable(error: TypeError) -> CanonicalizationError:
    return CanonicalizationError(f"no canonical JSON: {error}")


def _suspect(value: Any, fast: bytes) -> bool:
    return (
        type(value) not in _CONTAINERS
        or fast.rfind(b"null") >= 0
        or _WHOLE_FLOAT(fast) is not None
        or _SMALL_EXPONENT(fast) is not None
        or (_PLUS in fast and _EXPONENT(fast) is not None)
        or (not fast.isascii() and four_byte_character(fast) is not None)
    )


def _respell_value(value: Any, fast: bytes, *, readable: bool = False) -> bytes:
    """Return the canonical bytes of a value that orjson has written."""
    if not isinstance(value, dict | list | tuple):
        return _respell_value([value], b"[%s]" % fast, readable=readable)[1:-1]
    if b"null" in fast and holds_infinite(value):
        raise CanonicalizationError("no canonical JSON: a number is not finite")
    if four_byte_character(fast) is not None and _LAST_OF_THE_PLANE(fast) is not None:
        fast = orjson.dumps(_in_utf16_order(value), option=_OPTIONS)
    if _WHOLE_FLOAT(fast) is None and _EXPONENT(fast) is None:
        return fast
    # What is outside strings is worked on as one text, in which a quotation mark stands for each.
    parts = STRING.split(fast)
    outside = b'"'.join(parts[::2])
    if readable:
        _refuse_unreadable(outside)
    parts[::2] = _respell(outside).split(b'"')
    return b"".join(parts)


def _respell(numbers: bytes) -> bytes:
    for end in _ENDS:
        # What is minus zero afterwards was a float; no integer is.
        numbers = numbers.replace(b".0" + end, end).replace(b"-0" + end, b"0" + end)
    if _EXPONENT(numbers) is None:
        return numbers
    backwards = numbers[::-1]
    for pattern, zeros in _SMALL:
        parts = pattern.split(backwards)
        parts[1::2] = [mantissa.replace(b".", b"") + zeros for mantissa in parts[1::2]]
        backwards = b"".join(parts)
    return _LARGE.sub(_without_exponent, backwards)[::-1]


def _without_exponent(match: re.Match[bytes]) -> bytes:
    exponent, fraction, whole = match.groups(b"")
    return (fraction + whole).rjust(int(exponent[::-1]) + 1, b"0")


def _refuse_unreadable(numbers: bytes) -> None:
    backwards = numbers[::-1]
    large = _LARGE.search(backwards)
    wholes = (match[1][::-1] for match in _LONG_WHOLE(backwards))
    too_long = (digits for digits in wholes if int(digits) > MAX_SAFE_INTEGER)
    digits = next(too_long, None) if large is None else large[0][::-1]
    if digits is not None:
        problem = f"a float that reads as an integer beyond 2^53 - 1: {digits.decode()}"
        raise CanonicalizationError(problem)


def holds_infinite(value: Any) -> bool:
    """Tell whether a number is none or has no end, looking at lists as a whole where it can."""
    level = [value]
    while level:
        entries = list(chain.from_iterable(map(_entries, level)))
        kinds = set(map(type, entries))
        if not kinds <= _PLAIN:
            # orjson writes the value of an enumeration's member.
            entries = [entry.value if isinstance(entry, Enum) else entry for entry in entries]
            kinds = set(map(type, entries))
        if float in kinds and not all(math.isfinite(x) for x in entries if type(x) is float):
            return True
        level = []
        if kinds & _CONTAINERS:
            level = [entry for entry in entries if type(entry) in _CONTAINERS]
    return False


def _entries(value: Any) -> Iterable[Any]:
    return value.values() if type(value) is dict else value


def _in_utf16_order(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return {key: _in_utf16_order(value[key]) for key in keys}
    if isinstance(value, list | tuple):
        return [_in_utf16_order(entry) for entry in value]
    return value
