"""Order groups: items of one order key are done one after another (§16.4)."""

import pytest

from queues.items import NewItem
from queues.queue import WorkQueue

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§16.4")]


@pytest.fixture
def queue(redis, clock) -> WorkQueue:
    return WorkQueue(redis, "extraction-transition", clock)


def attempt(key: str, run: str = "run-1", priority: str = "normal", cause: str = "c1") -> NewItem:
    return NewItem(key, priority, cause, key.encode(), order_key=run)


async def claimed(queue, limit: int = 10):
    return await queue.claim(limit, 1000)


async def keys_of(queue) -> list[str]:
    return [claim.key for claim in await claimed(queue)]


async def test_a_group_gives_one_item_at_a_time_in_the_order_of_enqueuing(queue) -> None:
    await queue.enqueue_many([attempt(key) for key in "zyx"])
    seen = []
    for _ in range(3):
        (claim,) = await claimed(queue)
        assert await claimed(queue) == []
        assert claim.order_key == "run-1"
        await queue.acknowledge([claim])
        seen.append(claim.key)
    assert seen == ["z", "y", "x"]


async def test_groups_and_items_without_one_do_not_wait_for_each_other(queue) -> None:
    items = [attempt("a1"), attempt("a2"), attempt("b1", "run-2"), attempt("free", "")]
    await queue.enqueue_many(items)
    assert sorted(await keys_of(queue)) == ["a1", "b1", "free"]
    depth = await queue.depth()
    assert (depth.queued, depth.in_flight) == (1, 3)
    (waiting,) = await queue.peek(5, 0, "queued")
    assert (waiting.key, waiting.state, waiting.order_key) == ("a2", "queued", "run-1")


async def test_a_delayed_item_is_not_overtaken(queue, clock) -> None:
    await queue.enqueue_many([attempt("a1"), attempt("a2", priority="user_initiated")])
    await queue.retry(await claimed(queue), [5_000], "flaky")
    clock.advance(4_999)
    assert await claimed(queue) == []
    clock.advance(1)
    assert await keys_of(queue) == ["a1"]


async def test_an_expired_item_is_not_overtaken(queue, clock) -> None:
    await queue.enqueue_many([attempt("a1"), attempt("a2")])
    await claimed(queue)
    clock.advance(1000)
    assert await claimed(queue) == []
    await queue.reap()
    assert await keys_of(queue) == ["a1"]


async def test_a_suspended_item_is_not_overtaken(queue) -> None:
    await queue.enqueue_many([attempt("a1"), attempt("a2")])
    await queue.suspend(await claimed(queue))
    assert await keys_of(queue) == ["a1"]


async def test_a_dead_item_stops_its_group_until_it_is_requeued(queue, clock) -> None:
    await queue.enqueue_many([attempt("a1"), attempt("a2"), attempt("b1", "run-2")])
    first, other = await claimed(queue)
    await queue.bury([first], ["Broken"])
    await queue.acknowledge([other])
    await queue.enqueue(attempt("a3"))
    assert await claimed(queue) == []
    (dead,) = await queue.dead(5)
    assert dead.order_key == "run-1"
    assert await queue.requeue(["a1"]) == [True]
    seen = []
    for _ in range(3):
        claims = await claimed(queue)
        await queue.acknowledge(claims)
        seen += [claim.key for claim in claims]
    assert seen == ["a1", "a2", "a3"]


async def test_a_group_goes_on_when_its_dead_item_is_cancelled(queue, redis) -> None:
    await queue.enqueue_many([attempt("a1"), attempt("a2")])
    await queue.bury(await claimed(queue), ["Broken"])
    assert await queue.cancel(["a1"]) == ["cancelled"]
    claims = await claimed(queue)
    assert [claim.key for claim in claims] == ["a2"]
    await queue.acknowledge(claims)
    assert await redis.keys("*") == [f"{queue.prefix}turns".encode()]


