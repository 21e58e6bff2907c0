"""Suspended items go on in the order in which they were suspended."""

import pytest
from redis.asyncio import Redis

from queues.items import NewItem
from queues.queue import WorkQueue
from queues.suspensions import HEAD_ITEMS, Suspensions

pytestmark = pytest.mark.anyio


@pytest.fixture
async def order(redis: Redis, queue: WorkQueue) -> Suspensions:
    return Suspensions(redis, queue.prefix)


async def there(queue: WorkQueue, *keys: str) -> None:
    await queue.enqueue_many([NewItem(key, "background_normal", f"c-{key}", b"") for key in keys])


@pytest.mark.spec("§14.3")
async def test_who_was_suspended_first_goes_on_first(queue: WorkQueue, order: Suspensions):
    await there(queue, "a", "b", "c", "d")
    await order.suspend(["c", "a"])
    await order.suspend(["b", "c"])
    assert await order.in_order(["a", "b", "c", "d"]) == ["c", "a", "b", "d"]
    await order.resume(["c"])
    assert await order.in_order(["d", "b", "a"]) == ["a", "b", "d"]


@pytest.mark.spec("§14.3")
async def test_nobody_overtakes_one_that_is_elsewhere(queue: WorkQueue, order: Suspensions):
    await there(queue, "a", "b", "c")
    await order.suspend(["a", "b", "c"])
    assert await order.in_order(["a", "c"]) == ["a"]
    assert await order.in_order(["b", "c"]) == []


async def test_what_has_left_the_queue_holds_nobody_up(queue: WorkQueue, order: Suspensions):
    gone = [f"gone-{number}" for number in range(2 * HEAD_ITEMS)]
    await there(queue, "b")
    await order.suspend([*gone, "b"])
    assert await order.in_order(["b"]) == ["b"]


async def test_more_than_one_look_takes_are_let_on_in_turn(queue: WorkQueue, order: Suspensions):
    keys = [f"k-{number:03}" for number in range(HEAD_ITEMS + 10)]
    await there(queue, *keys)
    await order.suspend(keys)
    assert await order.in_order(keys[::-1]) == keys[:HEAD_ITEMS]
    await order.resume(keys[:HEAD_ITEMS])
    assert await order.in_order(keys[HEAD_ITEMS:]) == keys[HEAD_ITEMS:]


async def test_of_nothing_there_is_no_order(order: Suspensions):
    await order.suspend([])
    await order.resume([])
    assert await order.in_order([]) == []
