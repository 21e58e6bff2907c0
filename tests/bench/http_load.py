"""The leanest client of an HTTP door that there is: prepared bytes over connections kept alive.

Each connection sends its requests one after another, the next when the last one was answered whole.
An answer other than 2xx ends the run. An answer in chunks is whole with its last chunk.
"""

import asyncio
import time
from collections.abc import Sequence

import orjson

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_CHUNKED = b"transfer-encoding: chunked"
_LAST_CHUNK = b"\r\n0\r\n\r\n"


def request(method: str, path: str, body: object = None, **headers: str) -> bytes:
    """Return a request as it goes over the wire."""
    content = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
    named = {"host": "127.0.0.1", "content-type": "application/json", **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    head = "\r\n".join([*lines, f"content-length: {len(content)}"])
    return head.encode() + _END + content


class _Client(asyncio.Protocol):
    def __init__(self, requests: Sequence[bytes], latencies_ms: list[float]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = iter(requests)
        self._latencies_ms = latencies_ms
        self._received = b""
        self._sent_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def send_next(self) -> None:
        content = next(self._requests, None)
        if content is None:
            self._transport.close()
            self.done.set_result(None)
            return
        self._sent_s = time.perf_counter()
        self._transport.write(content)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(_END)
        if head < 0:
            return
        if not self._is_whole(head):
            return
        if not self._received.startswith(b"HTTP/1.1 2"):
            self.done.set_exception(RuntimeError(self._received[:1000].decode()))
            return
        self._latencies_ms.append((time.perf_counter() - self._sent_s) * 1000)
        self._received = b""
        self.send_next()

    def _is_whole(self, head: int) -> bool:
        if self._received.find(_CHUNKED, 0, head) >= 0:
            return self._received.endswith(_LAST_CHUNK)
        place = self._received.find(_LENGTH, 0, head) + len(_LENGTH)
        length = int(self._received[place : self._received.find(b"\r", place)])
        return len(self._received) >= head + len(_END) + length

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server has hung up"))


async def _run(ports: Sequence[int], plans: Sequence[Sequence[bytes]]) -> tuple[float, list[float]]:
    latencies_ms: list[float] = []
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(
            lambda plan=plan: _Client(plan, latencies_ms), "127.0.0.1", port
        )
        for port, plan in zip(ports, plans, strict=True)
    ]
    clients = [client for _, client in made]
    started_s = time.perf_counter()
    for client in clients:
        client.send_next()
    await asyncio.gather(*(client.done for client in clients))
    return time.perf_counter() - started_s, latencies_ms


def drive(port: int, plans: Sequence[Sequence[bytes]]) -> tuple[float, list[float]]:
    """Send each plan over a connection of its own, all at once; seconds and latencies in ms."""
    return drive_all([port] * len(plans), plans)


def drive_all(ports: Sequence[int], plans: Sequence[Sequence[bytes]]) -> tuple[float, list[float]]:
    """Send each plan to a port of its own, as `drive` does."""
    return asyncio.run(_run(ports, plans))
