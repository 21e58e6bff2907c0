"""The reserved first place, ageing, suspension, pauses: what is served, and what has to wait."""

from dataclasses import replace

import anyio
import pytest

from queues.errors import QueueError
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from tests.queues.model import buried

pytestmark = pytest.mark.anyio


@pytest.fixture
def queue(redis, clock) -> WorkQueue:
    return WorkQueue(redis, "binding-evaluation", clock)


def fire(key: str, priority: str = "background", cause: str = "c1") -> NewItem:
    return NewItem(key, priority, cause, b"p")


async def keys_of(queue, limit: int = 10, least: str | None = None) -> list[str]:
    return [claim.key for claim in await queue.claim(limit, 1000, least)]


@pytest.mark.spec("§8.3")
async def test_the_top_priority_never_waits_however_late_the_others_are(queue, clock) -> None:
    await queue.enqueue_many([fire("late"), fire("later", "user_initiated")])
    clock.advance(48 * 3_600_000)
    await queue.enqueue_many([fire("now", "critical"), fire("now too", "critical")])
    assert await keys_of(queue, 1) == ["now"]
    assert await keys_of(queue, 3) == ["now too", "later", "late"]


async def test_a_full_claim_of_the_top_priority_takes_nothing_else(queue) -> None:
    await queue.enqueue_many([fire("b"), *(fire(f"c{n}", "critical") for n in range(3))])
    assert await keys_of(queue, 3) == ["c0", "c1", "c2"]
    assert await keys_of(queue, 3) == ["b"]


@pytest.mark.spec("§8.3")
async def test_a_lower_priority_waits_until_it_has_aged(queue, clock) -> None:
    """It waits no longer than the difference of the two service targets."""
    await queue.enqueue(fire("old"))
    clock.advance(3_600_000 - 30_000 - 1)
    await queue.enqueue(fire("young", "user_initiated"))
    assert [item.key for item in await queue.peek(2)] == ["young", "old"]
    clock.advance(2)
    await queue.enqueue(fire("younger", "user_initiated"))
    assert await keys_of(queue) == ["young", "old", "younger"]


@pytest.mark.spec("§14.3")
async def test_without_capacity_for_the_background_only_the_rest_is_claimed(queue) -> None:
    names = ("critical", "user_initiated", "background")
    await queue.enqueue_many([fire(name, name) for name in names])
    assert await keys_of(queue, least="critical") == ["critical"]
    assert await keys_of(queue, least="user_initiated") == ["user_initiated"]
    assert await keys_of(queue, least="user_initiated") == []
    assert await keys_of(queue) == ["background"]


@pytest.mark.spec("§14.3")
async def test_suspended_items_resume_in_the_order_of_suspension(queue) -> None:
    await queue.enqueue_many([fire(key) for key in "abcd"])
    a, b, c = await queue.claim(3, 1000)
    assert await queue.suspend([c, a]) == [True, True]
    await queue.suspend([b])
    depth = await queue.depth()
    assert (depth.suspended["background"], depth.ready["background"]) == (3, 1)
    assert [item.key for item in await queue.peek(2, 1, "suspended")] == ["a", "b"]
    assert [item.key for item in await queue.peek(5)] == ["c", "a", "b", "d"]
    assert await keys_of(queue, least="user_initiated") == []
    resumed = await queue.claim(4, 1000)
    assert [claim.key for claim in resumed] == ["c", "a", "b", "d"]
    assert await queue.suspend([a]) == [False]


@pytest.mark.spec("§14.3")
async def test_the_order_of_suspension_is_of_time_and_holds_for_hundreds_at_once(
    queue, clock
) -> None:
    await queue.enqueue_many([fire(f"k{n:03}") for n in range(300)])
    claims = [*await queue.claim(150, 1000), *await queue.claim(150, 1000)]
    await queue.suspend(claims[::-1][:200])
    clock.advance(1)
    await queue.suspend(claims[::-1][200:])
    assert [item.key for item in await queue.peek(300)] == [claim.key for claim in claims[::-1]]


