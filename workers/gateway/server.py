"""Runs the HTTP server of a gateway: signals, an order of stopping, limits for each connection."""

import asyncio
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import anyio
import uvicorn
from starlette.types import ASGIApp

from workers.environment.listening import BACKLOG
from workers.environment.tls_identity import TlsIdentity
from workers.gateway.connection_limits import SlowClients, connections_max, limit_connections
from workers.gateway.http_limits import LimitedProtocol
from workers.gateway.tls_connections import count_handshakes

STOPS = (signal.SIGINT, signal.SIGTERM)
SHUTDOWN_S = 1
KEEP_ALIVE_S = 15
"""Longer than clients keep a connection (httpx 5 s), or one is closed while it is asked again."""


TICKS_A_SECOND = 10
SECONDS_COUNTED = 86_400
"""uvicorn counts tenths of a second, of a day at most."""


def _wake_nobody() -> None:
    """Do nothing before the server serves."""


class GatewayServer(uvicorn.Server):
    """A server that ends its streams and waits when it has to stop, without waiting for clients.

    `leave` releases the shards after the last request. uvicorn alone would raise the stop signal
    again at the end of its own shutdown and so end the process with the ledger open; this server
    takes the signal and does not raise it again.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        leave: Callable[[], Awaitable[None]],
        *stops: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._leave = leave
        self._stops = stops
        self.slow = SlowClients(lambda: self.server_state.connections)
        self.is_to_begin_anew = False
        """Whether it has ended by itself, so that another one is to take its place."""

        self._wake: Callable[[], object] = _wake_nobody

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the stop signals while the block runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in STOPS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown on a signal."""
        self.is_to_begin_anew = False
        for stop in self._stops:
            stop()
        super().handle_exit(sig, frame)
        self._wake()

    def end(self) -> None:
        """Begin the shutdown without a signal, so that another server takes this one's place."""
        self.is_to_begin_anew = not self.should_exit
        for stop in self._stops:
            stop()
        self.should_exit = True
        self._wake()

    async def main_loop(self) -> None:
        """Renew the date of answers every second until the server has to stop.

        uvicorn's own loop looks ten times a second whether it has to.
        """
        ended, second = asyncio.Event(), 0
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set)
        while not await self.on_tick(second * TICKS_A_SECOND):
            second = (second + 1) % SECONDS_COUNTED
            with anyio.move_on_after(1):
                await ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests in flight, then call `leave`."""
        await super().shutdown(sockets)
        await self._leave()


def server_config(
    app: ASGIApp, tls: TlsIdentity | None = None, trusted_proxies: str | None = None
) -> uvicorn.Config:
    """Return how an application is served, over TLS where there is an identity.

    Of those who come through one of the trusted proxies, that says whose the address is.
    """
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=trusted_proxies is not None,
        forwarded_allow_ips=trusted_proxies,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        lifespan="off",
    )
    config.load()
    limit = connections_max()
    protocol = limit_connections(config.http_protocol_class, limit)
    if tls is not None:
        config.ssl = tls.context()
        protocol = count_handshakes(protocol, limit)
    config.http_protocol_class = protocol  # type: ignore[assignment]  # it is only called
    return config
