"""Passes every request before a route: names, origins, sizes and times.

A page of another origin must not reach a gateway on loopback through its reader's browser, and any
page can let a name of its own point at our address. So a request names one well-formed host
(`host_invalid`) that is a name of the loopback or in `ROTULUS_ALLOWED_HOSTS` (`host_unknown`); a
gateway on another address does not start without that list. A request must come from our own pages
or from no page at all (`origin_refused`), reading and streams included. A link from elsewhere may
be followed if it opens a whole page.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import anyio
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernel.ledger.head_watch import LedgerWentBack
from kernel.values.fleet_protocol import HEADER, PROTOCOL
from kernel.values.host import Host
from workers.api.body_limits import limits_of
from workers.api.errors import respond
from workers.environment.host_names import LOOPBACK_NAMES, host_name, is_foreign_origin

BODY_S_MAX = 30.0
"""Time for a body, or for each piece of a stream."""

ANSWERED_HALTED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that a gateway answers whose ledger went back, beside those about the ledger."""

_LEDGER_PREFIX = "/v1/ledger/"
_LENGTH_DIGITS_MAX = 20
_CHARSETS = frozenset({"utf-8", "utf8"})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Refusal:
    code: str
    message: str


class RequestGuardMiddleware:
    """ASGI middleware: refuses early, gives every answer an id, and answers where we failed."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        host: Host,
        went_back: Callable[[], LedgerWentBack | None] = lambda: None,
    ) -> None:
        """Answer to the names in `hosts` and to those of the loopback.

        While `went_back` returns something, that is all that is answered, but where it is looked at
        and ended.
        """
        self._app = app
        self._went_back = went_back
        self._hosts = hosts | LOOPBACK_NAMES
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A request is asked for six headers, and `Headers` would look through all for each.
        headers = _first_of_each(scope["headers"])
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

        hosts = sum(name == b"host" for name, _ in scope["headers"])
        refusal = self._refusal(scope["method"], scope["path"], headers, hosts)
        if refusal is not None:
            answer = respond(refusal.code, refusal.message)
            await answer(scope, receive, tagged)
            return
        limits = limits_of(scope["path"])
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(
                    scope, _limited(receive, limits.body_bytes, limits.stream_s), tagged
                )
            except ClientDisconnect:
                # Nobody is left to be answered, and a client that goes is no failure.
                return
            except asyncio.CancelledError:
                # The server stops and waits no longer; what is left is cancelled, each once.
                if answered:
                    raise
                answer = respond("reply_lost", "the gateway stops; ask again")
                await answer(scope, receive, tagged)
            except Exception:
                _log.exception("request_failed")
                if answered:
                    raise
                answer = respond("internal", "the gateway failed; the log says why")
                await answer(scope, receive, tagged)

    def _refusal(
        self, method: str, path: str, headers: Mapping[str, str], hosts: int
    ) -> _Refusal | None:
        return (
            self._foreign_host(headers, hosts)
            or _foreign_origin(method, headers)
            or _other_protocol(headers)
            or _unreadable_body(path, headers)
            or self._halted(path)
        )

    def _halted(self, path: str) -> _Refusal | None:
        problem = self._went_back()
        if problem is None or path in ANSWERED_HALTED or path.startswith(_LEDGER_PREFIX):
            return None
        return _Refusal(problem.code, str(problem))

    def _foreign_host(self, headers: Mapping[str, str], hosts: int) -> _Refusal | None:
        name = host_name(headers["host"]) if hosts == 1 else None
        if name is None:
            return _Refusal("host_invalid", "a request names one host: a name, and a port")
        if name not in self._hosts:
            message = "this gateway answers to loopback names and those in ROTULUS_ALLOWED_HOSTS"
            return _Refusal("host_unknown", message)
        return None


def _first_of_each(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the first value of each header, by its name in lower case."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed([*headers])}


def _foreign_origin(method: str, headers: Mapping[str, str]) -> _Refusal | None:
    if not is_foreign_origin(method, headers):
        return None
    return _Refusal("origin_refused", "requests of other origins are refused")


def _other_protocol(headers: Mapping[str, str]) -> _Refusal | None:
    stated = headers.get(HEADER.lower(), str(PROTOCOL))
    if stated == str(PROTOCOL):
        return None
    return _Refusal(
        "protocol_differs", f"this gateway speaks version {PROTOCOL}, and not {stated[:16]!r}"
    )


def _unreadable_body(path: str, headers: Mapping[str, str]) -> _Refusal | None:
    length = headers.get("content-length", "0")
    digits = length.isdecimal() and len(length) <= _LENGTH_DIGITS_MAX
    limit = limits_of(path).body_bytes
    if not digits or int(length) > limit:
        return _Refusal("request_too_large", f"a body to this path has at most {limit} bytes")
    if headers.get("content-encoding", "identity").lower() != "identity":
        message = "a body is sent as it is, without Content-Encoding"
        return _Refusal("content_encoding_unsupported", message)
    if _charset(headers) not in _CHARSETS:
        return _Refusal("charset_unsupported", "a body is JSON in UTF-8")
    return None


def _charset(headers: Mapping[str, str]) -> str:
    for parameter in headers.get("content-type", "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return "utf-8"


def _limited(receive: Receive, limit: int, stream_s: float | None = None) -> Receive:
    """A body without a length is refused where it passes the limit, a slow one when its time ends.

    The time begins when somebody begins to read, so nobody pays for what a busy gateway takes.
    """
    bytes_read, until_s, has_more = 0, 0.0, True

    async def counted() -> Message:
        nonlocal bytes_read, until_s, has_more
        if not has_more:
            # What comes now is about the connection, and is waited for as long as it takes.
            return await receive()
        now_s = anyio.current_time()
        until_s = until_s or now_s + (stream_s or BODY_S_MAX)
        message: Message | None = None
        with anyio.CancelScope(deadline=min(until_s, now_s + BODY_S_MAX)):
            message = await receive()
        if message is None:
            # Closed, or the rest of the body would keep it open.
            raise HTTPException(408, headers={"Connection": "close"})
        has_more = message.get("more_body", False)
        bytes_read += len(message.get("body", b""))
        if bytes_read > limit:
            raise HTTPException(413)
        return message

    return counted