@pytest.mark.spec("§14.3")
@pytest.mark.parametrize("end", ["put_off", "retry", "reap", "suspend"])
async def test_a_suspended_item_has_its_place_until_it_is_done(queue, clock, end) -> None:
    await queue.enqueue_many([fire(key) for key in "abcd"])
    a, b, c = await queue.claim(3, 1000)
    await queue.suspend([c, b, a])
    [resumed] = await queue.claim(1, 1000)
    clock.advance(1000)
    ends = {
        "put_off": lambda: queue.put_off([resumed], [0], "worker_stopped"),
        "retry": lambda: queue.retry([resumed], [0], "flaky"),
        "reap": queue.reap,
        "suspend": lambda: queue.suspend([resumed]),
    }
    await ends[end]()
    assert await keys_of(queue, limit=1) == ["c"]
    assert await keys_of(queue) == ["b", "a", "d"]


@pytest.mark.spec("§14.3")
@pytest.mark.parametrize("state", ["delayed", "in_flight"])
async def test_a_more_urgent_cause_takes_the_place_of_a_suspension(queue, clock, state) -> None:
    await queue.enqueue_many([fire("a"), fire("b", "user_initiated")])
    [b, a] = await queue.claim(2, 1000)
    await queue.suspend([a])
    [a] = await queue.claim(1, 1000)
    if state == "delayed":
        await queue.put_off([a], [10], "later")
    await queue.put_off([b], [0], "later")
    clock.advance(1)
    await queue.enqueue(fire("a", "user_initiated", "c2"))
    clock.advance(1000)
    await queue.reap()
    assert [item.key for item in await queue.peek(2)] == (["a"] if state == "in_flight" else [])
    assert await keys_of(queue, limit=1) == ["b"]
    assert await keys_of(queue) == ["a"]


@pytest.mark.spec("§14.3")
async def test_what_was_suspended_before_redis_lost_it_waits_in_its_old_place(queue, clock) -> None:
    await queue.enqueue(fire("other"))
    [other] = await queue.claim(1, 1000)
    now_ms = clock.now_ms
    # The clock of whoever recorded the suspensions may be ahead.
    lost = {"a": now_ms + 2, "b": now_ms - 9, "c": now_ms + 1, "d": 0}
    await queue.enqueue_many(
        [replace(fire(key), suspended_at_ms=at_ms) for key, at_ms in lost.items()]
    )
    assert (await queue.depth()).suspended["background"] == 3
    await queue.suspend([other])
    assert [item.key for item in await queue.peek(9)] == ["b", "c", "a", "other", "d"]
    assert await keys_of(queue, limit=2) == ["b", "c"]
    assert (await queue.enqueue(replace(fire("b"), suspended_at_ms=now_ms))).state == "known"
    assert await keys_of(queue) == ["a", "other", "d"]


async def test_a_worker_that_sleeps_is_woken_for_what_was_suspended_before(queue) -> None:
    async with anyio.create_task_group() as tasks:
        woken = []

        async def sleep() -> None:
            woken.append(await queue.wait(5))

        tasks.start_soon(sleep)
        await anyio.wait_all_tasks_blocked()
        await queue.enqueue(replace(fire("a"), suspended_at_ms=1))
    assert woken == [True]


@pytest.mark.parametrize("at_ms", [-1, 10**14 + 1])
async def test_a_time_of_suspension_is_a_time(queue, at_ms) -> None:
    with pytest.raises(QueueError) as refused:
        await queue.enqueue(replace(fire("a"), suspended_at_ms=at_ms))
    assert refused.value.code == "queue_argument_invalid"


@pytest.mark.spec("§14.3")
async def test_a_suspension_is_no_attempt(queue) -> None:
    await queue.enqueue(fire("a"))
    for _ in range(3):
        (claim,) = await queue.claim(1, 1000)
        assert claim.attempt == 1
        await queue.suspend([claim])


async def test_a_suspended_item_takes_its_successor_along(queue) -> None:
    await queue.enqueue(fire("a"))
    claims = await queue.claim(1, 1000)
    await queue.enqueue(fire("a", cause="c2"))
    await queue.suspend(claims)
    (claim,) = await queue.claim(1, 1000)
    assert claim.causes == ("c1", "c2")


