"""What every request passes before a route: names, origins and sizes (dashboard.md).

A page of another origin must not reach a gateway on loopback through its reader's browser: the
host must be one of ours, and a request that changes something must come from our own pages, or
from no page at all.
"""

from urllib.parse import urlsplit

import structlog
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernel.host import Host
from workers.api.errors import error_body

MAX_BODY_BYTES = 8 << 20
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


class Guard:
    """ASGI middleware: refuses early, and gives every request an id."""

    def __init__(self, app: ASGIApp, *, any_host: bool, host: Host) -> None:
        self._app = app
        self._any_host = any_host
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            status, code, message = refusal
            await JSONResponse(error_body(code, message), status)(scope, receive, send)
            return
        request_id = headers.get("x-request-id", "")[:64] or self._host.new_id()

        async def tagged(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode("latin-1", "replace")),
                ]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(scope, _limited(receive), tagged)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        if not self._any_host and urlsplit(f"//{host}").hostname not in _LOOPBACK_NAMES:
            return 421, "host_unknown", "this gateway answers to loopback names only"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            return 413, "request_too_large", f"at most {MAX_BODY_BYTES} bytes"
        if method in _SAFE_METHODS:
            return None
        origin = headers.get("origin")
        foreign = origin is not None and urlsplit(origin).netloc != host
        if foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "origin_refused", "requests of other origins are refused"
        return None


def _limited(receive: Receive) -> Receive:
    """A body without a length is cut off at the limit, which no JSON survives."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            return {"type": "http.disconnect"}
        return message

    return counted
