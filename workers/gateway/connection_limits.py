"""Limits how many connections a gateway has, and how slow a client may be.

A client has 30 s for each of: the headers of a request, after the connection or the last answer;
its body; taking an answer. The guard answers a slow body (408). Nobody listens for an answer in the
other two cases, so a loop that looks at every connection once a second cuts them off. uvicorn by
itself bounds only how long a connection is kept for another request: 15 s here, longer than our
clients keep theirs, or a connection would be closed while it is used again.

There are 8192 connections at most, fewer if the process may not open as many files (it allows
itself what its hard limit allows, and keeps 256 for everything else). One too many is answered
`gateway_full`, whatever it asks, health included.
"""

import asyncio
import resource
from collections.abc import Callable
from typing import Any, cast

import anyio
import orjson

from workers.api.errors import RETRY_AFTER_S, error_body
from workers.environment.machine_limits import FILES_KEPT

CONNECTIONS_MAX = 8192

SLOW_S_MAX = 30.0
"""Time for the headers of a request, from when it might begin, and for taking an answer."""

LOOK_EVERY_S = 1.0

_FULL = orjson.dumps(error_body("gateway_full", "the gateway has as many connections as it takes"))
FULL = b"\r\n".join(
    (
        b"HTTP/1.1 503 Service Unavailable",
        b"content-type: application/json",
        b"content-length: %d" % len(_FULL),
        b"retry-after: %d" % RETRY_AFTER_S,
        b"connection: close",
        b"",
        _FULL,
    )
)
"""The answer to every request of a connection that is one too many."""

Make = Callable[..., asyncio.Protocol]


def connections_max() -> int:
    """Allow this process the files that it may have, and return how many may be connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files_max = CONNECTIONS_MAX + FILES_KEPT
    if resource.RLIM_INFINITY not in (soft, hard):
        files_max = min(files_max, max(soft, hard))
    if soft != resource.RLIM_INFINITY and soft < files_max:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, hard))
    return max(1, files_max - FILES_KEPT)


def limit_connections(make: Make, limit: int) -> Make:
    """Return a factory of protocols, which refuses every request on a connection too many."""

    def make_limited(*, server_state: Any, **options: Any) -> asyncio.Protocol:
        if len(server_state.connections) >= limit:
            return _Refusing()
        return make(server_state=server_state, **options)

    return make_limited


class _Refusing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)
        stream.write(FULL)
        stream.close()


class SlowClients:
    """Cuts off connections whose clients keep them waiting; run `run` in a task group."""

    def __init__(self, connections: Callable[[], set[Any]]) -> None:
        self._connections = connections
        self._since: dict[Any, tuple[object, float]] = {}
        """What each connection waits for from its client, and since when."""

    async def run(self) -> None:
        """Look at every connection once a second until cancelled."""
        while True:
            self.look(anyio.current_time())
            await anyio.sleep(LOOK_EVERY_S)

    def look(self, now_s: float) -> None:
        """Cut off connections that have waited for the same thing for too long."""
        since, self._since = self._since, {}
        for connection in tuple(self._connections()):
            waits_for = _waits_for(connection)
            if waits_for is None:
                continue
            before, since_s = since.get(connection, (None, now_s))
            if before != waits_for:
                since_s = now_s
            if now_s - since_s >= SLOW_S_MAX:
                connection.cut_off()
            else:
                self._since[connection] = (waits_for, since_s)


def _waits_for(connection: Any) -> object:
    """Return what a connection waits for from its client, by its last request; None if nothing.

    `cycle` is the last request that began on it, whichever parser the server uses, `times_taken`
    how often its client has emptied a full buffer: who takes a long answer slowly does take it.
    """
    cycle = connection.cycle
    if connection.transport.get_write_buffer_size():
        return ("take", cycle, connection.times_taken)
    if cycle is None or cycle.response_complete:
        return ("ask", cycle)
    return None
