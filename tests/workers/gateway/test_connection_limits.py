"""A client that keeps a connection waiting is cut off, and one connection too many is told so."""

import gc
import json
import resource
import socket
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import uvicorn

from tests import loopback
from workers.environment.listening import listen
from workers.gateway import connection_limits as connections
from workers.gateway.connection_limits import (
    FULL,
    SLOW_S_MAX,
    SlowClients,
    connections_max,
    limit_connections,
)
from workers.gateway.server import GatewayServer, server_config

pytestmark = pytest.mark.anyio

LARGE = 64 << 20
"""More than the buffers of a connection hold."""


@dataclass
class Cycle:
    response_complete: bool = False


@dataclass(eq=False)
class FakeConnection:
    """What is looked at of a connection of the server, and whether it was cut off."""

    cycle: Cycle | None = None
    unsent: int = 0
    times_taken: int = 0
    aborted: bool = False
    transport: Any = field(init=False)

    def __post_init__(self) -> None:
        self.transport = self

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def cut_off(self) -> None:
        self.aborted = True


class Looked:
    def __init__(self, *held: FakeConnection) -> None:
        self.held = set(held)
        self.now_s = 1000.0
        self._slow = SlowClients(lambda: self.held)
        self._slow.look(self.now_s)

    def after(self, seconds: float) -> None:
        self.now_s += seconds
        self._slow.look(self.now_s)


@pytest.mark.parametrize(
    ("connection", "cut_off"),
    [
        (FakeConnection(), True),
        (FakeConnection(Cycle(response_complete=True)), True),
        (FakeConnection(Cycle(), unsent=1), True),
        (FakeConnection(Cycle(response_complete=True), unsent=1), True),
        (FakeConnection(Cycle()), False),
    ],
)
def test_who_keeps_a_connection_waiting_is_cut_off_and_who_waits_is_not(connection, cut_off):
    looked = Looked(connection)
    looked.after(SLOW_S_MAX - 0.1)
    assert not connection.aborted
    looked.after(0.1)
    assert connection.aborted is cut_off


def test_a_request_that_begins_or_an_answer_that_is_taken_begins_the_time_anew():
    connection = FakeConnection()
    looked = Looked(connection)
    for _ in range(5):
        looked.after(SLOW_S_MAX - 1)
        connection.cycle = Cycle(response_complete=True)
        looked.after(SLOW_S_MAX - 1)
        connection.cycle.response_complete, connection.unsent = False, 7
        looked.after(SLOW_S_MAX - 1)
        connection.unsent = 0
    assert not connection.aborted


def test_who_takes_a_long_answer_slowly_is_not_cut_off():
    connection = FakeConnection(Cycle(), unsent=1)
    looked = Looked(connection)
    for _ in range(5):
        looked.after(SLOW_S_MAX - 1)
        connection.times_taken += 1
    assert not connection.aborted
    looked.after(SLOW_S_MAX)
    looked.after(SLOW_S_MAX)
    assert connection.aborted


def test_what_has_gone_is_forgotten():
    looked = Looked(FakeConnection(), FakeConnection())
    gone = [weakref.ref(connection) for connection in looked.held]
    looked.held.clear()
    looked.after(1)
    gc.collect()
    assert [connection() for connection in gone] == [None, None]


@asynccontextmanager
async def serving_with(
    monkeypatch: Any, limit: int = 100
) -> AsyncIterator[tuple[uvicorn.Server, tuple[str, int]]]:
    """A server as the gateway's, whose answers are small, or `LARGE` at `/large`."""

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        body = bytes(LARGE if scope["path"] == "/large" else 2)
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    monkeypatch.setattr("workers.gateway.server.connections_max", lambda: limit)
    server = GatewayServer(server_config(app), anyio.lowlevel.checkpoint)  # type: ignore[arg-type]
    with listen("127.0.0.1", 0) as listening:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            tasks.start_soon(server.slow.run)
            while not server.started:
                await anyio.sleep(0.01)
            yield server, listening.getsockname()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def serving(monkeypatch: Any, limit: int = 100) -> AsyncIterator[tuple[str, int]]:
    async with serving_with(monkeypatch, limit) as (_, address):
        yield address


