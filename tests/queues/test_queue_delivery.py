"""Holding, losing, failing, dying."""

import pytest
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from tests.queues.model import buried

pytestmark = pytest.mark.anyio


def item(key: str = "a", cause: str = "c1") -> NewItem:
    return NewItem(key, "background_normal", cause, b"p")


async def claimed(queue, *keys: str):
    await queue.enqueue_many([item(key) for key in keys])
    return await queue.claim(len(keys), 1000)


async def test_an_acknowledged_item_leaves_nothing_behind(queue, redis) -> None:
    claims = await claimed(queue, "a", "b")
    assert await queue.acknowledge(claims) == [True, True]
    assert [key async for key in redis.scan_iter()] == [f"{queue.prefix}clock".encode()]


async def test_a_claimed_item_is_hidden_until_its_visibility_ends(queue, clock) -> None:
    await claimed(queue, "a")
    clock.advance(999)
    assert await queue.reap() == 0
    clock.advance(1)
    assert await queue.reap() == 1
    assert len(await queue.claim(1, 1000)) == 1


async def expire(queue, clock) -> None:
    clock.advance(1000)
    await queue.reap()


async def test_what_was_not_begun_when_its_holder_ended_was_not_tried(queue, clock) -> None:
    await claimed(queue, "a", "b")
    for _ in range(5):
        await expire(queue, clock)
        (again,) = await queue.claim(2, 1000)
        assert (again.attempt, again.ends) == (1, 0)


async def test_what_was_begun_when_its_holder_ended_counts_the_end(queue, clock) -> None:
    claims = await claimed(queue, "a")
    for ends in (1, 2, 3):
        assert await queue.begin(claims) == [True]
        await expire(queue, clock)
        claims = await queue.claim(2, 1000)
        assert [(claim.attempt, claim.ends) for claim in claims] == [(ends + 1, ends)]


async def test_what_a_dead_holder_had_comes_alone_and_what_it_had_not_comes_together(
    queue, clock
) -> None:
    await queue.enqueue_many([item("a"), item("b")])
    await queue.claim(2, 1000)
    await expire(queue, clock)
    # Earlier than both, between nothing, and later than both.
    await queue.enqueue(NewItem("0", "user_active_session", "c", b""))
    await queue.enqueue_many([item("y"), item("z")])
    batches = [[claim.key for claim in await queue.claim(10, 1000)] for _ in range(5)]
    assert batches == [["0"], ["a"], ["b"], ["y", "z"], []]


async def test_what_is_gone_ahead_of_a_suspect_does_not_make_a_claim_empty(
    queue, clock, redis
) -> None:
    await claimed(queue, "a", "b")
    await expire(queue, clock)
    await redis.delete(f"{queue.prefix}item:a")
    assert [claim.key for claim in await queue.claim(10, 1000)] == ["b"]


@pytest.mark.parametrize("end", ["put_off", "retry", "suspend"])
async def test_a_holder_that_settles_ends_what_it_began_and_the_item_stays_alone(
    queue, clock, end
) -> None:
    await claimed(queue, "a", "b")
    await expire(queue, clock)
    claims = await queue.claim(1, 1000)
    await queue.begin(claims)
    arguments = () if end == "suspend" else ([0], "later")
    assert await getattr(queue, end)(claims, *arguments) == [True]
    assert len(await queue.claim(10, 1000)) == 1
    await expire(queue, clock)
    assert [claim.ends for claim in await queue.claim(1, 1000)] == [0]


async def test_a_stale_token_begins_nothing(queue, clock) -> None:
    stale = await claimed(queue, "a")
    await expire(queue, clock)
    await queue.claim(1, 1000)
    assert await queue.begin(stale) == [False]
    await expire(queue, clock)
    assert [claim.ends for claim in await queue.claim(1, 1000)] == [0]


async def test_the_ends_of_what_was_buried_are_not_its_successors(queue, clock) -> None:
    claims = await claimed(queue, "a")
    await queue.begin(claims)
    await expire(queue, clock)
    claims = await queue.claim(1, 1000)
    await queue.begin(claims)
    await queue.enqueue(item("a", "c2"))
    await queue.bury(claims)
    assert [(claim.attempt, claim.ends) for claim in await queue.claim(1, 1000)] == [(1, None)]


async def test_a_renewed_claim_lasts_longer(queue, clock) -> None:
    claims = await claimed(queue, "a")
    clock.advance(900)
    assert await queue.renew(claims, 1000) == [True]
    clock.advance(999)
    assert await queue.reap() == 0
    clock.advance(1)
    assert await queue.reap() == 1


