"""Periodic work runs once in a fleet, and again when it could not."""

import pytest
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.fleet.cron_claims import Crons

pytestmark = pytest.mark.anyio


async def test_of_a_fleet_one_worker_has_a_period(redis: Redis):
    crons = Crons(redis)
    taken = [await crons.claim("audit", 7, 60, f"worker-{n}") for n in range(3)]
    assert taken == [True, False, False]
    assert await crons.claim("audit", 8, 60, "worker-2")
    assert await crons.claim("sweep", 7, 60, "worker-2")


async def test_a_period_that_could_not_be_run_is_given_back(redis: Redis):
    crons = Crons(redis)
    assert await crons.claim("audit", 7, 60, "worker-1")
    await crons.release("audit", 7)
    assert await crons.claim("audit", 7, 60, "worker-2")


async def test_what_a_run_keeps_is_a_hint(redis: Redis):
    crons = Crons(redis)
    assert await crons.recall("audit") == {}
    await crons.remember("audit", {"sequence": 12})
    assert await crons.recall("audit") == {"sequence": 12}
    for garbage in (b"{", b"[1]"):
        await redis.set("rotulus:{crons}:audit:state", garbage)
        assert await crons.recall("audit") == {}


@pytest.mark.parametrize("every_s", [0, 8 * 24 * 3600])
async def test_a_period_has_limits(redis: Redis, every_s: int):
    with pytest.raises(QueueError):
        await Crons(redis).claim("audit", 1, every_s, "w")
