"""Who lives and who leases what, in memory and on Redis."""

import pytest

from queues.gateways.inbox import Inbox
from queues.gateways.shard_leases import ShardLeases
from tests.actors.ports import Hub, MemoryLeases, MemoryMail

pytestmark = pytest.mark.anyio

TTL_MS = 1000


class OnRedis:
    """Gateways whose leases are on a Redis."""

    def __init__(self, redis, clock) -> None:
        self._redis, self._clock = redis, clock

    def leases(self, gateway):
        return ShardLeases(self._redis, gateway, Inbox(self._redis, gateway), TTL_MS, self._clock)

    async def heard(self, gateway):
        return (await Inbox(self._redis, gateway).listen(0.05)).leases_changed

    async def flush(self):
        await self._redis.flushdb()


class InMemory:
    """Gateways whose leases are in memory."""

    def __init__(self, clock) -> None:
        self._hub = Hub(clock)

    def leases(self, gateway):
        return MemoryLeases(self._hub, gateway, TTL_MS)

    async def heard(self, gateway):
        return (await MemoryMail(self._hub, gateway).listen(0.01)).leases_changed

    async def flush(self):
        self._hub.flush()


@pytest.fixture(params=["memory", "redis"])
def place(request, redis, clock):
    return OnRedis(redis, clock) if request.param == "redis" else InMemory(clock)


async def test_the_living_are_in_the_table_until_they_are_silent_for_a_lease(place, clock):
    a, b = place.leases("a"), place.leases("b")
    assert (await a.beat(())).gateways == {"a"}
    clock.advance(600)
    assert (await b.beat(())).gateways == {"a", "b"}
    clock.advance(400)
    assert (await b.beat(())).gateways == {"b"}


async def test_a_gateway_lives_for_two_leases_at_most_whatever_stands_there(redis, clock):
    place = OnRedis(redis, clock)
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    await redis.zadd("rotulus:{gateways}:alive", {"a": 99_999_999_999_999})
    assert (await b.beat(())).gateways == {"a", "b"}
    clock.advance(2 * TTL_MS - 1)
    assert (await b.beat(())).gateways == {"a", "b"}
    clock.advance(1)
    assert (await b.beat(())).gateways == {"b"}


async def test_who_misses_a_beat_is_late_until_it_beats_or_is_gone(place, clock):
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    clock.advance(500)
    assert (await b.beat(())).late == set()
    clock.advance(1)
    table = await b.beat(())
    assert (table.gateways, table.late) == ({"a", "b"}, {"a"})
    assert (await a.beat(())).late == set()
    assert (await b.beat(())).late == set()
    clock.advance(TTL_MS)
    assert (await b.beat(())).late == set()


async def test_a_shard_is_leased_by_one_as_long_as_it_lives(place, clock):
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    await b.beat(())
    assert set(await a.claim([0, 1])) == {0, 1}
    assert set(await b.claim([1, 2])) == {2}
    assert set(await a.claim([0, 1])) == {0, 1}
    assert (await b.beat(())).owners == {0: "a", 1: "a", 2: "b"}
    clock.advance(999)
    await b.beat(())
    assert set(await b.claim([1])) == set()
    clock.advance(1)
    assert set(await b.claim([1])) == {1}


async def test_one_that_does_not_live_leases_nothing(place, clock):
    a = place.leases("a")
    assert set(await a.claim([0])) == set()
    await a.beat(())
    clock.advance(TTL_MS)
    assert set(await a.claim([0])) == set()


async def test_what_is_released_is_free_and_the_others_are_told(place):
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    await a.claim([0, 1])
    await b.beat(())
    assert await place.heard("a")  # somebody has joined
    await a.release([0])
    assert await place.heard("b")
    assert (await b.beat(())).owners == {1: "a"}
    await b.release([1])
    assert (await b.beat(())).owners == {1: "a"}


async def test_the_others_are_told_of_what_is_newly_leased(place):
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    await b.beat(())
    assert await place.heard("a")  # somebody has joined
    await b.claim([0])
    assert await place.heard("a")
    assert (await a.beat(())).owners == {0: "b"}
    await b.claim([0])
    assert not await place.heard("a")


