"""A line to PostgreSQL that counts the times that a client waits for the server."""

import selectors
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

_SOCKET = ".s.PGSQL.5432"
_READ_BYTES = 1 << 16
_END_OF_SNAPSHOT = b"Q\x00\x00\x00\x0dROLLBACK\x00"
"""Nobody waits for the reply."""


@contextmanager
def counted_trips(url: str) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield a URL that leads to a server's socket, and how many trips were made on it so far."""
    parts = urlsplit(url)
    [folder] = parse_qs(parts.query)["host"]
    counts: list[int] = []
    with tempfile.TemporaryDirectory(prefix="trips-") as own, socket.socket(socket.AF_UNIX) as door:
        door.bind(str(Path(own) / _SOCKET))
        door.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = door.accept()
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(str(Path(folder) / _SOCKET))
                    threading.Thread(target=_carry, args=(client, server, counts)).start()

        threading.Thread(target=accept).start()
        query = f"host={quote(own, safe='')}"
        try:
            yield urlunsplit(parts._replace(query=query)), lambda: len(counts)
        finally:
            door.shutdown(socket.SHUT_RDWR)


def _carry(client: socket.socket, server: socket.socket, counts: list[int]) -> None:
    """Carry bytes both ways until one side closes, and count each turn towards the server."""
    with client, server, selectors.DefaultSelector() as selector, suppress(OSError):
        selector.register(client, selectors.EVENT_READ, server)
        selector.register(server, selectors.EVENT_READ, client)
        is_asking = False
        while True:
            for key, _ in selector.select():
                data = key.fileobj.recv(_READ_BYTES)  # type: ignore[union-attr]
                if not data:
                    return
                if data != _END_OF_SNAPSHOT:
                    if key.fileobj is client and not is_asking:
                        counts.append(1)
                    is_asking = key.fileobj is client
                key.data.sendall(data)
