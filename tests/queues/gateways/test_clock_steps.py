"""A server whose clock steps back under libfaketime: how long the dead are held to be alive."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as ConnectionLost

from queues.embedded.server import find_server
from queues.gateways.inbox import Inbox
from queues.gateways.shard_leases import ShardLeases
from tests.ports import free_port
from tests.system.tree_run import wait_for

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
LEASE_S = 2.0
SLACK_S = 3.0
"""What a takeover may take beyond a lease."""


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


@pytest.mark.parametrize("step", ["+0s", "-90s", "-86400s"])
async def test_a_dead_gateway_is_replaced_within_its_lease_whatever_the_clock_does(
    stepping_server: tuple[str, Path], step: str
):
    url, offset = stepping_server
    redis: Redis = Redis.from_url(url)
    a, b = (
        ShardLeases(redis, name, Inbox(redis, name), int(LEASE_S * 1000)) for name in ("a", "b")
    )
    await a.beat(())
    await a.claim([0])
    for _ in range(12):  # until the table is settled
        await a.beat(())
        await b.beat(())
        await anyio.sleep(LEASE_S / 8)
    before_s = await server_time_s(redis)
    offset.write_text(f"{step}\n")
    died_s = time.monotonic()
    await anyio.sleep(0.5)  # the server reads its clock ten times a second
    stepped_s = await server_time_s(redis) - before_s
    assert abs(stepped_s - float(step[:-1])) < 5, "the server's clock has not stepped"
    with anyio.fail_after(100):
        while set(await b.claim([0])) != {0}:
            await anyio.sleep(LEASE_S / 4)
            await b.beat(())
    took_s = time.monotonic() - died_s
    assert took_s <= LEASE_S + SLACK_S
    await redis.aclose()
