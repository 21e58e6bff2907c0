"""Whatever Redis' clock does, what has an end ends in time, and an early end does no harm."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from fakeredis import FakeAsyncRedis
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from queues.fleet.worker_heartbeats import Heartbeats, WorkerBeat
from queues.leases.capacity_leases import CapacityLeases
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from tests.queues.conftest import VirtualClock, server_time_s
from tests.wall_clock import hold_at_night

pytestmark = pytest.mark.anyio

STEPS_MS = [0, -90_000, -86_400_000]
HELD_MS = 1000
LOOK_MS = 200
"""How often somebody looks."""

BEAT = WorkerBeat("w", 1, (), 1, 0, 0, 0, 0)
QUEUE = "authority-recompute"


def item(key: str) -> NewItem:
    return NewItem(key, "background_normal", "c1", b"p")


async def time_until(clock: VirtualClock, ended: Callable[[], Awaitable[bool]]) -> int:
    """Let time pass, look by look, and return how much of it until something has ended."""
    for passed_ms in range(0, 100 * HELD_MS, LOOK_MS):
        if await ended():
            return passed_ms
        clock.advance(LOOK_MS)
    return 100 * HELD_MS


def bound_ms(looks: int) -> int:
    """Return how long anything may take: the time made up for is a ninth, a look more is late."""
    return HELD_MS * 10 // 9 + looks * LOOK_MS


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_a_claim_ends_in_its_time(queue: WorkQueue, clock: VirtualClock, step_ms: int):
    await queue.enqueue(item("a"))
    await queue.claim(1, HELD_MS)
    clock.advance(step_ms)

    async def ended() -> bool:
        return await queue.reap() == 1

    assert HELD_MS <= await time_until(clock, ended) <= bound_ms(2)


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_a_renewed_claim_ends_in_its_time(
    queue: WorkQueue, clock: VirtualClock, step_ms: int
):
    await queue.enqueue(item("a"))
    claims = await queue.claim(1, HELD_MS)
    clock.advance(step_ms)
    assert await queue.renew(claims, HELD_MS) == [True]

    async def ended() -> bool:
        return await queue.reap() == 1

    assert HELD_MS <= await time_until(clock, ended) <= bound_ms(2)


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_a_retry_is_due_in_its_time(queue: WorkQueue, clock: VirtualClock, step_ms: int):
    await queue.enqueue(item("a"))
    await queue.retry(await queue.claim(1, HELD_MS), [HELD_MS], "internal")
    clock.advance(step_ms)

    async def due() -> bool:
        return bool(await queue.claim(1, HELD_MS))

    assert HELD_MS <= await time_until(clock, due) <= bound_ms(2)


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_what_was_asked_for_before_a_step_is_served_before_what_was_asked_for_after_it(
    queue: WorkQueue, clock: VirtualClock, step_ms: int
):
    await queue.enqueue(item("1-before"))
    clock.advance(LOOK_MS)
    clock.advance(step_ms)
    await queue.enqueue(item("2-after"))
    assert [claim.key for claim in await queue.claim(2, HELD_MS)] == ["1-before", "2-after"]


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_a_capacity_lease_of_somebody_who_died_ends_in_its_time(
    redis: Redis, clock: VirtualClock, step_ms: int
):
    leases = CapacityLeases(redis, clock)
    await leases.acquire("gpu", 1, "dead", HELD_MS)
    clock.advance(step_ms)

    async def ended() -> bool:
        return await leases.acquire("gpu", 1, "living", HELD_MS) is not None

    assert HELD_MS <= await time_until(clock, ended) <= bound_ms(2)


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_a_worker_that_died_is_forgotten_in_its_time(
    redis: Redis, clock: VirtualClock, step_ms: int
):
    beats = Heartbeats(redis, clock)
    await beats.beat(BEAT, HELD_MS)
    clock.advance(step_ms)

    async def ended() -> bool:
        return not await beats.alive()

    assert HELD_MS <= await time_until(clock, ended) <= bound_ms(2)


async def test_a_step_forward_ends_claims_early_and_nothing_is_done_twice(
    queue: WorkQueue, clock: VirtualClock
):
    await queue.enqueue_many([item("a"), item("b")])
    first = await queue.claim(2, HELD_MS)
    clock.advance(90_000)
    assert await queue.reap() == 2
    second = [*await queue.claim(1, HELD_MS), *await queue.claim(1, HELD_MS)]
    assert [(claim.key, claim.attempt, claim.ends) for claim in second] == [
        ("a", 1, 0),
        ("b", 1, 0),
    ]
    assert await queue.renew(first, HELD_MS) == [False, False]
    assert await queue.acknowledge(first) == [False, False]
    assert await queue.acknowledge(second) == [True, True]


async def test_what_the_clock_was_ahead_is_made_up_for(queue: WorkQueue, clock: VirtualClock):
    """The time of a queue comes back to that of its server, a tenth of what passes at a time."""
    await queue.enqueue(item("a"))
    clock.advance(-9_000)
    for _ in range(90_000 // LOOK_MS + 1):
        await queue.reap()
        clock.advance(LOOK_MS)
    await queue.enqueue(item("b"))
    [ready] = [ready for ready in await queue.peek(2) if ready.key == "b"]
    assert ready.enqueued_at_ms == clock.now_ms


async def test_a_clock_that_steps_back_and_is_set_right_again_ends_nothing_early(
    queue: WorkQueue, clock: VirtualClock
):
    held_ms = 10_000
    await queue.enqueue(item("a"))
    await queue.claim(1, held_ms)
    clock.advance(-90_000)
    assert await queue.reap() == 0
    clock.advance(90_000)
    assert await queue.reap() == 0


@pytest.mark.parametrize("value", [b"", b"x", b"1 2 3", b"-1 5", b"9" * 40, b"5 999999999999999"])
async def test_a_clock_that_nobody_wrote_is_dropped(
    redis: Redis, queue: WorkQueue, clock: VirtualClock, value: bytes
):
    await redis.set(f"{queue.prefix}clock", value)
    await queue.enqueue(item("a"))
    assert [entry.enqueued_at_ms for entry in await queue.peek(1)] == [clock.now_ms]


@given(
    st.lists(
        st.tuples(
            st.integers(min_value=1, max_value=2_000), st.integers(min_value=-(10**8), max_value=0)
        ),
        max_size=12,
    )
)
async def test_no_claim_lasts_longer_than_its_time_a_ninth_and_the_looks_at_which_a_clock_stepped(
    passings: list[tuple[int, int]],
):
    """Property: each passing is a look's worth of time, and a step back that comes with it."""
    clock = VirtualClock()
    redis = FakeAsyncRedis()
    queue = WorkQueue(redis, QUEUE, clock)
    await queue.enqueue(item("a"))
    await queue.claim(1, HELD_MS)
    passed_ms = lost_ms = 0
    for passing_ms, step_ms in passings:
        clock.advance(passing_ms + step_ms)
        passed_ms += passing_ms
        lost_ms += passing_ms if step_ms else 0
        if await queue.reap():
            assert passed_ms >= HELD_MS
            break
        # A look that is not kept is forgotten by a step, so a tenth of a second goes with it.
        assert passed_ms - lost_ms - 100 * len(passings) <= HELD_MS * 10 / 9 + len(passings)
    await redis.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("step_s", [0, -90, -86_400])
async def test_on_a_server_whose_clock_steps_back_claims_and_leases_end_in_their_time(
    stepping_server: tuple[str, Path], step_s: int
):
    url, offset = stepping_server
    redis: Redis = Redis.from_url(url)
    queue, leases = WorkQueue(redis, QUEUE), CapacityLeases(redis)
    held_s, slack_s = 2.0, 3.0
    await queue.enqueue(item("a"))
    await queue.claim(1, int(held_s * 1000))
    await leases.acquire("gpu", 1, "dead", int(held_s * 1000))
    before_s = await server_time_s(redis)
    offset.write_text(f"{step_s:+d}s\n")
    stepped_at_s = time.monotonic()
    await anyio.sleep(0.5)  # the server reads its clock ten times a second
    stepped_s = await server_time_s(redis) - before_s
    assert abs(stepped_s - step_s) < 5, "the server's clock has not stepped"
    with anyio.fail_after(30):
        returned, lease = 0, None
        while not (returned and lease):
            await anyio.sleep(0.1)
            returned += await queue.reap()
            lease = lease or await leases.acquire("gpu", 1, "living", 60_000)
    hold_at_night(time.monotonic() - stepped_at_s, held_s + slack_s)
    await redis.aclose()
