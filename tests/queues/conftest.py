"""The behaviour of queues is tested on a server in memory and on every real one."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as ConnectionLost

from queues.embedded.server import find_server
from queues.leases.capacity_leases import CapacityLeases
from queues.queue.work_queue import WorkQueue
from tests.ports import free_port
from tests.queues.servers import REAL_SERVERS, ServerMissingError, running
from tests.system.tree_run import wait_for

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


class VirtualClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Return where a kind of server listens, which runs from its first use to the end."""
    urls: dict[str, str] = {}
    with ExitStack() as servers:

        def url_of(kind: str) -> str:
            if kind not in urls:
                try:
                    urls[kind] = servers.enter_context(running(kind, tmp_path_factory.mktemp(kind)))
                except ServerMissingError as missing:
                    pytest.skip(str(missing))
            return urls[kind]

        yield url_of


@pytest.fixture(params=["fakeredis", *REAL_SERVERS])
def redis_kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def is_real(redis_kind: str) -> bool:
    return redis_kind != "fakeredis"


@pytest.fixture
def new_client(redis_kind: str, server_url: Callable[[str], str]) -> Callable[[], Redis]:
    """Return how to connect to a server of the kind."""
    if redis_kind == "fakeredis":
        return FakeAsyncRedis
    url = server_url(redis_kind)
    return lambda: Redis.from_url(url)


@pytest.fixture
async def redis(new_client: Callable[[], Redis], anyio_backend: str) -> AsyncIterator[Redis]:
    client = new_client()
    await client.flushdb()
    yield client
    await client.aclose()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(redis: Redis, clock: VirtualClock) -> WorkQueue:
    return WorkQueue(redis, "authority-recompute", clock)


@pytest.fixture
def administered_url(tmp_path: Path) -> Iterator[str]:
    """A server that answers, whose user may set its limits and end the waits of others."""
    port = free_port()
    arguments = ["--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    program = str(find_server().path)
    url = f"redis://127.0.0.1:{port}"
    with subprocess.Popen([program, *arguments], cwd=tmp_path, stdout=subprocess.DEVNULL) as server:
        wait_for("the server to answer", lambda: _answers(url), 30.0)
        yield url
        server.kill()


@pytest.fixture
def stepping_server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server's URL, and the file that says how far its clock is off."""
    if not LIBRARIES:
        pytest.skip("no libfaketime here")
    port, offset = free_port(), tmp_path / "offset"
    offset.write_text("+0s\n")
    environment = os.environ | {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    arguments = ["--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    url = f"redis://127.0.0.1:{port}"
    with subprocess.Popen(
        [str(find_server().path), *arguments],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as server:
        wait_for("the server to answer", lambda: _answers(url), 30.0)
        yield url, offset
        server.kill()


def _answers(url: str) -> bool:
    with suppress(ConnectionLost), BlockingRedis.from_url(url) as client:
        return bool(client.ping())
    return False


async def server_time_s(redis: Redis) -> float:
    seconds, microseconds = await redis.time()
    return float(seconds) + microseconds / 1e6


@pytest.fixture
def leases(redis: Redis, clock: VirtualClock) -> CapacityLeases:
    return CapacityLeases(redis, clock)
