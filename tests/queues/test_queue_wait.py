"""Blocking until there may be something to do."""

import anyio
import pytest

from queues.queue import work_queue
from queues.queue.items import NewItem

pytestmark = pytest.mark.anyio

LONG_S = 20.0


def item(key: str, cause: str = "c1") -> NewItem:
    return NewItem(key, "background_normal", cause, b"")


async def asleep(redis, queue) -> None:
    """Return once somebody said that they will block."""
    with anyio.fail_after(10):
        while not await redis.exists(f"{queue.prefix}sleeping"):  # Redis has no event for it
            await anyio.sleep(0.005)


async def woken_by(redis, queue, act) -> bool:
    """Run `act` while a consumer waits; fails when the consumer is not woken in good time."""
    answers = []

    async def wait() -> None:
        answers.append(await queue.wait(LONG_S))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await asleep(redis, queue)
            await act()
    return answers[0]


async def test_waiting_returns_at_once_when_something_is_ready(queue) -> None:
    await queue.enqueue_many([item("a")])
    with anyio.fail_after(5):
        assert await queue.wait(LONG_S)


async def test_waiting_ends_without_a_wake_when_nothing_comes(queue) -> None:
    assert not await queue.wait(0.02)


async def test_a_wait_is_no_longer_than_its_most(queue, monkeypatch) -> None:
    monkeypatch.setattr(work_queue, "WAIT_S_MAX", 0.02)
    with anyio.fail_after(10):
        assert not await queue.wait(LONG_S)


async def test_an_enqueue_wakes_a_sleeper(queue, redis) -> None:
    assert await woken_by(redis, queue, lambda: queue.enqueue_many([item("a")]))


async def test_a_successor_wakes_a_sleeper(queue, redis) -> None:
    await queue.enqueue_many([item("a")])
    claims = await queue.claim(1, 1000)
    await queue.enqueue_many([item("a", "c2")])
    assert await woken_by(redis, queue, lambda: queue.acknowledge(claims))


async def test_a_reaped_claim_wakes_a_sleeper(queue, redis, clock) -> None:
    await queue.enqueue_many([item("a")])
    await queue.claim(1, 1000)
    clock.advance(1000)
    assert await woken_by(redis, queue, queue.reap)


@pytest.mark.parametrize("step", ["retry", "put_off"])
async def test_a_retry_wakes_a_sleeper_that_did_not_know_of_it(queue, redis, step) -> None:
    await queue.enqueue_many([item("a")])
    claims = await queue.claim(1, 1000)
    assert await woken_by(redis, queue, lambda: getattr(queue, step)(claims, [50], "flaky"))


async def test_a_sleeper_wakes_by_itself_when_a_retry_is_due(queue) -> None:
    await queue.enqueue_many([item("a")])
    await queue.retry(await queue.claim(1, 1000), [30], "flaky")
    with anyio.fail_after(5):
        assert await queue.wait(LONG_S)


async def test_nobody_is_woken_when_nobody_sleeps(queue, redis) -> None:
    await queue.enqueue_many([item("a")])
    assert await redis.exists(f"{queue.prefix}wake:3") == 0


async def test_untaken_wakes_are_bounded_and_dropped_by_the_next_sleeper(queue, redis) -> None:
    await queue.wait(0.01)
    for batch in range(5):
        await queue.enqueue_many([item(f"{batch}-{n}") for n in range(20)])
    assert await redis.llen(f"{queue.prefix}wake:3") == 16
    while claims := await queue.claim(256, 1000):
        await queue.acknowledge(claims)
    assert not await queue.wait(0.02)


async def test_every_sleeper_is_woken_when_there_is_enough(queue, redis) -> None:
    answers = []

    async def wait() -> None:
        answers.append(await queue.wait(LONG_S))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await asleep(redis, queue)
            await queue.enqueue_many([item(str(n)) for n in range(8)])
    assert answers == [True, True, True]


async def test_a_sleeper_for_urgent_work_is_not_woken_by_other_work(queue, redis) -> None:
    """And takes no wake away from one that sleeps for everything."""
    answers = {}

    async def wait(least: str | None, timeout_s: float) -> None:
        answers[least] = await queue.wait(timeout_s, least)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(wait, "user_active_session", 0.4)
            group.start_soon(wait, None, LONG_S)
            await asleep(redis, queue)
            await anyio.sleep(0.1)  # until both are
            await queue.enqueue_many([item("a")])
    assert answers == {"user_active_session": False, None: True}


async def test_what_is_suspended_or_paused_keeps_nobody_awake_who_may_not_take_it(queue) -> None:
    await queue.enqueue_many([item("a"), item("b")])
    await queue.suspend(await queue.claim(1, 1000))
    assert not await queue.wait(0.02, "user_active_session")
    assert await queue.wait(LONG_S)
    await queue.pause("background_normal")
    assert not await queue.wait(0.02)


async def test_nobody_is_woken_for_what_is_paused(queue, redis) -> None:
    await queue.wait(0.01)
    await queue.pause("background_normal")
    await queue.enqueue_many([item("a")])
    assert await redis.exists(f"{queue.prefix}sleeping") == 1
    assert await redis.exists(f"{queue.prefix}wake:3") == 0


async def test_the_end_of_a_pause_wakes_a_sleeper(queue, redis) -> None:
    await queue.pause()
    await queue.enqueue_many([item("a")])
    assert await woken_by(redis, queue, queue.resume)


async def test_the_end_of_a_pause_wakes_a_sleeper_that_did_not_know_of_a_retry(
    queue, redis
) -> None:
    await queue.enqueue_many([item("a")])
    claims = await queue.claim(1, 1000)
    await queue.pause()

    async def retry_and_resume() -> None:
        await queue.retry(claims, [20], "flaky")
        await queue.resume()

    assert await woken_by(redis, queue, retry_and_resume)


async def test_a_cause_that_makes_an_item_urgent_wakes_a_sleeper_for_urgent_work(
    queue, redis
) -> None:
    await queue.enqueue_many([item("a")])
    answers = []

    async def wait() -> None:
        answers.append(await queue.wait(LONG_S, "user_active_session"))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await asleep(redis, queue)
            await queue.enqueue(NewItem("a", "user_active_session", "c2", b""))
    assert answers == [True]
