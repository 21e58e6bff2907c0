"""Serves `GET /metrics`, and nothing else, for a process that has no other door.

It runs on a thread of its own and serves one client after another, each for two seconds at most: a
client that asks too much or too slowly waits, and takes nothing from the work (decision
workers/0044).
"""

import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

import structlog

from workers.environment.host_names import LOOPBACK_NAMES, host_name
from workers.environment.tls_identity import TlsIdentity
from workers.telemetry.metric_registry import CONTENT_TYPE

ASKER_S = 2.0
POLL_S = 0.1

_log = structlog.get_logger(__name__)


class _Server(WSGIServer):
    def __init__(self, listening: socket.socket, tls: TlsIdentity | None) -> None:
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self._tls = tls
        self._context = None if tls is None else tls.context()
        # Without asking a name server who we are.
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take a connection; over TLS its client shakes hands when it is read."""
        connection, address = super().get_request()
        if self._tls is None or self._context is None:
            return connection, address
        self._tls.read_again()
        connection.settimeout(ASKER_S)
        wrapped = self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        return wrapped, address

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - given
        """Go on after a client that went away or took too long."""
        _log.info("metrics_asker_failed", error=repr(sys.exception()))


class _Handler(WSGIRequestHandler):
    timeout = ASKER_S

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, *_: Any) -> None:
        """Say nothing: who scrapes does it every few seconds."""


@contextmanager
def open_door(
    listening: socket.socket,
    text: Callable[[], bytes],
    *,
    hosts: frozenset[str],
    tls: TlsIdentity | None = None,
) -> Iterator[int]:
    """Serve what `text` returns for the time of a block, whose value is the port.

    `text` is called on another thread. The socket is closed at the end.
    """
    server = _Server(listening, tls)
    server.set_app(_app(text, hosts=hosts))
    thread = threading.Thread(
        target=server.serve_forever, args=(POLL_S,), name="metrics", daemon=True
    )
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def _app(
    text: Callable[[], bytes], *, hosts: frozenset[str]
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    answers_to = hosts | LOOPBACK_NAMES

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if host_name(environ.get("HTTP_HOST", "")) not in answers_to:
            return _refuse(start, "421 Misdirected Request")
        if environ["PATH_INFO"] != "/metrics":
            return _refuse(start, "404 Not Found")
        if environ["REQUEST_METHOD"] != "GET":
            return _refuse(start, "405 Method Not Allowed")
        body = text()
        start("200 OK", [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(body)))])
        return [body]

    return answer


def _refuse(start: StartResponse, status: str) -> Iterable[bytes]:
    start(status, [("Content-Length", "0")])
    return [b""]