@pytest.mark.spec("§14.3")
async def test_a_more_urgent_cause_ends_a_suspension(queue) -> None:
    await queue.enqueue(fire("a"))
    await queue.suspend(await queue.claim(1, 1000))
    await queue.enqueue(fire("a", "background", "c2"))
    assert await keys_of(queue, least="user_initiated") == []
    await queue.enqueue(fire("a", "critical", "c3"))
    (claim,) = await queue.claim(1, 1000, "critical")
    assert (claim.key, claim.causes) == ("a", ("c1", "c2", "c3"))
    assert (await queue.depth()).suspended["background"] == 0


async def test_a_paused_queue_gives_nothing_and_takes_everything(queue) -> None:
    await queue.enqueue_many([fire("a"), fire("b", "critical")])
    (claim,) = await queue.claim(1, 1000)
    assert [await queue.pause(), await queue.pause()] == [True, False]
    assert await queue.claim(10, 1000) == []
    await queue.enqueue(fire("c"))
    assert await queue.acknowledge([claim]) == [True]
    assert (await queue.depth()).paused
    assert [item.key for item in await queue.peek(5)] == ["a", "c"]
    assert [await queue.resume(), await queue.resume()] == [True, False]
    assert await keys_of(queue) == ["a", "c"]


async def test_a_paused_priority_lets_the_others_pass(queue) -> None:
    await queue.enqueue_many([fire("a"), fire("b", "critical"), fire("c", "user_initiated")])
    await queue.pause("critical")
    await queue.pause("background")
    assert (await queue.depth()).paused_priorities == {"critical", "background"}
    assert await keys_of(queue) == ["c"]
    await queue.resume("critical")
    assert await keys_of(queue) == ["b"]
    assert await queue.resume("background")
    assert await keys_of(queue) == ["a"]


async def test_a_retry_that_is_due_in_a_paused_queue_waits(queue, clock) -> None:
    await queue.enqueue(fire("a"))
    await queue.retry(await queue.claim(1, 1000), [10], "flaky")
    await queue.pause()
    clock.advance(10)
    assert await keys_of(queue) == []
    assert not await queue.wait(0.02)
    await queue.resume()
    assert await keys_of(queue) == ["a"]


@pytest.mark.parametrize("state", ["ready", "delayed", "suspended", "dead"])
async def test_a_cancelled_item_leaves_nothing_behind(queue, redis, state) -> None:
    await queue.enqueue_many([fire("a"), fire("b")])
    if state != "ready":
        claims = await queue.claim(1, 1000)
        ways = {
            "delayed": lambda: queue.retry(claims, [50], "flaky"),
            "suspended": lambda: queue.suspend(claims),
            "dead": lambda: queue.bury(claims),
        }
        await ways[state]()
    assert await queue.cancel(["a", "a", "never"]) == ["cancelled", "unknown", "unknown"]
    assert await keys_of(queue) == ["b"]
    left = {key.removeprefix(queue.prefix.encode()) async for key in redis.scan_iter()}
    assert left <= {b"item:b", b"in-flight", b"claims", b"stamp", b"clock"}


async def test_what_is_live_and_what_is_dead_under_a_key_are_cancelled_together(
    queue, redis
) -> None:
    await queue.enqueue(fire("a"))
    await queue.bury(await queue.claim(1, 1000))
    await queue.enqueue(fire("a", cause="c2"))
    assert await queue.cancel(["a"]) == ["cancelled"]
    assert (await queue.peek(5), await buried(redis, queue)) == ([], {})
    assert (await queue.enqueue(fire("a"))).state == "new"


@pytest.mark.parametrize("end", ["acknowledge", "retry", "put_off", "bury", "suspend", "reap"])
async def test_a_cancelled_claim_ends_the_item_however_it_ends(queue, redis, clock, end) -> None:
    await queue.enqueue(fire("a"))
    claims = await queue.claim(1, 1000)
    await queue.enqueue(fire("a", cause="dropped"))
    assert await queue.cancel(["a"]) == ["stopping"]
    clock.advance(1000)
    ends = {
        "acknowledge": lambda: queue.acknowledge(claims),
        "retry": lambda: queue.retry(claims, [0], "flaky"),
        "put_off": lambda: queue.put_off(claims, [0], "nobody was there"),
        "bury": lambda: queue.bury(claims),
        "suspend": lambda: queue.suspend(claims),
        "reap": queue.reap,
    }
    assert await ends[end]() in ([True], 1)
    assert [key async for key in redis.scan_iter(f"{queue.prefix}item:*")] == []
    assert await buried(redis, queue) == {}
    assert await queue.claim(5, 1000) == []


