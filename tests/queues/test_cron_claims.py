"""Periodic work runs once in a fleet, and again when it could not."""

import pytest
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.fleet import cron_claims
from queues.fleet.cron_claims import CronFiring, Crons

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


async def test_when_a_cron_ran_is_a_hint_that_a_first_look_does_not_take_away(redis: Redis):
    crons = Crons(redis)
    assert await crons.firings() == []
    ran = CronFiring("audit", 60, 180, last_s=120, worker_id="worker-1", took_ms=7)
    await crons.note(CronFiring("sweep", 0, 500), is_first=True)
    await crons.note(ran)
    await crons.note(CronFiring("audit", 60, 180), is_first=True)
    assert await crons.firings() == [ran, CronFiring("sweep", 0, 500)]
    for garbage in (b"{", b"[1]", b'{"name": 1}', b'{"name": "x", "every_s": -1, "next_s": 0}'):
        await redis.hset("rotulus:{crons}:firings", "bad", garbage)
        assert [each.name for each in await crons.firings()] == ["audit", "sweep"]
    await redis.set("rotulus:{crons}:firings", "a text")
    with pytest.raises(QueueError):
        await crons.firings()
    assert await crons.firings() == []


async def test_more_crons_than_there_can_be_are_of_a_stranger(redis: Redis, monkeypatch):
    monkeypatch.setattr(cron_claims, "FIRINGS_MAX", 2)
    crons = Crons(redis)
    for name in ("a", "b", "c"):
        await crons.note(CronFiring(name, 1, 2))
    assert await crons.firings() == []
    assert not await redis.exists("rotulus:{crons}:firings")


@pytest.mark.parametrize("every_s", [0, 8 * 24 * 3600])
async def test_a_period_has_limits(redis: Redis, every_s: int):
    with pytest.raises(QueueError):
        await Crons(redis).claim("audit", 1, every_s, "w")
