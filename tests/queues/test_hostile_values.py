"""The injector of hostile values: the same seed writes the same, over what a fleet really has."""

import pytest
from redis.asyncio import Redis

from queues.items import NewItem
from queues.work_queue import WorkQueue
from tests.fuzz.redis_values import all_hostile, fleet_keys, hostile_values, inject, live_keys

pytestmark = pytest.mark.anyio


def test_a_seed_says_what_is_written():
    assert hostile_values(7, 300) == hostile_values(7, 300)
    assert hostile_values(7, 300) != hostile_values(8, 300)


def test_every_key_of_a_fleet_is_malformed_in_many_ways():
    ways: dict[str, set[str]] = {}
    for hostile in all_hostile(fleet_keys()):
        ways.setdefault(hostile.key, set()).add(hostile.malformation)
    assert set(ways) == {key.name for key in fleet_keys()}
    assert min(map(len, ways.values())) >= 7
    assert sum(map(len, ways.values())) > 1000


async def test_what_is_there_is_hit_as_well(redis: Redis, queue: WorkQueue):
    await queue.enqueue(NewItem("u-1", "background_normal", "cause", b"{}"))
    names = {name for name, _ in await live_keys(redis)}
    assert "rotulus:{authority-recompute}:item:u-1" in names
    written = await inject(redis, 1, 500)
    assert len(written) == 500
    assert any("item:u-1" in hostile.key for hostile in written)
    assert await redis.dbsize() > len(names)
