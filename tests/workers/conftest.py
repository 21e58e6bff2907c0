"""A gateway in the test's process, in memory or on a file, and a Redis server for who needs one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest
from redis import Redis

from kernel.landscape.recorder import Recorder
from kernel.ledger.sqlite.store import SqliteStore
from queues.embedded.server import EmbeddedRedis, find_server
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import whole_run
from tests.workers.api.door import Door, running_door
from tests.workers.api.kept import KeptDoor, kept_door
from tests.workers.chromium import running_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Run = dict[str, Any]


@pytest.fixture
async def door(anyio_backend: str) -> AsyncIterator[Door]:
    async with running_door(host=FakeHost().host) as door:
        yield door


@pytest.fixture(scope="module")
def kept() -> Iterator[KeptDoor]:
    """A gateway for all tests of a module."""
    with kept_door() as kept:
        yield kept


@pytest.fixture
async def run(door: Door) -> Run:
    """The records of a run that has ended."""

    def record() -> Run:
        recorder = Recorder(door.ledger)
        recorded: Run = whole_run(recorder)
        recorder.complete_run("run-1")
        return recorded

    return await anyio.to_thread.run_sync(record)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """The system's Chromium."""
    with running_browser() as browser:
        yield browser


@pytest.fixture
async def door_on_file(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Door]:
    """For what a database may answer otherwise than memory does."""
    store = SqliteStore(tmp_path / "ledger.db")
    async with running_door(store, host=FakeHost().host) as door:
        yield door
    store.close()


@pytest.fixture
def valkey_url(valkey_server: str) -> str:
    """A server with nothing in it: what another test's gateway has left is somebody else's."""
    with Redis.from_url(valkey_server) as redis:
        redis.flushall()
    return valkey_server


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = EmbeddedRedis(tmp_path_factory.mktemp("valkey"), find_server())
    server.start()
    yield server.url
    server.stop()
