"""What every request passes before a route: names, origins, sizes and times (dashboard.md).

A page of another origin must not reach a gateway on loopback through its reader's browser: the
host must be one of ours, and a request that changes something must come from our own pages, or
from no page at all.
"""

from functools import lru_cache
from urllib.parse import urlsplit

import anyio
import structlog
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernel.host import Host
from workers.api.errors import error_body, respond

MAX_BODY_BYTES = 8 << 20
BODY_S_MAX = 30.0
_LENGTH_DIGITS_MAX = 20
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})

_log = structlog.get_logger(__name__)


class Guard:
    """ASGI middleware: refuses early, gives every answer an id, and answers where we failed."""

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
        request_id = headers.get("x-request-id", "")[:64] or self._host.new_id()
        answered = False

        async def tagged(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode("latin-1", "replace")),
                ]
            await send(message)

        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            status, code, message = refusal
            await JSONResponse(error_body(code, message), status)(scope, receive, tagged)
            return
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, _limited(receive), tagged)
            except Exception:
                _log.exception("request_failed")
                if answered:
                    raise
                answer = respond("internal", "the gateway failed; the log says why")
                await answer(scope, receive, tagged)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        if not self._any_host and _hostname(host) not in _LOOPBACK_NAMES:
            return 421, "host_unknown", "this gateway answers to loopback names only"
        length = headers.get("content-length", "0")
        digits = length.isdecimal() and len(length) <= _LENGTH_DIGITS_MAX
        if not digits or int(length) > MAX_BODY_BYTES:
            return 413, "request_too_large", f"at most {MAX_BODY_BYTES} bytes"
        if method in _SAFE_METHODS:
            return None
        origin = headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2] != host
        if foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "origin_refused", "requests of other origins are refused"
        return None


@lru_cache(maxsize=64)
def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _limited(receive: Receive) -> Receive:
    """A body without a length is refused where it passes the limit, a slow one when its time ends.

    The time begins when somebody begins to read, so nobody pays for what a busy gateway takes.
    """
    taken, until_s, more = 0, 0.0, True

    async def counted() -> Message:
        nonlocal taken, until_s, more
        if not more:
            # What comes now is about the connection, and is waited for as long as it takes.
            return await receive()
        until_s = until_s or anyio.current_time() + BODY_S_MAX
        message: Message | None = None
        with anyio.CancelScope(deadline=until_s):
            message = await receive()
        if message is None:
            # Closed, or the rest of the body would keep it open.
            raise HTTPException(408, headers={"Connection": "close"})
        more = message.get("more_body", False)
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            raise HTTPException(413)
        return message

    return counted
