"""What a client may do with a connection besides asking: how many there are, how slow it may be.

The server bounds by itself only how long a connection is kept for another request. Looked at from
time to time: one whose next request does not begin, because its headers never end, and one whose
client does not take its answer; both are cut off. A body that does not end is the guard's.
"""

import asyncio
import resource
from collections.abc import Callable
from typing import Any, cast

import anyio
import orjson

from workers.api.errors import RETRY_AFTER_S, error_body

CONNECTIONS_MAX = 8192
FILES_KEPT = 256
"""File descriptors for everything that is no client: ledger, Redis, effects outside."""

SLOW_S_MAX = 30.0
"""From when a request might begin until its headers are there; for taking an answer as well."""

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
"""Said to a connection that is too many, whatever it asks."""

Make = Callable[..., asyncio.Protocol]


def connections_max() -> int:
    """Allow this process the files that it may have, and return how many may be connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + FILES_KEPT
    if resource.RLIM_INFINITY not in (soft, hard):
        wanted = min(wanted, max(soft, hard))
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, wanted - FILES_KEPT)


def bounded(make: Make, limit: int) -> Make:
    """Return what makes the protocol of each connection, and of one too many one that refuses."""

    def made(*, server_state: Any, **given: Any) -> asyncio.Protocol:
        if len(server_state.connections) >= limit:
            return _Refusing()
        return make(server_state=server_state, **given)

    return made


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
        """For what each connection waits on its client, and since when."""

    async def run(self) -> None:
        """Look at every connection until cancelled."""
        while True:
            self.look(anyio.current_time())
            await anyio.sleep(LOOK_EVERY_S)

    def look(self, now_s: float) -> None:
        """Cut off those that have waited for the same for too long."""
        since, self._since = self._since, {}
        for one in tuple(self._connections()):
            waits_for = _waits_for(one)
            if waits_for is None:
                continue
            before, since_s = since.get(one, (None, now_s))
            if before != waits_for:
                since_s = now_s
            if now_s - since_s >= SLOW_S_MAX:
                one.transport.abort()
            else:
                self._since[one] = (waits_for, since_s)


def _waits_for(connection: Any) -> object:
    """Return what of its client a connection waits for, by the last request; None where it works.

    `cycle` is the last request that began on it, whichever parser the server uses.
    """
    cycle = connection.cycle
    if connection.transport.get_write_buffer_size():
        return ("take", cycle)
    if cycle is None or cycle.response_complete:
        return ("ask", cycle)
    return None
