"""The HTTP server of a gateway: signals, an order of stopping, limits for each connection."""

import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from workers.environment.listening import BACKLOG
from workers.gateway.connection_limits import SlowClients, bounded, connections_max
from workers.gateway.http_limits import LimitedProtocol

STOPS = (signal.SIGINT, signal.SIGTERM)
SHUTDOWN_S = 1
KEEP_ALIVE_S = 15
"""Longer than clients keep a connection (httpx 5 s), or one is closed while it is asked again."""


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

    def end(self) -> None:
        """Begin the shutdown without a signal, so that another server takes this one's place."""
        self.is_to_begin_anew = not self.should_exit
        for stop in self._stops:
            stop()
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests in flight, then call `leave`."""
        await super().shutdown(sockets)
        await self._leave()


def server_config(app: ASGIApp) -> uvicorn.Config:
    """Return how an application is served."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        lifespan="off",
    )
    config.load()
    protocol = bounded(config.http_protocol_class, connections_max())
    config.http_protocol_class = protocol  # type: ignore[assignment]  # it is only called
    return config