async def ended(client: socket.socket, within_s: float = 20) -> None:
    """Wait until the server has closed a connection."""
    client.setblocking(False)
    with anyio.fail_after(within_s):
        while True:
            await anyio.wait_readable(client)
            try:
                if not client.recv(1 << 16):
                    return
            except ConnectionResetError:
                return


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Never-",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{",
    ],
)
async def test_a_request_that_never_begins_ends_its_connection(monkeypatch, said):
    """Also the one that follows, and what is left of a body that nobody has read."""
    monkeypatch.setattr(connections, "SLOW_S_MAX", 0.3)
    monkeypatch.setattr(connections, "LOOK_EVERY_S", 0.05)
    async with serving(monkeypatch) as address:
        with socket.create_connection(address) as client:
            client.sendall(said)
            await ended(client)


async def test_an_answer_that_nobody_takes_ends_its_connection(monkeypatch):
    monkeypatch.setattr(connections, "SLOW_S_MAX", 0.3)
    monkeypatch.setattr(connections, "LOOK_EVERY_S", 0.05)
    async with serving_with(monkeypatch) as (server, address):
        with socket.create_connection(address) as client:
            client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            with anyio.fail_after(50):
                while not server.server_state.connections:
                    await anyio.sleep(0.01)
                while server.server_state.connections:
                    await anyio.sleep(0.01)
            await ended(client)
        # A client that takes its answer may need longer than that on a busy machine.
        monkeypatch.setattr(connections, "SLOW_S_MAX", 1000)
        async with loopback.client(base_url=f"http://{address[0]}:{address[1]}") as http:
            assert len((await http.get("/large")).content) == LARGE


async def test_a_connection_too_many_is_told_and_those_that_are_there_go_on(monkeypatch):
    async with serving(monkeypatch, limit=2) as address:
        url = f"http://{address[0]}:{address[1]}"
        async with loopback.client(base_url=url) as http:
            assert (await http.get("/")).status_code == 200
            with socket.create_connection(address):
                await anyio.sleep(0.1)
                async with loopback.client(base_url=url) as other:
                    refused = await other.get("/")
                assert refused.status_code == 503
                assert int(refused.headers["retry-after"]) >= 1
                assert refused.json()["error"]["code"] == "gateway_full"
                assert (await http.get("/")).status_code == 200
            with anyio.fail_after(20):
                async with loopback.client(base_url=url) as other:
                    while (await other.get("/")).status_code != 200:
                        await anyio.sleep(0.05)


def test_a_refusal_of_a_connection_is_a_whole_answer():
    head, _, body = FULL.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    assert json.loads(body)["error"]["code"] == "gateway_full"


@pytest.mark.parametrize(
    ("soft", "hard", "files", "most"),
    [
        (1024, 1 << 20, 8448, 8192),
        (1024, 4096, 4096, 3840),
        (1 << 20, 1 << 20, None, 8192),
        (256, resource.RLIM_INFINITY, 8448, 8192),
        (100, 100, None, 1),
    ],
)
def test_a_gateway_allows_itself_the_files_that_it_may_have(monkeypatch, soft, hard, files, most):
    limits: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.append(both))
    assert connections_max() == most
    assert limits == ([] if files is None else [(files, hard)])


def test_below_the_limit_the_servers_own_protocol_is_made():
    make = limit_connections(lambda **options: options, 3)  # type: ignore[arg-type, return-value]
    state = SimpleNamespace(connections=[1, 2])
    assert make(server_state=state, config=1) == {"server_state": state, "config": 1}


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_who_takes_no_answer_to_several_requests_leaves_no_error(anyio_backend):
    failures: list[BaseException] = []
    began = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal began
        began += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(LARGE >> 16):
                body = {"type": "http.response.body", "body": b"x" * (1 << 16), "more_body": True}
                await send(body)
            await send({"type": "http.response.body", "body": b""})
        except BaseException as error:
            failures.append(error)
            raise

    async def nothing() -> None:
        return

    server = GatewayServer(server_config(app), nothing)
    with listen("127.0.0.1", 0, "port") as listening, socket.socket() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            client.connect(listening.getsockname())
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
            while not began or not any(
                connection.transport.get_write_buffer_size()
                for connection in server.server_state.connections
            ):
                await anyio.sleep(0.01)
            for connection in tuple(server.server_state.connections):
                connection.cut_off()
            while server.server_state.connections or server.server_state.tasks:
                await anyio.sleep(0.01)
            server.should_exit = True
    assert (began, failures) == (1, [])
