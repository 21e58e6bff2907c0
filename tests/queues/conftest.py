"""The behaviour of queues is tested twice: on a server in memory and on the embedded one."""

from collections.abc import AsyncIterator, Iterator

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from queues.embedded import EmbeddedRedis, find_server
from queues.queue import WorkQueue


class VirtualClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms


@pytest.fixture(scope="session")
def embedded_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = EmbeddedRedis(tmp_path_factory.mktemp("embedded"), find_server())
    server.start()
    yield server.url
    server.stop()


@pytest.fixture(params=["fakeredis", "valkey"])
def redis_kind(request: pytest.FixtureRequest) -> str:
    if request.param == "valkey":
        request.getfixturevalue("embedded_url")
    return request.param


@pytest.fixture
async def redis(
    redis_kind: str, request: pytest.FixtureRequest, anyio_backend: str
) -> AsyncIterator[Redis]:
    if redis_kind == "fakeredis":
        client: Redis = FakeAsyncRedis()
    else:
        client = Redis.from_url(request.getfixturevalue("embedded_url"))
        await client.flushdb()
    yield client
    await client.aclose()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(redis: Redis, clock: VirtualClock) -> WorkQueue:
    return WorkQueue(redis, "authority-recompute", clock)