async def test_a_cancelled_item_in_the_middle_leaves_its_group_in_order(queue) -> None:
    await queue.enqueue_many([attempt(key) for key in ("a1", "a2", "a3")])
    assert await queue.cancel(["a2"]) == ["cancelled"]
    await queue.acknowledge(await claimed(queue))
    assert await keys_of(queue) == ["a3"]


async def test_a_group_waits_for_the_claim_of_a_cancelled_item(queue, clock) -> None:
    """Somebody may still be at work on it, so the next one does not begin beside it."""
    await queue.enqueue_many([attempt("a1"), attempt("a2")])
    claims = await claimed(queue)
    assert await queue.cancel(["a1"]) == ["stopping"]
    assert await claimed(queue) == []
    assert await queue.renew(claims, 1000) == [False]
    clock.advance(1000)
    assert await queue.reap() == 1
    assert await keys_of(queue) == ["a2"]


async def test_what_is_asked_of_an_item_in_flight_is_done_in_its_turn(queue) -> None:
    await queue.enqueue_many([attempt("a"), attempt("b")])
    claims = await claimed(queue)
    assert (await queue.enqueue(attempt("a", cause="c2"))).state == "successor"
    await queue.enqueue(attempt("c"))
    seen = []
    for _ in range(4):
        await queue.acknowledge(claims)
        seen += [(claim.key, claim.causes) for claim in claims]
        claims = await claimed(queue)
    assert seen == [("a", ("c1",)), ("b", ("c1",)), ("a", ("c2",)), ("c", ("c1",))]


async def test_what_is_asked_of_a_dead_item_waits_behind_it_and_joins_its_requeuing(queue) -> None:
    await queue.enqueue_many([attempt("a"), attempt("b")])
    await queue.bury(await claimed(queue), ["Broken"])
    assert (await queue.enqueue(attempt("a", cause="c2"))).state == "new"
    assert await claimed(queue) == []
    await queue.requeue(["a"])
    (claim,) = await claimed(queue)
    assert (claim.key, claim.causes) == ("a", ("c2", "c1"))
    await queue.acknowledge([claim])
    assert await keys_of(queue) == ["b"]
    assert (await queue.depth()).queued == 0


async def test_an_item_is_as_urgent_as_what_waits_behind_it(queue, clock) -> None:
    await queue.enqueue_many([attempt(f"a{n}", priority="background") for n in range(3)])
    await queue.enqueue(attempt("other", "", "user_initiated"))
    clock.advance(10)
    await queue.enqueue(attempt("a3", priority="user_initiated"))
    first, second = await queue.peek(5)
    assert (first.key, second.key, second.priority) == ("other", "a0", "user_initiated")
    assert second.deadline_ms == clock.now_ms + 5_000
    seen = []
    for _ in range(4):
        (claim, *_) = await claimed(queue, 1)
        await queue.acknowledge([claim])
        seen.append(claim.key)
    assert seen == ["other", "a0", "a1", "a2"]


async def test_a_key_has_one_order_key_while_it_is_known(queue) -> None:
    await queue.enqueue(attempt("a"))
    assert (await queue.enqueue(attempt("a", "run-2", cause="c2"))).state == "conflict"
    claims = await claimed(queue)
    assert (await queue.enqueue(attempt("a", "", cause="c2"))).state == "conflict"
    await queue.bury(claims, ["Broken"])
    assert (await queue.enqueue(attempt("a", "run-2", cause="c2"))).state == "conflict"
    assert [dead.causes for dead in await queue.dead(5)] == [("c1",)]
    assert await queue.peek(5) == []
    await queue.cancel(["a"])
    assert (await queue.enqueue(attempt("a", "run-2", cause="c2"))).state == "new"


async def test_a_long_line_is_served_from_end_to_end(queue) -> None:
    await queue.enqueue_many([attempt(f"a{n}", priority="background") for n in range(120)])
    await queue.enqueue(attempt("last", priority="user_initiated"))
    assert (await queue.depth()).ready["user_initiated"] == 1
    for n in range(120):
        (claim,) = await claimed(queue)
        assert (claim.key, claim.priority) == (f"a{n}", "user_initiated")
        await queue.acknowledge([claim])
    assert await keys_of(queue) == ["last"]