async def test_the_others_are_told_of_what_a_beat_puts_back(place, clock):
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    await b.beat(())
    await a.claim([0])
    assert await place.heard("b")
    await place.flush()
    assert (await b.beat(())).owners == {}
    assert (await a.beat([0])).owners == {0: "a"}
    assert await place.heard("b")
    clock.advance(TTL_MS // 2)
    await a.beat([0])
    assert not await place.heard("b")


async def test_one_that_leaves_is_gone_at_once_with_all_that_it_had(place):
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    await b.beat(())
    await a.claim([0, 1])
    await b.claim([2])
    await a.leave()
    assert await place.heard("b")
    table = await b.beat(())
    assert (table.gateways, table.owners) == ({"b"}, {2: "b"})


async def test_a_process_that_starts_under_a_name_has_what_was_leased_under_it(place):
    old = place.leases("a")
    await old.beat(())
    await old.claim([0, 1])
    new = place.leases("a")
    assert (await new.beat(())).owners == {0: "a", 1: "a"}
    assert set(await new.claim([0, 1])) == {0, 1}
    # The old one is not itself any more: it may neither take nor give.
    assert (await old.beat([0])).gateways == frozenset()
    assert set(await old.claim([2])) == set()
    await old.release([0])
    await old.leave()
    table = await new.beat(())
    assert (table.gateways, table.owners) == ({"a"}, {0: "a", 1: "a"})


async def test_a_flushed_table_is_filled_again_and_not_settled_for_a_lease(place, clock):
    a, b = place.leases("a"), place.leases("b")
    before = await a.beat(())
    clock.advance(TTL_MS)
    assert (await a.beat(())).settled
    assert set(await a.claim([0])) == {0}
    await place.flush()
    assert (await b.beat([1])).owners == {1: "b"}
    table = await a.beat([0, 1])
    assert table.owners == {0: "a", 1: "b"}
    assert table.table_id != before.table_id
    assert not table.settled
    clock.advance(TTL_MS)
    assert (await a.beat(())).settled


async def test_a_beat_claims_what_is_held_and_a_dead_gateway_leases(place, clock):
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    await a.claim([0])
    clock.advance(TTL_MS)
    assert (await b.beat([0])).owners == {0: "b"}


async def test_a_redis_that_does_not_answer_is_no_table_and_no_lease():
    from redis.asyncio import Redis  # noqa: PLC0415 - this test's alone

    redis = Redis.from_url("redis://127.0.0.1:1")
    leases = ShardLeases(redis, "a", Inbox(redis, "a"), TTL_MS)
    assert await leases.beat(()) is None
    assert set(await leases.claim([0])) == set()
    await leases.release([0])
    await leases.leave()


BACK_MS = 90_000


async def test_a_clock_that_steps_back_stretches_no_takeover(redis, clock):
    """The dead are dead a lease and a ninth after their last beat, and two beats' time at most."""
    place = OnRedis(redis, clock)
    a, b = place.leases("a"), place.leases("b")
    await a.beat(())
    assert set(await a.claim([0])) == {0}
    clock.advance(2 * TTL_MS)
    await a.beat(())
    table = await b.beat(())
    clock.advance(-BACK_MS)
    silent_ms = 0
    while "a" in table.gateways:
        clock.advance(TTL_MS // 4)
        silent_ms += TTL_MS // 4
        last, table = table, await b.beat(())
        assert table.table_id == last.table_id, "nothing was lost"
        assert "b" in table.gateways
    assert silent_ms <= TTL_MS * 10 // 9 + 2 * TTL_MS // 4
    assert table.settled
    assert set(await b.claim([0])) == {0}


async def test_the_living_stay_in_the_table_when_the_clock_steps_back(redis, clock):
    place = OnRedis(redis, clock)
    a, b = place.leases("a"), place.leases("b")
    for step_ms in (100, -BACK_MS, 100, -500, BACK_MS // 2, -BACK_MS):
        clock.advance(step_ms if step_ms < TTL_MS else 0)
        for leases in (a, b):
            await leases.beat(())
        assert (await a.beat(())).gateways == {"a", "b"}
