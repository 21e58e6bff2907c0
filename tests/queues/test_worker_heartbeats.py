from dataclasses import replace

import pytest

from queues.fleet.worker_heartbeats import Heartbeats, WorkerBeat

pytestmark = pytest.mark.anyio

BEAT = WorkerBeat("w1", 42, ("authority-recompute",), 4, 1_000, 10, 1, 3)


@pytest.fixture
def heartbeats(redis, clock) -> Heartbeats:
    return Heartbeats(redis, clock)


async def test_the_last_beat_of_each_worker_is_kept_with_its_time(heartbeats, clock) -> None:
    await heartbeats.beat(replace(BEAT, worker_id="w2"), 1000)
    await heartbeats.beat(BEAT, 1000)
    clock.advance(5)
    later = replace(BEAT, completed=11)
    await heartbeats.beat(later, 1000)
    first, second = await heartbeats.alive()
    assert first == replace(later, seen_at_ms=clock.now_ms)
    assert (second.worker_id, second.seen_at_ms) == ("w2", clock.now_ms - 5)


async def test_a_silent_worker_disappears(heartbeats, clock, redis) -> None:
    await heartbeats.beat(BEAT, 1000)
    clock.advance(999)
    assert len(await heartbeats.alive()) == 1
    clock.advance(1)
    assert await heartbeats.alive() == []
    assert [key async for key in redis.scan_iter()] == [b"rotulus:{workers}:clock"]


async def test_a_worker_that_leaves_is_gone_at_once(heartbeats, redis) -> None:
    await heartbeats.beat(BEAT, 1000)
    await heartbeats.leave("w1")
    assert await heartbeats.alive() == []
    assert [key async for key in redis.scan_iter()] == [b"rotulus:{workers}:clock"]
