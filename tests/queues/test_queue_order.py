"""What is served first."""

import pytest

from queues.queue.items import NewItem
from queues.queue.priorities import PRIORITIES

pytestmark = pytest.mark.anyio


def item(key: str, priority: str = "background_normal", cause: str = "c1") -> NewItem:
    return NewItem(key, priority, cause, key.encode())


async def test_the_earliest_deadline_is_claimed_first_whatever_the_order_of_arrival(queue) -> None:
    await queue.enqueue_many([item(row.name, row.name) for row in reversed(PRIORITIES)])
    claims = await queue.claim(10, 1000)
    assert [claim.key for claim in claims] == [row.name for row in PRIORITIES]


async def test_an_old_background_item_precedes_a_young_one_of_an_active_session(
    queue, clock
) -> None:
    await queue.enqueue_many([item("old", "background_normal")])
    clock.advance(3_600_000 - 29_000)
    await queue.enqueue_many([item("young", "user_active_session")])
    assert [claim.key for claim in await queue.claim(2, 1000)] == ["old", "young"]


async def test_equal_deadlines_are_served_by_rank_and_then_by_key(queue, clock) -> None:
    await queue.enqueue_many([item("b"), item("a")])
    clock.advance(3_600_000 - 30_000)
    await queue.enqueue_many([item("z", "user_active_session")])
    assert [claim.key for claim in await queue.claim(3, 1000)] == ["z", "a", "b"]


async def test_a_claim_takes_no_more_than_its_limit_and_leaves_the_rest(queue) -> None:
    await queue.enqueue_many([item(f"k{n:04}") for n in range(600)])
    first, second, third = [await queue.claim(256, 1000) for _ in range(3)]
    assert [len(first), len(second), len(third)] == [256, 256, 88]
    keys = [claim.key for claim in first + second + third]
    assert keys == [f"k{n:04}" for n in range(600)]


async def test_a_claim_tells_everything_about_its_item(queue, clock) -> None:
    await queue.enqueue_many([NewItem("κ", "user_active_session", "cause-ü", b"\x00\xff{}")])
    enqueued_at_ms = clock.now_ms
    clock.advance(7)
    (claim,) = await queue.claim(1, 1000)
    assert (claim.key, claim.payload, claim.causes) == ("κ", b"\x00\xff{}", ("cause-ü",))
    assert (claim.priority, claim.attempt, claim.causes_count) == ("user_active_session", 1, 1)
    assert claim.enqueued_at_ms == enqueued_at_ms
    assert claim.deadline_ms == enqueued_at_ms + 30_000


async def test_peek_shows_the_order_of_service_and_changes_nothing(queue) -> None:
    await queue.enqueue_many([item("low", "background_low_priority"), item("high")])
    assert [waiting.key for waiting in await queue.peek(5)] == ["high", "low"]
    assert [waiting.attempts for waiting in await queue.peek(1)] == [0]
    assert [claim.key for claim in await queue.claim(5, 1000)] == ["high", "low"]


async def test_depth_counts_every_place_an_item_can_be(queue, clock) -> None:
    await queue.enqueue_many([item(key) for key in "abcd"])
    await queue.enqueue_many([item("e", "user_initiated_critical")])
    claims = await queue.claim(4, 60_000)
    await queue.retry(claims[:1], [500], "later")
    await queue.bury(claims[1:2])
    clock.advance(250)
    depth = await queue.depth()
    assert depth.ready == {row.name: int(row.name == "background_normal") for row in PRIORITIES}
    assert (depth.delayed, depth.in_flight, depth.dead) == (1, 2, 1)
    assert depth.oldest_eligible_age_ms["background_normal"] == 250
    assert depth.oldest_eligible_age_ms["user_initiated_critical"] == 0


async def test_the_depths_of_several_queues_are_those_of_each(queue, clock, redis) -> None:
    from queues.queue.work_queue import WorkQueue  # noqa: PLC0415  # one test builds its own

    other = WorkQueue(redis, "binding-evaluation", clock)
    await queue.enqueue_many([item(key) for key in "abc"])
    await other.enqueue_many([item("d", other.priorities[0].name)])
    for _ in range(2):
        assert await queue.depths([queue, other]) == [await queue.depth(), await other.depth()]
        await redis.script_flush()
    assert sum((await queue.depths([other]))[0].ready.values()) == 1


async def test_without_a_clock_the_time_of_the_server_counts(redis) -> None:
    from queues.queue.work_queue import WorkQueue  # noqa: PLC0415  # one test builds its own

    queue = WorkQueue(redis, "authority-recompute")
    await queue.enqueue_many([item("a")])
    (claim,) = await queue.claim(1, 60_000)
    seconds, _ = await redis.time()
    assert abs(claim.enqueued_at_ms - seconds * 1000) < 60_000
    assert await queue.reap() == 0


async def test_an_item_says_how_many_are_served_before_it(queue, clock) -> None:
    assert await queue.locate("k1") is None
    await queue.enqueue_many([item("old")])
    clock.advance(1000)
    await queue.enqueue_many([item("k1"), item("now", "user_initiated_critical")])
    clock.advance(1)
    await queue.enqueue_many([item("later")])
    order = [claimed.key for claimed in await queue.peek(10)]
    for key in order:
        place = await queue.locate(key)
        assert place.state == "ready"
        assert place.of_top_priority + place.due_before == order.index(key)
    assert (await queue.locate("k1")).priority == "background_normal"


async def test_an_item_says_when_its_claim_or_its_delay_ends_and_what_it_failed_of(
    queue, clock
) -> None:
    await queue.enqueue_many([item("k1")])
    claims = await queue.claim(1, 1000)
    place = await queue.locate("k1")
    assert (place.state, place.state_ends_at_ms) == ("in_flight", clock.now_ms + 1000)
    await queue.retry(claims, [500], "the model is away")
    place = await queue.locate("k1")
    assert (place.state, place.state_ends_at_ms) == ("delayed", clock.now_ms + 500)
    assert (place.attempts, place.error) == (1, "the model is away")