async def test_what_is_asked_after_a_cancellation_is_done(queue) -> None:
    await queue.enqueue(fire("a"))
    claims = await queue.claim(1, 1000)
    await queue.cancel(["a"])
    assert (await queue.enqueue(fire("a"))).state == "successor"
    await queue.retry(claims, [0], "flaky")
    (claim,) = await queue.claim(1, 1000)
    assert (claim.causes, claim.attempt) == (("c1",), 1)


async def test_each_cause_carries_its_lineage(queue) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await queue.enqueue(NewItem("a", "background", "c1", b"", "op-1", trace))
    await queue.enqueue(NewItem("a", "background", "c2", b""))
    claims = await queue.claim(1, 1000)
    await queue.enqueue(NewItem("a", "background", "c3", b"", "op ü 3"))
    await queue.retry(claims, [0], "flaky")
    claims = await queue.claim(1, 1000)
    expected = (("op-1", trace), ("", ""), ("op ü 3", ""))
    assert (claims[0].causes, claims[0].lineage) == (("c1", "c2", "c3"), expected)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (NewItem("k", "background", "c", b"", "o" * 513), "queue_item_too_large"),
        (NewItem("k", "background", "ü" * 257, b""), "queue_item_too_large"),
        (NewItem("k", "background", "c", b"", "o\0p"), "queue_argument_invalid"),
        (NewItem("k", "background", "c", b"", "o", "00-x"), "queue_argument_invalid"),
        (NewItem("k", "user_active_session", "c", b""), "queue_unknown_priority"),
    ],
)
async def test_a_bad_item_is_refused_with_its_whole_batch(queue, bad, code) -> None:
    with pytest.raises(QueueError) as raised:
        await queue.enqueue_many([fire("good"), bad])
    assert raised.value.code == code
    assert await queue.peek(5) == []


async def test_pages_of_every_state_follow_each_other(queue, clock) -> None:
    await queue.enqueue_many([fire(f"k{n}") for n in range(6)])
    assert [item.key for item in await queue.peek(2, 3)] == ["k3", "k4"]
    claims = await queue.claim(4, 60_000)
    await queue.retry(claims[:2], [700, 300], "flaky")
    delayed = await queue.peek(5, 0, "delayed")
    assert [
        (claim.key, claim.state_ends_at_ms - clock.now_ms, claim.error) for claim in delayed
    ] == [
        ("k1", 300, "flaky"),
        ("k0", 700, "flaky"),
    ]
    flying = await queue.peek(1, 1, "in_flight")
    assert [(claim.key, claim.state_ends_at_ms - clock.now_ms) for claim in flying] == [
        ("k3", 60_000)
    ]


@pytest.mark.parametrize(
    "look",
    [
        lambda queue: queue.peek(0),
        lambda queue: queue.peek(1, 10_001),
        lambda queue: queue.peek(1, 0, "lost"),
        lambda queue: queue.peek(1001),
        lambda queue: queue.peek(1, -1),
    ],
)
async def test_a_page_outside_its_bounds_is_refused(queue, look) -> None:
    with pytest.raises(QueueError) as raised:
        await look(queue)
    assert raised.value.code == "queue_argument_invalid"


async def test_an_unknown_priority_is_refused_everywhere(queue) -> None:
    for call in (queue.pause("x"), queue.resume("x"), queue.claim(1, 1, "x"), queue.wait(1, "x")):
        with pytest.raises(QueueError) as raised:
            await call
        assert raised.value.code == "queue_unknown_priority"


def test_a_queue_that_no_table_names_is_refused(redis) -> None:
    with pytest.raises(QueueError) as raised:
        WorkQueue(redis, "unheard-of")
    assert raised.value.code == "queue_argument_invalid"
