"""Reading the body of a request: counted first, no key twice, and never long at a time.

A large body is read on a thread. The reader of the standard library keeps the interpreter to itself
from the begin of a value to its end, so the outer objects and arrays are read entry by entry, which
lets the event loop have its turn in between.
"""

import json
import re
from collections.abc import Callable, Coroutine
from json.decoder import JSONObject  # type: ignore[attr-defined]
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from kernel.json_text import RepeatedKey, unique_keys
from workers.api.body_limits import BodyLimits, limits_of
from workers.api.errors import ApiError

READ_AT_ONCE_BYTES = 32 << 10
"""So much is read on the event loop: less than going to a thread costs others."""

_LEVELS_BY_ENTRY = 3
_BLANKS = re.compile(r"[ \t\n\r]*")
_PLAIN_TEXTS = re.compile(r'(?:[ \t\n\r]*"[^"\\\x00-\x1f]*+"[ \t\n\r]*,){1,4096}')
"""Entries of an array that are texts without escapes, so many that reading them is quick."""

_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_JSON_TYPES = re.compile(r"\s*application/(?:[\w.+-]+\+)?json\s*(?:;|$)", re.IGNORECASE)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class JsonRoute(APIRoute):
    """A route whose body is read by this module."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request: reads its body, if the route has one, and goes on."""
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler

        async def read_first(request: Request) -> Response:
            content = await request.body()
            if content and _JSON_TYPES.match(request.headers.get("content-type", "")):
                # Where the framework looks for what was read before.
                request._json = await read_json(  # noqa: SLF001
                    content, limits_of(request.scope["path"])
                )
            return await handler(request)

        return read_first


def json_router(**options: Any) -> APIRouter:
    """Return a router whose bodies are read by this module."""
    return APIRouter(route_class=JsonRoute, **options)


async def read_json(content: bytes, limits: BodyLimits) -> Any:
    """Return the value of a body.

    Raises:
        ApiError: `request_too_large`, `body_not_utf8`, `json_key_repeated`.
        RequestValidationError: it is not JSON.
        HTTPException: 400, it is nested deeper, or has longer numbers, than can be read.
    """
    if len(content) <= READ_AT_ONCE_BYTES:
        return _read(content, limits)
    return await anyio.to_thread.run_sync(_read, content, limits)


def _read(content: bytes, limits: BodyLimits) -> Any:
    if len(content) > limits.body_bytes:
        raise _too_large("", limits.body_bytes, len(content))
    _count(content, limits)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ApiError("body_not_utf8", f"byte {error.start} is not UTF-8") from None
    try:
        return _decode(text) if len(content) > READ_AT_ONCE_BYTES else _SMALL.decode(text)
    except RepeatedKey as error:
        raise ApiError(error.code, str(error)) from None
    except json.JSONDecodeError as error:
        problem = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error"}
        raise RequestValidationError([problem]) from None
    except (RecursionError, ValueError):
        raise HTTPException(400) from None


def _count(content: bytes, limits: BodyLimits) -> None:
    containers, values = _marks(content, 0, len(content))
    if containers <= limits.containers and values <= limits.values:
        return
    for match in _TEXT.finditer(content):
        inside = _marks(content, *match.span())
        containers, values = containers - inside[0], values - inside[1]
    if containers > limits.containers:
        raise _too_large("objects and arrays", limits.containers, containers)
    if values > limits.values:
        raise _too_large("values", limits.values, values)


def _marks(content: bytes, start: int, end: int) -> tuple[int, int]:
    containers = content.count(b"{", start, end) + content.count(b"[", start, end)
    return containers, containers + content.count(b",", start, end)


def _too_large(kind: str, limit: int, actual: int) -> ApiError:
    message = f"a body to this path has at most {limit} {kind or 'bytes'}, this one {actual}"
    details = {"limit": limit, "actual": actual}
    return ApiError("request_too_large", message, details)


_SMALL = json.JSONDecoder(object_pairs_hook=unique_keys)
_scan_whole: Callable[[str, int], tuple[Any, int]] = _SMALL.scan_once  # type: ignore[attr-defined]


def _decode(text: str) -> Any:
    """Return what the standard library's reader returns, entry by entry on the outer levels."""
    try:
        value, end = _scan(text, _after_blanks(text, 0), _LEVELS_BY_ENTRY)
    except StopIteration as error:
        raise json.JSONDecodeError("Expecting value", text, error.value) from None
    end = _after_blanks(text, end)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def _scan(text: str, start: int, levels: int) -> tuple[Any, int]:
    opening = text[start : start + 1]
    if not levels or opening not in ("{", "["):
        return _scan_whole(text, start)
    if opening == "[":
        return _scan_array(text, start + 1, levels - 1)

    def scan(text: str, start: int) -> tuple[Any, int]:
        return _scan(text, start, levels - 1)

    value, end = JSONObject((text, start + 1), True, scan, None, unique_keys, {})
    return value, end


def _scan_array(text: str, start: int, levels: int) -> tuple[list[Any], int]:
    values: list[Any] = []
    end = _after_blanks(text, start)
    if text[end : end + 1] == "]":
        return values, end + 1
    while True:
        while run := _PLAIN_TEXTS.match(text, end):
            values += json.loads(f"[{text[end : run.end() - 1]}]")
            end = run.end()
        value, end = _scan(text, _after_blanks(text, end), levels)
        values.append(value)
        end = _after_blanks(text, end)
        mark = text[end : end + 1]
        end += 1
        if mark == "]":
            return values, end
        if mark != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, end - 1)


def _after_blanks(text: str, start: int) -> int:
    match = _BLANKS.match(text, start)
    return start if match is None else match.end()