async def test_a_stale_token_changes_nothing(queue, clock, redis) -> None:
    stale = await claimed(queue, "a")
    clock.advance(1000)
    await queue.reap()
    (fresh,) = await queue.claim(1, 1000)
    before = await redis.hgetall(f"{queue.prefix}item:a")
    assert await queue.acknowledge(stale) == [False]
    assert await queue.retry(stale, [0], "late") == [False]
    assert await queue.bury(stale) == [False]
    assert await queue.renew(stale, 99_000) == [False]
    assert await redis.hgetall(f"{queue.prefix}item:a") == before
    assert await queue.acknowledge([fresh]) == [True]
    assert await queue.acknowledge([fresh]) == [False]


async def test_a_token_is_stale_as_soon_as_its_claim_was_reaped(queue, clock) -> None:
    stale = await claimed(queue, "a")
    clock.advance(1000)
    await queue.reap()
    assert await queue.acknowledge(stale) == [False]
    assert len(await queue.claim(1, 1000)) == 1


async def test_a_batch_is_settled_one_by_one(queue) -> None:
    first, second = await claimed(queue, "a", "b")
    await queue.acknowledge([first])
    assert await queue.acknowledge([first, second]) == [False, True]


async def test_each_retry_waits_for_its_own_delay(queue, clock) -> None:
    claims = await claimed(queue, "a", "b", "c")
    assert await queue.retry(claims, [300, 100, 200], "flaky") == [True] * 3
    seen = []
    for _ in range(3):
        clock.advance(100)
        seen += [(claim.key, claim.attempt) for claim in await queue.claim(5, 60_000)]
    assert seen == [("b", 2), ("c", 2), ("a", 2)]


async def test_a_dead_cause_is_not_enqueued_again_but_a_new_one_is(queue) -> None:
    await queue.bury(await claimed(queue, "a"))
    answers = await queue.enqueue_many([item("a", "c1"), item("a", "c2")])
    assert [answer.state for answer in answers] == ["dead", "new"]
    assert [claim.causes for claim in await queue.claim(5, 1000)] == [("c2",)]


async def test_a_second_death_under_one_key_joins_the_first(queue, redis) -> None:
    await queue.bury(await claimed(queue, "a"))
    await queue.enqueue_many([item("a", "c2")])
    await queue.bury(await queue.claim(1, 1000))
    assert await buried(redis, queue) == {"a": ["c1", "c2"]}


async def test_a_flush_is_noticed_and_everything_works_after_it(queue, redis) -> None:
    assert await queue.current_mark() == ""
    assert await queue.mark("7")
    assert await queue.current_mark() == "7"
    claims = await claimed(queue, "a")
    await redis.flushall()
    await redis.script_flush()
    assert await queue.current_mark() == ""
    assert await queue.acknowledge(claims) == [False]
    assert [each.state for each in await queue.enqueue_many([item("a")])] == ["new"]
    assert [claim.key for claim in await queue.claim(1, 1000)] == ["a"]


async def test_two_queues_share_nothing(queue, redis, clock) -> None:
    other = WorkQueue(redis, "extraction-transition", clock)
    await queue.enqueue_many([item("a")])
    assert await other.claim(1, 1000) == []


async def test_every_key_of_a_queue_carries_its_hash_tag(queue, redis) -> None:
    claims = await claimed(queue, *"abcd")
    await queue.retry(claims[:1], [10], "flaky")
    await queue.bury(claims[1:2])
    await queue.enqueue_many([item("{x}")])
    await queue.mark()
    keys = [key async for key in redis.scan_iter()]
    assert len(keys) > 6
    assert all(key.startswith(b"rotulus:{authority-recompute}:") for key in keys)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (NewItem("k", "urgent", "c", b""), "queue_unknown_priority"),
        (NewItem("k", "background_normal", "c", bytes(65_537)), "queue_item_too_large"),
        (NewItem("k" * 513, "background_normal", "c", b""), "queue_item_too_large"),
        (NewItem("", "background_normal", "c", b""), "queue_argument_invalid"),
        (NewItem("k", "background_normal", "", b""), "queue_argument_invalid"),
    ],
)
async def test_a_bad_item_is_refused_with_its_whole_batch(queue, bad, code) -> None:
    with pytest.raises(QueueError) as raised:
        await queue.enqueue_many([item("good"), bad])
    assert raised.value.code == code
    assert await queue.peek(5) == []


