"""Canonical JSON (RFC 8785) and the digests that are taken of it.

The same value gives the same bytes everywhere, so a hash over those bytes means something.
orjson writes almost exactly these bytes; it differs from RFC 8785 in three places only:

1. whole floats ("1.0") and exponents are printed differently; every other float has the same
   shortest digits in both, and integers past 2^53 - 1 are refused;
2. NaN and the infinities become ``null`` instead of being refused;
3. keys are sorted by code point, RFC 8785 sorts by UTF-16 code unit: the two orders part only
   where a key holds a character outside the basic multilingual plane.

So orjson writes first. Where its output shows no trace of the three cases it is already canonical;
a trace may be a false alarm (digits inside a string), and then the slow, exact writer decides.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from typing import Any

import orjson

MAX_SAFE_INTEGER = 2**53 - 1

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)

# A whole float, or an exponent. orjson writes no blanks, so in an object or an array a number
# directly follows one of three prefixes and precedes one of three ends. Each pattern begins with a
# literal and has no alternatives: so the regular expression engine skips instead of trying.
_WHOLE_FLOAT = re.compile(rb"\.0[,}\]]").search
_EXPONENT_AFTER_KEY, _EXPONENT_AFTER_COMMA, _EXPONENT_AFTER_BRACKET = (
    re.compile(prefix + rb"[-\d][\d.]*e").search for prefix in (rb'":', rb",", rb"\[")
)
# Each of the three is followed by one of these, and hardly a text is: two searches mostly suffice.
_EXPONENT_END = re.compile(rb"e[-+]?\d{1,3}[,}\]]").search
# What a whole float beyond 2^53 - 1 looks like in canonical form; digits inside a string may, too.
_LONG_INTEGER = re.compile(rb"(?:^|[:,\[])-?\d{16}").search
_FOUR_BYTE_CHARACTER = re.compile(rb"[\xf0-\xf4]").search


class CanonicalizationError(ValueError):
    """The value has no canonical JSON form: not JSON, not finite, too large or not Unicode."""

    code = "canonical_json_invalid"


def canonicalize(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    Raises:
        CanonicalizationError: for NaN and infinities, integers beyond 2^53 - 1, lone surrogates,
            keys that are not strings, and types that JSON does not have.
    """
    try:
        fast = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return _exact(value)
    return _exact(value) if _suspect(value, fast) else fast


def canonicalize_readable(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value that has such bytes when it is read back, too.

    RFC 8785 writes the float 1e17 as an integer, which nothing that reads it can write again.

    Raises:
        CanonicalizationError: as `canonicalize`, and for whole floats from 2^53 to 1e21.
    """
    try:
        fast = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        fast = b""
    if fast and not _suspect(value, fast):
        # The bytes hold no whole float, and no integer beyond 2^53 - 1.
        return fast
    content = _exact(value)
    if _LONG_INTEGER(content) is not None:
        # orjson would read the largest of them as floats, other readers as integers.
        try:
            _exact(json.loads(content))
        except RecursionError:
            raise CanonicalizationError("nested too deeply") from None
    return content


def canonicalize_plain(document: dict[str, Any]) -> bytes:
    """Return the RFC 8785 bytes of an object that holds texts, booleans and integers alone.

    Objects and lists in it may be of any depth; every key is inside the basic multilingual plane.
    Of the three differences none can then arise, so nothing is searched for them.

    Raises:
        CanonicalizationError: as `canonicalize`.
    """
    try:
        return orjson.dumps(document, option=_OPTIONS)
    except TypeError:
        return _exact(document)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of the bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """Return the SHA-256 of the value's canonical form as hex."""
    return hashlib.sha256(canonicalize(value)).hexdigest()


def _suspect(value: Any, fast: bytes) -> bool:
    return (
        not isinstance(value, dict | list | tuple)
        or b"null" in fast
        or (b".0" in fast and _WHOLE_FLOAT(fast) is not None)
        or (_EXPONENT_END(fast) is not None and _holds_exponent(fast))
        or (not fast.isascii() and _FOUR_BYTE_CHARACTER(fast) is not None)
    )


def _holds_exponent(fast: bytes) -> bool:
    return (
        _EXPONENT_AFTER_KEY(fast) is not None
        or _EXPONENT_AFTER_COMMA(fast) is not None
        or _EXPONENT_AFTER_BRACKET(fast) is not None
    )


def _exact(value: Any) -> bytes:
    out: list[bytes] = []
    try:
        _write(value, out.append)
    except RecursionError:
        raise CanonicalizationError("nested too deeply") from None
    return b"".join(out)


def _write(value: Any, emit: Callable[[bytes], None]) -> None:
    kind = type(value)
    if kind is dict:
        emit(b"{")
        for index, key in enumerate(sorted(value, key=_utf16)):
            emit(b"," + _string(key) + b":" if index else _string(key) + b":")
            _write(value[key], emit)
        emit(b"}")
    elif kind is list or kind is tuple:
        emit(b"[")
        for index, item in enumerate(value):
            if index:
                emit(b",")
            _write(item, emit)
        emit(b"]")
    else:
        emit(_scalar(value))


def _scalar(value: Any) -> bytes:
    kind = type(value)
    if kind is str:
        return _string(value)
    if value is None:
        return b"null"
    if kind is bool:
        return b"true" if value else b"false"
    if kind is float:
        return _number(value).encode()
    if kind is not int:
        raise CanonicalizationError(f"not a JSON value: {kind.__name__}")
    if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        raise CanonicalizationError(f"integer beyond 2^53 - 1: {value}")
    return b"%d" % value


def _utf16(key: Any) -> bytes:
    if type(key) is not str:
        raise CanonicalizationError(f"object key is not a string: {type(key).__name__}")
    try:
        return key.encode("utf-16-be")
    except UnicodeEncodeError:
        raise CanonicalizationError("lone surrogate in an object key") from None


def _string(value: str) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        raise CanonicalizationError("lone surrogate in a string") from None


def _number(value: float) -> str:
    """Print a float as ECMAScript does: shortest digits, exponent form from 1e21 and below 1e-6."""
    if not math.isfinite(value):
        raise CanonicalizationError(f"not a finite number: {value}")
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"
