"""A server whose clock steps back under libfaketime: how long the dead are held to be alive."""

import time
from pathlib import Path

import anyio
import pytest
from redis.asyncio import Redis

from queues.gateways.inbox import Inbox
from queues.gateways.shard_leases import ShardLeases
from tests.queues.conftest import server_time_s
from tests.wall_clock import hold_at_night

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LEASE_S = 2.0
SLACK_S = 3.0
"""What a takeover may take beyond a lease."""


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
    hold_at_night(took_s, LEASE_S + SLACK_S)
    await redis.aclose()