async def test_a_payload_of_the_largest_size_passes(queue) -> None:
    await queue.enqueue_many([NewItem("k", "background_normal", "c", bytes(65_536))])
    assert [len(claim.payload) for claim in await queue.claim(1, 1000)] == [65_536]


async def test_a_batch_over_the_limit_is_refused(queue) -> None:
    with pytest.raises(QueueError) as raised:
        await queue.enqueue_many([item(str(n)) for n in range(1001)])
    assert raised.value.code == "queue_batch_too_large"


@pytest.mark.parametrize(
    ("limit", "visibility_ms"), [(0, 1), (257, 1), (1, 0), (1, 7 * 24 * 3_600_000 + 1)]
)
async def test_a_claim_outside_its_bounds_is_refused(queue, limit, visibility_ms) -> None:
    with pytest.raises(QueueError) as raised:
        await queue.claim(limit, visibility_ms)
    assert raised.value.code == "queue_argument_invalid"


async def test_a_claim_that_would_last_beyond_seven_days_ends(queue, redis, clock) -> None:
    await claimed(queue, "week", "longer")
    week_ms = 7 * 24 * 3_600_000
    ends = {"week": clock.now_ms + week_ms, "longer": clock.now_ms + week_ms + 1}
    await redis.zadd(f"{queue.prefix}in-flight", ends)
    assert await queue.reap() == 1
    assert [claim.key for claim in await queue.claim(2, 1000)] == ["longer"]


async def test_an_empty_batch_is_no_work(queue) -> None:
    assert await queue.enqueue_many([]) == []
    assert await queue.acknowledge([]) == []


async def test_an_unreachable_server_is_one_typed_error() -> None:
    redis = Redis(host="127.0.0.1", port=1)
    with pytest.raises(QueueError) as raised:
        await WorkQueue(redis, "authority-recompute").claim(1, 1)
    assert raised.value.code == "queue_unavailable"
    await redis.aclose()


@pytest.mark.parametrize("name", ["", "a{b}", "a b"])
def test_a_name_that_would_break_the_hash_tag_is_refused(name) -> None:
    with pytest.raises(QueueError) as raised:
        WorkQueue(Redis(), name)
    assert raised.value.code == "queue_argument_invalid"


def test_a_decoding_client_is_refused() -> None:
    with pytest.raises(QueueError) as raised:
        WorkQueue(Redis(decode_responses=True), "q")
    assert raised.value.code == "queue_argument_invalid"


async def test_what_is_put_off_comes_back_and_has_not_been_tried(queue, clock):
    await queue.enqueue_many([NewItem("a", "background_normal", "c", b"")])
    for _ in range(3):
        [claim] = await queue.claim(1, 1000)
        assert claim.attempt == 1
        assert await queue.put_off([claim], [50], "nobody was there") == [True]
        assert await queue.put_off([claim], [50], "again") == [False]
        clock.advance(49)
        assert await queue.claim(1, 1000) == []
        clock.advance(1)
    [claim] = await queue.claim(1, 1000)
    await queue.retry([claim], [0], "failed")
    [claim] = await queue.claim(1, 1000)
    assert claim.attempt == 2


async def test_what_is_put_off_takes_its_successor_in(queue, clock):
    await queue.enqueue_many([NewItem("a", "background_normal", "c", b"old")])
    [claim] = await queue.claim(1, 1000)
    await queue.enqueue_many([NewItem("a", "background_normal", "d", b"new")])
    await queue.put_off([claim], [0], "nobody was there")
    [claim] = await queue.claim(1, 1000)
    assert (claim.payload, claim.causes, claim.attempt) == (b"new", ("c", "d"), 1)


async def test_what_names_the_mark_of_a_relay_that_was_replaced_adds_nothing(queue) -> None:
    assert await queue.mark("1")
    assert [each.state for each in await queue.enqueue_many([item("a")], "1")] == ["new"]
    assert await queue.mark("2", instead_of="1")
    with pytest.raises(QueueError) as refused:
        await queue.enqueue_many([item("b")], "1")
    assert refused.value.code == "queue_mark_differs"
    assert [each.key for each in await queue.peek(10)] == ["a"]
    assert [each.state for each in await queue.enqueue_many([item("b")], "2")] == ["new"]


async def test_a_mark_is_left_only_instead_of_the_one_that_was_read(queue) -> None:
    assert await queue.mark("1")
    assert await queue.mark("2", instead_of="1")
    assert not await queue.mark("1", instead_of="1")
    assert not await queue.mark("3")
    assert await queue.current_mark() == "2"
