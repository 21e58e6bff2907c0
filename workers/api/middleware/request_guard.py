"""Passes every request before a route: names, origins, sizes and times.

A page of another origin must not reach a gateway on loopback through its reader's browser, and any
page can let a name of its own point at our address. So a request names one well-formed host
(`host_invalid`) that is a name of the loopback or in `ROTULUS_ALLOWED_HOSTS` (`host_unknown`); a
gateway on another address does not start without that list. A request must come from our own pages
or from no page at all (`origin_refused`), reading and streams included. A link from elsewhere may
be followed if it opens a whole page.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

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
"""Paths that a gateway answers whose ledger went back; so are those about the ledger, and files."""

_ANSWERED_HALTED_BELOW = ("/v1/ledger/", "/static/")
_LENGTH_DIGITS_MAX = 20
_CHARSETS = frozenset({"utf-8", "utf8"})

_log = structlog.get_logger(__name__)


ReaderSend = Callable[[Scope, Receive, Send], Send]
"""Returns what an answer is sent by to a client that accepts pages."""


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
        reader_send: ReaderSend = lambda _, __, send: send,
    ) -> None:
        """Answer to the names in `hosts` and to those of the loopback.

        While `went_back` returns something, that is all that is answered, but where it is looked at
        and ended. A client that accepts pages is answered by `reader_send`.
        """
        self._app = app
        self._went_back = went_back
        self._reader_send = reader_send
        self._hosts = hosts | LOOPBACK_NAMES
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A request is asked for nine headers, and `Headers` would look through all for each.
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in reversed(scope["headers"])
        }
        is_reader = "text/html" in headers.get("accept", "")
        send = self._reader_send(scope, receive, send) if is_reader else send
        request_id = headers.get("x-request-id", "")[:64] or self._host.new_id()
        answered = False

        async def send_tagged(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode("latin-1", "replace")),
                ]
            await send(message)

        limits = limits_of(scope["path"])
        refusal = self._refusal(scope, headers, limits.body_bytes)
        if refusal is not None:
            answer = respond(refusal.code, refusal.message)
            await answer(scope, receive, send_tagged)
            return
        bound = structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(
                scope, _limit_receive(receive, limits.body_bytes, limits.stream_s), send_tagged
            )
        except ClientDisconnect:
            # Nobody is left to be answered, and a client that goes is no failure.
            return
        except asyncio.CancelledError:
            # The server stops and waits no longer; what is left is cancelled, each once.
            if answered:
                raise
            answer = respond("reply_lost", "the gateway stops; ask again")
            await answer(scope, receive, send_tagged)
        except Exception:
            _log.exception("request_failed")
            if answered:
                raise
            answer = respond("internal", "the gateway failed; the log says why")
            await answer(scope, receive, send_tagged)
        finally:
            structlog.contextvars.reset_contextvars(**bound)

    def _refusal(self, scope: Scope, headers: Mapping[str, str], limit: int) -> _Refusal | None:
        length = headers.get("content-length", "0")
        digits = length.isdecimal() and len(length) <= _LENGTH_DIGITS_MAX
        exceeded = None if digits and int(length) <= limit else limit
        hosts = [name for name, _ in scope["headers"]].count(b"host")
        stated = map(headers.get, _JUDGED)
        refusal = _refusal_by(self._hosts, scope["method"], hosts, exceeded, *stated)
        if refusal is not None:
            return refusal
        problem, path = self._went_back(), scope["path"]
        if problem is None or path in ANSWERED_HALTED or path.startswith(_ANSWERED_HALTED_BELOW):
            return None
        return _Refusal(problem.code, str(problem))


_JUDGED = (
    *("host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"),
    *(HEADER.lower(), "content-encoding", "content-type"),
)
"""Headers by which a request is refused, whatever its path."""


@lru_cache(maxsize=64)
def _refusal_by(
    names: frozenset[str], method: str, hosts: int, exceeded: int | None, *stated: str | None
) -> _Refusal | None:
    """Return why a request is refused by what it states in its headers, None where it is not.

    The requests of a client state the same, so that is judged once.
    """
    headers = {
        name: value for name, value in zip(_JUDGED, stated, strict=True) if value is not None
    }
    return next(_refusals(names, method, hosts, exceeded, headers), None)


def _refusals(
    names: frozenset[str],
    method: str,
    hosts: int,
    exceeded: int | None,
    headers: Mapping[str, str],
) -> Iterator[_Refusal]:
    """Yield why a request is refused; `exceeded` is the limit of a body that is longer."""
    name = host_name(headers["host"]) if hosts == 1 else None
    if name is None:
        yield _Refusal("host_invalid", "a request names one host: a name, and a port")
    if name not in names:
        message = "this gateway answers to loopback names and those in ROTULUS_ALLOWED_HOSTS"
        yield _Refusal("host_unknown", message)
    if is_foreign_origin(method, headers):
        yield _Refusal("origin_refused", "requests of other origins are refused")
    protocol = headers.get(HEADER.lower(), str(PROTOCOL))
    if protocol != str(PROTOCOL):
        message = f"this gateway speaks version {PROTOCOL}, and not {protocol[:16]!r}"
        yield _Refusal("protocol_differs", message)
    if exceeded is not None:
        yield _Refusal("request_too_large", f"a body to this path has at most {exceeded} bytes")
    if headers.get("content-encoding", "identity").lower() != "identity":
        message = "a body is sent as it is, without Content-Encoding"
        yield _Refusal("content_encoding_unsupported", message)
    if _charset(headers) not in _CHARSETS:
        yield _Refusal("charset_unsupported", "a body is JSON in UTF-8")


def _charset(headers: Mapping[str, str]) -> str:
    for parameter in headers.get("content-type", "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return "utf-8"


def _limit_receive(receive: Receive, limit: int, stream_s: float | None = None) -> Receive:
    """A body without a length is refused where it passes the limit, a slow one when its time ends.

    The time begins when somebody begins to read, so nobody pays for what a busy gateway takes.
    """
    bytes_read, until_s, has_more = 0, 0.0, True

    async def receive_counted() -> Message:
        nonlocal bytes_read, until_s, has_more
        if not has_more:
            # What comes now is about the connection, and is waited for as long as it takes.
            return await receive()
        now_s = asyncio.get_running_loop().time()
        until_s = until_s or now_s + (stream_s or BODY_S_MAX)
        try:
            async with asyncio.timeout_at(min(until_s, now_s + BODY_S_MAX)):
                message = await receive()
        except TimeoutError:
            # Closed, or the rest of the body would keep it open.
            raise HTTPException(408, headers={"Connection": "close"}) from None
        has_more = message.get("more_body", False)
        bytes_read += len(message.get("body", b""))
        if bytes_read > limit:
            raise HTTPException(413)
        return message

    return receive_counted
