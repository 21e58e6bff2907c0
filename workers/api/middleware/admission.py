"""Limits how many requests a gateway has in flight; refuses others before reading them.

A request has a place from its headers until its answer. When no place is left, or no room for its
body beside the others, it is answered at once, 503 `gateway_full`. Each kind of caller has places
of its own, told by the path: workers' reports get through however many producers ask, because they
end work that was taken and make room. Health, metrics and files have no limit; the dashboard's
stream has its own. Streams of operations have places of their own too, because each is there for
long. A request that waits for an outcome gives its place back meanwhile, because
those waits are bounded elsewhere (decision workers/0055).

Requests with a place begin a few at a time, because reading and checking a request holds the event
loop, and health, reports and refusals have to come in between (decision workers/0056).
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from starlette.types import ASGIApp, Receive, Scope, Send

from workers.api.body_limits import limits_of
from workers.api.errors import respond

WORKERS_MAX = 256
"""Places of workers: as many as may wait for a commit with something urgent."""

PAGES_MAX = 64
STREAMS_MAX = 32
"""Streams of operations; what they hold of their bodies is as much as all bodies may have."""

BODIES_BYTES_MAX = 128 << 20
"""Bytes of the bodies of all requests of one kind of caller; sixteen of the greatest."""

BEGUN_AT_ONCE_MAX = 64
"""Requests of one kind of caller in one turn of the event loop: 13 ms, with ten intents each.

With fewer, what comes together is spread over more commits, which costs more than it is worth.
"""

_ASKERS: Mapping[str, str | None] = MappingProxyType(
    {
        "/healthz": None,
        "/readyz": None,
        "/metrics": None,
        "/events": None,
        "/": "pages",
        "/snapshot.json": "pages",
    }
)
_ASKERS_BELOW: Mapping[str, str | None] = MappingProxyType(
    {
        "/internal/": "workers",
        "/static/": None,
        **dict.fromkeys(
            (
                "/queues/",
                "/requests",
                "/sessions",
                "/operations",
                "/workers/",
                "/docs",
                "/runs",
                "/explain",
            ),
            "pages",
        ),
    }
)


def asker_of(path: str) -> str | None:
    """Return the kind of caller that a path belongs to; None where there is no limit."""
    if path in _ASKERS:
        return _ASKERS[path]
    for prefix, asker in _ASKERS_BELOW.items():
        if path.startswith(prefix):
            return asker
    return "streams" if path.endswith("/operations:bulk") else "producers"


class ConcurrencyLimit:
    """The places of one kind of caller, and whose turn it is to begin."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.body_bytes = 0
        """Bytes of the bodies of the requests that have a place."""

        self.refused = 0
        """How often no place was left."""

        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self, body_bytes: int) -> bool:
        """Take a place for a request with a body of this size; False when none is left."""
        if self.taken >= self.limit or self.body_bytes + body_bytes > BODIES_BYTES_MAX:
            self.refused += 1
            return False
        self.taken += 1
        self.body_bytes += body_bytes
        return True

    def come_back(self, body_bytes: int) -> None:
        """Take a place whether there is one or not."""
        self.taken += 1
        self.body_bytes += body_bytes

    def leave(self, body_bytes: int) -> None:
        """Give a place back."""
        self.taken -= 1
        self.body_bytes -= body_bytes

    async def turn(self) -> None:
        """Return when it is the caller's turn; at once when few have come together."""
        if self._waiting or self._begun >= BEGUN_AT_ONCE_MAX:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
            return
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next)
        self._begun += 1

    def _next(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < BEGUN_AT_ONCE_MAX:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next)


class Admission:
    """All places of a gateway, by kind of caller."""

    def __init__(self, requests_max: int) -> None:
        self.places: Mapping[str, ConcurrencyLimit] = MappingProxyType(
            {
                "producers": ConcurrencyLimit(requests_max),
                "workers": ConcurrencyLimit(WORKERS_MAX),
                "pages": ConcurrencyLimit(PAGES_MAX),
                "streams": ConcurrencyLimit(STREAMS_MAX),
            }
        )


_held: ContextVar[tuple[ConcurrencyLimit, int] | None] = ContextVar("_held", default=None)
"""The places of which the request has one, and the bytes of its body."""


@contextmanager
def place_given_back() -> Iterator[None]:
    """Give the place back while the block runs, and take it again without being refused."""
    places_held = _held.get()
    if places_held is None:
        yield
        return
    places, body_bytes = places_held
    places.leave(body_bytes)
    try:
        yield
    finally:
        places.come_back(body_bytes)


class AdmissionMiddleware:
    """ASGI middleware: gives each request a place, or refuses it unread."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        self._app = app
        self._places = admission.places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        asker = asker_of(scope["path"]) if scope["type"] == "http" else None
        if asker is None:
            await self._app(scope, receive, send)
            return
        places, body_bytes = self._places[asker], _body_bytes(scope["path"], scope["headers"])
        if not places.take(body_bytes):
            refusal = respond("gateway_full", "the gateway has as much in hand as it takes")
            await refusal(scope, receive, send)
            return
        reset_token = _held.set((places, body_bytes))
        try:
            await places.turn()
            await self._app(scope, receive, send)
        finally:
            _held.reset(reset_token)
            places.leave(body_bytes)


def _body_bytes(path: str, headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return how much of a body, whose length the guard has looked at, is in memory at most."""
    for name, value in headers:
        if name == b"content-length":
            return min(int(value), limits_of(path).held_bytes)
        if name == b"transfer-encoding":
            return limits_of(path).held_bytes
    return 0
