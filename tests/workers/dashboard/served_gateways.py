"""Serves whole gateways on ports of the loopback: one in peace, one with trouble of every kind.

Each is what its process puts together (`build_gateway`), on an SQLite file and a Redis in memory,
and runs on the loop of a thread of its own, so that a browser and SQL can look at it.
"""

import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import anyio
import anyio.to_thread
import httpx
import orjson
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fakeredis import FakeAsyncRedis, FakeServer
from pydantic import SecretStr

from kernel.ledger.ledger import Ledger
from tests.loopback import NO_TLS
from tests.workers.api.door import TOKEN, Door, eventually, http_client
from workers.environment.checkpoint_key import create_key
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import ledger_place, open_or_create_ledger
from workers.environment.ledger_clock import LedgerClock
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.gateway.server import GatewayServer, server_config
from workers.gateway.wiring import build_gateway

NAME = "gateway-1"
AWAY = "Redis does not answer, so nothing that waits is begun"
SHARDS = 4


@dataclass
class ServedGateway:
    """A gateway that answers, and the ways to what is behind it."""

    url: str
    door: Door
    redis: FakeAsyncRedis
    redis_server: FakeServer
    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    """What there is, by what it is to whoever asks for its page."""

    portal: BlockingPortal | None = None

    @property
    def ledger(self) -> Ledger:
        return self.door.ledger

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read from the file of the ledger, beside every way of the product."""
        with closing(sqlite3.connect(f"file:{self.folder}/ledger.db?mode=ro", uri=True)) as file:
            return file.execute(statement, values).fetchall()

    def call(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Run something on the loop of the gateway."""
        assert self.portal is not None
        return self.portal.call(function, *arguments)


Furnish = Callable[[ServedGateway], Awaitable[Any]]
Prepare = Callable[[FakeAsyncRedis], Awaitable[Any]]


@contextmanager
def served_gateway(
    folder: Path,
    furnish: Furnish,
    prepare: Prepare | None = None,
    access: Literal["open", "keys"] | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    **facts: Any,
) -> Iterator[ServedGateway]:
    """Serve for the time of a block; `facts` are what a process tree says of its processes.

    What `prepare` writes to Redis is there before the gateway, so it may be older.
    """
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            _served(folder, furnish, prepare, dict(settings) | {"access": access}, facts)
        ) as served,
    ):
        served.portal = portal
        yield served


def client_of(served: ServedGateway) -> httpx.Client:
    """Return a client that asks a gateway over its socket."""
    return httpx.Client(base_url=served.url, verify=NO_TLS, trust_env=False, timeout=30)


@contextmanager
def without_redis(served: ServedGateway) -> Iterator[None]:
    """Have Redis refuse every connection for a block, from when the overview says so."""
    served.redis_server.connected = False
    try:
        with client_of(served) as http:
            while AWAY not in http.get("/").text:
                time.sleep(0.05)
        yield
    finally:
        served.redis_server.connected = True


@asynccontextmanager
async def _served(
    folder: Path,
    furnish: Furnish,
    prepare: Prepare | None,
    stated: Mapping[str, Any],
    facts: dict[str, Any],
) -> AsyncIterator[ServedGateway]:
    key = folder / "log.key"
    create_key(key, "example.com/log")
    data = DataFolder(folder / "data")
    settings = Settings(
        data_dir=data.path,
        shards=SHARDS,
        shard_lease_s=60,
        worker_token=SecretStr(TOKEN),
        checkpoint_key=key,
        checkpoint_folder=folder / "public",
        **stated,
    )
    data.make()
    data.runtime_path.write_bytes(orjson.dumps(facts))
    data.runtime_path.chmod(0o600)
    clock, redis_server = LedgerClock(), FakeServer()
    redis = FakeAsyncRedis(server=redis_server)
    if prepare is not None:
        await prepare(redis)
    ledger = await anyio.to_thread.run_sync(
        open_or_create_ledger, ledger_place(settings), system_host(clock.now_us)
    )
    gateway = build_gateway(settings, ledger, redis, NAME, clock)
    server = GatewayServer(server_config(gateway.app), gateway.leave, *gateway.stops)
    listener = socket.create_server(("127.0.0.1", stated.get("port", 0)))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    await gateway.sharing.begin()
    async with anyio.create_task_group() as tasks, http_client(gateway.app) as http:
        tasks.start_soon(gateway.run, server.serve([listener]))
        door = Door(gateway.services, gateway.app, _no_committer(), http)
        await eventually(lambda: _is_ready(http))
        served = ServedGateway(url, door, redis, redis_server, data.path)
        await furnish(served)
        yield served
        server.handle_exit(0, None)
    await gateway.aclose()


async def _is_ready(http: httpx.AsyncClient) -> bool:
    return (await http.get("/readyz")).is_success


def _no_committer() -> Any:
    """Return nothing: a whole gateway keeps its committer to itself."""
    return None
