"""Serves streamable HTTP on loopback: whom it answers, and how much it takes.

A page elsewhere must not reach the server through its reader's browser, so a request names a host
of the loopback and comes from no other origin, as at the gateway (`environment/host_names.py`).
Each request stands by itself: no session is kept, so there is none to take over or to fill up
(decision workers/0226).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import orjson
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.error_codes import status_of
from workers.environment.host_names import LOOPBACK_NAMES, host_name, is_foreign_origin

PATH: Final = "/mcp"
BODY_BYTES_MAX: Final = 1 << 20
BODY_S_MAX: Final = 30.0
DEPTH_MAX: Final = 64
REQUESTS_MAX: Final = 64
"""At the same time."""

_HEADERS: Final = {"gateway_full": {"Retry-After": "1"}, "method_not_allowed": {"Allow": "POST"}}
_LATE = ("body_too_slow", f"the body was not there within {BODY_S_MAX:g} s")


class LoopbackGuard:
    """ASGI middleware: refuses what names another host, another path or another origin."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._places = REQUESTS_MAX

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            code, message = refusal
            await _refusal_response(code, message)(scope, receive, send)
            return
        self._places -= 1
        try:
            await self._pass_on(scope, receive, send)
        finally:
            self._places += 1

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on whose body is all there and can be read."""
        body = b""
        with anyio.move_on_after(BODY_S_MAX) as waited:
            body = await _body_of(receive)
        refusal = _LATE if waited.cancelled_caught else _unreadable(body)
        if refusal is not None:
            await _refusal_response(*refusal)(scope, receive, send)
            return
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, again, send)

    def _refusal(self, scope: Scope) -> tuple[str, str] | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        host = host_name(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        if host is None:
            return "host_invalid", "a request names one host: a name, and a port"
        if host not in LOOPBACK_NAMES:
            return "host_unknown", "this server answers to names of the loopback"
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in reversed(scope["headers"])
        }
        if is_foreign_origin(scope["method"], headers):
            return "origin_refused", "requests of other origins are refused"
        if scope["path"] != PATH:
            return "not_found", f"the server is at {PATH}"
        if scope["method"] != "POST":
            # A GET would be a stream of what the server says unasked, which is nothing, for ever.
            return "method_not_allowed", "a message is posted; this server says nothing unasked"
        if not self._places:
            return "gateway_full", f"{REQUESTS_MAX} requests are in flight"
        return None


def _refusal_response(code: str, message: str) -> JSONResponse:
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, status_of(code), _HEADERS.get(code))


async def _body_of(receive: Receive) -> bytes:
    """Read a body, of one that is too long only its beginning."""
    body, has_more = bytearray(), True
    while has_more and len(body) <= BODY_BYTES_MAX:
        message = await receive()
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
    return bytes(body)


def _unreadable(body: bytes) -> tuple[str, str] | None:
    if len(body) > BODY_BYTES_MAX:
        return "request_too_large", f"a body has at most {BODY_BYTES_MAX} bytes"
    if not _is_json(body):
        return "INVALID_REQUEST", f"a body is JSON in UTF-8, at most {DEPTH_MAX} deep"
    return None


def _is_json(body: bytes) -> bool:
    """Tell whether a body is JSON that what comes behind can read without running out of stack."""
    try:
        level = [orjson.loads(body)]
    except orjson.JSONDecodeError:
        return False
    for _ in range(DEPTH_MAX):
        if not level:
            return True
        level = [
            member
            for value in level
            if isinstance(value, dict | list)
            for member in (value.values() if isinstance(value, dict) else value)
        ]
    return False


@asynccontextmanager
async def http_app(server: Server[Any, Any]) -> AsyncIterator[ASGIApp]:
    """Hold an application that serves while the block runs."""
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        max_request_body_size=BODY_BYTES_MAX,
    )
    async with manager.run():
        yield LoopbackGuard(manager.handle_request)
