"""Reads the body of a request: counts it first, refuses a repeated key, never holds the loop long.

A body whose JSON cannot be followed, or in which an object has a key twice at any depth, however it
is escaped, is refused with 422. A large body is read on a thread and in steps, so that the event
loop has its turn in between (decision workers/0066). The largest are read two at a time, because
each takes many times its size while it is read, and each thread takes turns from the loop.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from kernel.values.canonical import MAX_SAFE_INTEGER
from kernel.values.json_text import RepeatedKey, SteppedDecoder, unique_keys
from workers.api.body_limits import BodyLimits
from workers.api.errors import ApiError

READ_AT_ONCE_BYTES = 32 << 10
"""Bytes that are read on the event loop, because a thread would cost other requests more."""

LARGEST_BYTES = 1 << 20
LARGEST_AT_ONCE = 2
_largest: RunVar[CapacityLimiter] = RunVar("_largest")

_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_TEXTS = re.compile(rb'[^"]*+(?:%s[^"]*+){0,1024}' % _TEXT.pattern, re.DOTALL)
"""So many texts, and what stands between them, that they are cut out in one call."""


async def read_json(content: bytes, limits: BodyLimits) -> Any:
    """Return the value of a body.

    Raises:
        ApiError: `request_too_large`, `body_not_utf8`, `json_key_repeated`.
        RequestValidationError: it is not JSON.
        HTTPException: 400, it is nested deeper, or has longer numbers, than can be read.
    """
    if len(content) <= READ_AT_ONCE_BYTES:
        return read_whole(content, limits)
    limiter = None if len(content) <= LARGEST_BYTES else _limiter_of_largest()
    read = await anyio.to_thread.run_sync(_read_or_refuse, content, limits, limiter=limiter)
    if isinstance(read, _Refusal):
        try:
            raise read.error
        finally:
            # What this frame holds is in a circle with the error, too.
            del content, read
    return read


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: Exception


def _read_or_refuse(content: bytes, limits: BodyLimits) -> Any:
    """Return the value of a body, or an error that holds nothing of the body.

    An error that a thread raises is in a circle with the frames that it went through, and what they
    hold: twelve streams of lines of a mebibyte that are no JSON held 1 GiB until the garbage of the
    oldest generation was looked for, which comes seldom.
    """
    try:
        return read_whole(content, limits)
    except Exception as error:  # noqa: BLE001 - it is raised where it is awaited
        error.__context__ = error.__cause__ = None
        return _Refusal(error.with_traceback(None))


def _limiter_of_largest() -> CapacityLimiter:
    """Return the event loop's own."""
    try:
        return _largest.get()
    except LookupError:
        limiter = CapacityLimiter(LARGEST_AT_ONCE)
        _largest.set(limiter)
        return limiter


def read_whole(content: bytes, limits: BodyLimits) -> Any:
    """Return the value of a body, as `read_json` does, in this thread."""
    if len(content) > limits.body_bytes:
        raise _too_large("", limits.body_bytes, len(content))
    _count(content, limits)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ApiError("body_not_utf8", f"byte {error.start} is not UTF-8") from None
    try:
        stepped = len(content) > READ_AT_ONCE_BYTES
        decoder = _decoder(limits.members)
        return decoder.decode_in_steps(text) if stepped else decoder.decode(text)
    except RepeatedKey as error:
        raise ApiError(error.code, str(error)) from None
    except json.JSONDecodeError as error:
        problem = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error"}
        raise RequestValidationError([problem]) from None
    except (RecursionError, ValueError):
        raise HTTPException(400) from None


def _count(content: bytes, limits: BodyLimits) -> None:
    containers, values = _marks(content)
    if containers <= limits.containers and values <= limits.values:
        return
    if b'"' in content:
        outside = (_marks(_TEXT.sub(b"", match[0])) for match in _TEXTS.finditer(content))
        containers, values = map(sum, zip(*outside, strict=True))
    if containers > limits.containers:
        raise _too_large("objects and arrays", limits.containers, containers)
    if values > limits.values:
        raise _too_large("values", limits.values, values)


def _marks(content: bytes) -> tuple[int, int]:
    containers = content.count(b"{") + content.count(b"[")
    return containers, containers + content.count(b",")


def _too_large(kind: str, limit: int, actual: int) -> ApiError:
    message = f"a body to this path has at most {limit} {kind or 'bytes'}, this one {actual}"
    details = {"limit": limit, "actual": actual}
    return ApiError("request_too_large", message, details)


@cache
def _decoder(members_max: int) -> SteppedDecoder:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > members_max:
            raise _too_large("members of an object", members_max, len(pairs))
        return unique_keys(pairs)

    return SteppedDecoder(object_pairs_hook=members, parse_float=_number)


def _number(text: str) -> int | float:
    """Return a number that has a fraction or an exponent, as an integer where it is a whole one.

    To JSON Schema and to canonical form 1.0 and 1 are the same number (decision workers/0431).
    """
    number = float(text)
    is_whole = -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER and number.is_integer()
    return int(number) if is_whole else number
