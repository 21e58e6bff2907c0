from dataclasses import replace

import pytest

from queues.fleet.worker_heartbeats import Heartbeats, WorkerBeat

pytestmark = pytest.mark.anyio

DAY_MS = 24 * 3600 * 1000
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


async def test_a_silent_worker_is_gone_and_remembered_for_a_day(heartbeats, clock, redis) -> None:
    await heartbeats.beat(BEAT, 1000)
    clock.advance(999)
    assert len(await heartbeats.alive()) == 1
    clock.advance(1)
    assert await heartbeats.look() == ([], [replace(BEAT, seen_at_ms=clock.now_ms - 1000)])
    await heartbeats.beat(replace(BEAT, worker_id="w2"), 1000)
    clock.advance(DAY_MS - 1)
    assert [beat.worker_id for beat in (await heartbeats.look()).gone] == ["w2", "w1"]
    clock.advance(1001)
    assert await heartbeats.look() == ([], [])
    assert [key async for key in redis.scan_iter()] == [b"rotulus:{workers}:clock"]


async def test_one_that_beats_again_lives_and_one_that_leaves_late_left(heartbeats, clock) -> None:
    for worker_id in ("w1", "w2"):
        await heartbeats.beat(replace(BEAT, worker_id=worker_id), 1000)
    clock.advance(1000)
    assert len((await heartbeats.look()).gone) == 2
    await heartbeats.beat(BEAT, 1000)
    await heartbeats.leave("w2")
    alive, gone = await heartbeats.look()
    assert ([beat.worker_id for beat in alive], gone) == (["w1"], [])


async def test_the_hundred_that_went_last_are_remembered(heartbeats, clock) -> None:
    for number in range(102):
        await heartbeats.beat(replace(BEAT, worker_id=f"w{number}"), 1000)
        clock.advance(1)
    clock.advance(1000)
    gone = [beat.worker_id for beat in (await heartbeats.look()).gone]
    assert gone == [f"w{number}" for number in range(101, 1, -1)]


async def test_a_worker_that_leaves_is_gone_at_once(heartbeats, redis) -> None:
    await heartbeats.beat(BEAT, 1000)
    await heartbeats.leave("w1")
    assert await heartbeats.alive() == []
    assert [key async for key in redis.scan_iter()] == [b"rotulus:{workers}:clock"]
