"""What a call over a connection that is open already does beside sending and reading."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import httpx
import pytest

from tests.ports import free_port
from workers.client.http_transport import HttpTransport

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Searches:
    """Stands before Python's finders of modules and notes which are looked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, *_: object) -> None:
        self.names.append(name)


@contextmanager
def searches() -> Iterator[Searches]:
    finder = Searches()
    sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
    try:
        yield finder
    finally:
        sys.meta_path.remove(finder)


async def answering(stream: anyio.abc.SocketStream) -> None:
    async with stream:
        async for _ in stream:
            await stream.send(ANSWER)


async def test_a_call_searches_for_no_module_that_is_not_installed():
    port = free_port()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answering)
        async with httpx.AsyncClient(transport=HttpTransport()) as client:
            await client.get(f"http://127.0.0.1:{port}/first")
            with searches() as searched:
                await client.get(f"http://127.0.0.1:{port}/second")
        tasks.cancel_scope.cancel()
    assert not searched.names
