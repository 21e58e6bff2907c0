import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.values.pressure import Amount, Capacity
from queues.errors import QueueError
from queues.leases.capacity_leases import CapacityLeases

pytestmark = pytest.mark.anyio


async def test_no_more_holders_than_slots(leases) -> None:
    taken = [await leases.acquire("gpu", 2, f"w{n}", 1000) for n in range(4)]
    assert [lease is not None for lease in taken] == [True, True, False, False]
    assert [lease.holder for lease in await leases.active_leases("gpu")] == ["w0", "w1"]


async def test_tokens_increase_for_ever(leases, clock) -> None:
    tokens = []
    for _ in range(3):
        lease = await leases.acquire("gpu", 1, "w", 10)
        tokens.append(lease.token)
        await leases.release(lease)
        clock.advance(1000)
    assert tokens == sorted(set(tokens))


async def test_an_expired_lease_frees_its_slot_and_cannot_be_renewed(leases, clock) -> None:
    old = await leases.acquire("gpu", 1, "w1", 1000)
    clock.advance(1000)
    assert await leases.active_leases("gpu") == []
    assert not await leases.renew(old, 1000)
    new = await leases.acquire("gpu", 1, "w2", 1000)
    assert new.token > old.token
    assert not await leases.release(old)
    assert await leases.active_leases("gpu") == [new]


async def test_a_renewed_lease_lasts_from_now(leases, clock) -> None:
    lease = await leases.acquire("gpu", 1, "w1", 1000)
    clock.advance(999)
    assert await leases.renew(lease, 1000)
    clock.advance(999)
    assert await leases.acquire("gpu", 1, "w2", 1000) is None
    clock.advance(1)
    assert await leases.acquire("gpu", 1, "w2", 1000) is not None


async def test_a_holder_that_asks_again_keeps_one_slot_under_a_new_token(leases) -> None:
    first = await leases.acquire("gpu", 1, "w1", 1000)
    second = await leases.acquire("gpu", 1, "w1", 1000)
    assert second.token > first.token
    assert not await leases.renew(first, 1000)
    assert not await leases.release(first)
    assert await leases.active_leases("gpu") == [second]


async def test_a_released_slot_is_free_at_once(leases) -> None:
    lease = await leases.acquire("gpu", 1, "w1", 1000)
    assert await leases.release(lease)
    assert not await leases.release(lease)
    assert await leases.acquire("gpu", 1, "w2", 1000) is not None


async def test_resources_are_independent(leases) -> None:
    assert await leases.acquire("gpu", 1, "w1", 1000)
    assert await leases.acquire("llm", 1, "w2", 1000)


@pytest.mark.parametrize(
    ("slots", "ttl_ms"), [(0, 1), (10_001, 1), (1, 0), (1, 7 * 24 * 3_600_000 + 1)]
)
async def test_numbers_outside_their_bounds_are_refused(leases, slots, ttl_ms) -> None:
    with pytest.raises(QueueError) as raised:
        await leases.acquire("gpu", slots, "w", ttl_ms)
    assert raised.value.code == "queue_argument_invalid"


async def test_a_cost_has_a_most_and_is_told_apart_to_the_millionth(leases) -> None:
    capacity = Capacity(Amount(3, 1e9))
    assert await leases.acquire("gpu", capacity, "a", 1000, cost=1e9 - 1e-6)
    assert await leases.acquire("gpu", capacity, "b", 1000, cost=2e-6) is None
    assert await leases.acquire("gpu", capacity, "b", 1000, cost=1e-6)
    with pytest.raises(QueueError) as raised:
        await leases.acquire("gpu", Capacity(Amount(3, 1e9 + 1)), "c", 1000, cost=1e9 + 1)
    assert raised.value.code == "queue_argument_invalid"


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("ABCDE"), st.sampled_from(["take", "free", "pass"])),
        max_size=30,
    )
)
def test_whatever_happens_there_are_never_more_holders_than_slots(steps) -> None:
    import asyncio  # noqa: PLC0415  # each example has a loop of its own

    from fakeredis import FakeAsyncRedis  # noqa: PLC0415

    async def run() -> None:
        now = [0]
        redis = FakeAsyncRedis()
        leases = CapacityLeases(redis, lambda: now[0])
        own, last_token = {}, 0
        for holder, step in steps:
            if step == "take" and (lease := await leases.acquire("r", 2, holder, 30)):
                own[holder] = lease
                assert lease.token > last_token
                last_token = lease.token
            elif step == "free" and holder in own:
                await leases.release(own.pop(holder))
            now[0] += 10 if step == "pass" else 1
            held = await leases.active_leases("r")
            assert len(held) <= 2
            assert {lease.holder for lease in held} == {
                lease.holder for lease in own.values() if lease.expires_at_ms > now[0]
            }
        await redis.aclose()

    asyncio.run(run())
