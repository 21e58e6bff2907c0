"""A packed item: one string from beginning to end, and a hash as soon as anything else happens."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.queue.items import Claim, Enqueued, NewItem
from queues.queue.work_queue import WorkQueue
from tests.queues.conftest import VirtualClock

pytestmark = pytest.mark.anyio

PRIORITY = "background_normal"


def item(key: str, cause: str = "c", payload: bytes = b"{}", **fields: Any) -> NewItem:
    return NewItem(key, PRIORITY, cause, payload, **fields)


async def type_of(redis: Redis, queue: WorkQueue, key: str) -> str:
    return (await redis.type(f"{queue.prefix}item:{key}")).decode()


async def claims_in(redis: Redis, queue: WorkQueue) -> dict[bytes, bytes]:
    return await redis.hgetall(f"{queue.prefix}claims")


async def claimed(queue: WorkQueue, *keys: str) -> list[Claim]:
    await queue.enqueue_many([item(key) for key in keys])
    return await queue.claim(len(keys), 1000)


async def test_an_item_is_one_string_until_it_is_done(redis, queue) -> None:
    await queue.enqueue(item("a", operation_id="an-operation"))
    await queue.enqueue(item("a"))
    claims = await queue.claim(1, 1000)
    assert await type_of(redis, queue, "a") == "string"
    assert await claims_in(redis, queue) == {b"a": claims[0].token.encode()}
    assert await queue.enqueue(item("a")) == Enqueued("a", "known")
    assert await queue.renew(claims, 1000) == [True]
    assert await type_of(redis, queue, "a") == "string"
    assert await queue.acknowledge(claims) == [True]
    assert await claims_in(redis, queue) == {}
    assert await type_of(redis, queue, "a") == "none"


Steps = Callable[[WorkQueue, Sequence[Claim]], Awaitable[Any]]
STEPS: dict[str, Steps] = {
    "begin": lambda queue, claims: queue.begin(claims),
    "retry": lambda queue, claims: queue.retry(claims, [9], "flaky"),
    "put_off": lambda queue, claims: queue.put_off(claims, [9], "nobody there"),
    "suspend": lambda queue, claims: queue.suspend(claims),
    "bury": lambda queue, claims: queue.bury(claims),
    "cancel": lambda queue, _: queue.cancel(["a"]),
    "another cause": lambda queue, _: queue.enqueue(item("a", "c2")),
}


@pytest.mark.parametrize("step", STEPS)
async def test_whatever_else_happens_to_a_claim_takes_it_with_it(redis, queue, step) -> None:
    claims = await claimed(queue, "a", "b")
    await STEPS[step](queue, claims[:1])
    assert await claims_in(redis, queue) == {b"b": claims[1].token.encode()}
    assert await type_of(redis, queue, "a") == ("none" if step == "bury" else "hash")


async def test_another_cause_makes_one_item_of_both_wherever_it_is(redis, queue) -> None:
    await queue.enqueue(item("a", "c1", b"1", operation_id="o-1"))
    assert (await queue.enqueue(item("a", "c2", b"2"))).state == "merged"
    (claim,) = await queue.claim(1, 1000)
    assert (claim.causes, claim.payload, claim.attempt) == (("c1", "c2"), b"2", 1)
    assert claim.lineage[0].operation_id == "o-1"


async def test_a_claim_of_what_redis_has_lost_holds_nothing_that_comes_after_it(
    redis, queue
) -> None:
    lost = await claimed(queue, "a")
    await redis.delete(f"{queue.prefix}item:a")
    assert (await queue.enqueue(item("a", "c2"))).state == "new"
    assert await queue.acknowledge(lost) == [False]
    assert [claim.causes for claim in await queue.claim(1, 1000)] == [("c2",)]


@pytest.mark.parametrize("lost", ["claims", "in-flight"])
async def test_an_item_is_delivered_again_where_redis_lost_a_part_of_its_claim(
    redis, queue, clock: VirtualClock, lost
) -> None:
    claims = await claimed(queue, "a")
    await redis.delete(f"{queue.prefix}{lost}")
    assert (await queue.enqueue(item("a"))).state == "known"
    clock.advance(1000)
    await queue.reap()
    assert await claims_in(redis, queue) == {}
    assert await queue.acknowledge(claims) == [False]
    assert [claim.key for claim in await queue.claim(2, 1000)] == ["a"]


async def test_a_claim_whose_end_nobody_would_see_is_forgotten(redis, queue) -> None:
    await claimed(queue, "a")
    await redis.delete(f"{queue.prefix}in-flight", f"{queue.prefix}item:a")
    await redis.hset(f"{queue.prefix}claims", "nobody's", "token")
    await queue.reap()
    assert await claims_in(redis, queue) == {}


async def test_a_record_of_a_version_that_packed_nothing_is_served(redis, queue, clock) -> None:
    fields = {"rank": 3, "deadline": 9, "enqueued": 1, "attempt": 0, "payload": b"p", "causes": 1}
    for key in ("a", "b"):
        await redis.hset(
            f"{queue.prefix}item:{key}", mapping={**fields, "state": "ready", "c:why": b"1\0op\0"}
        )
        await redis.zadd(f"{queue.prefix}ready:3", {key: 9})
    claims = await queue.claim(2, 1000)
    assert [(claim.key, claim.attempt, claim.causes) for claim in claims] == [
        ("a", 1, ("why",)),
        ("b", 1, ("why",)),
    ]
    assert await claims_in(redis, queue) == {}
    assert await queue.renew(claims[:1], 2000) == [True]
    clock.advance(1000)
    assert await queue.reap() == 1
    assert await queue.acknowledge(claims) == [True, False]


async def test_what_is_asked_for_in_one_turn_of_the_loop_goes_in_one_call(
    queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, send = [], queue.enqueue_many

    async def counted(items: Sequence[NewItem], mark: str = "") -> list[Enqueued]:
        sent.append(len(items))
        return await send(items, mark)

    monkeypatch.setattr(queue, "enqueue_many", counted)
    states = {}

    async def ask(number: int) -> None:
        states[number] = (await queue.enqueue(item(f"k-{number // 2}"))).state

    async with anyio.create_task_group() as tasks:
        for number in range(1201):
            tasks.start_soon(ask, number)
    assert sent == [1000, 201]
    assert [states[number] for number in range(4)] == ["new", "known", "new", "known"]


async def test_what_is_refused_is_refused_alone_and_what_redis_refuses_is_refused_to_all(
    queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: dict[str, str] = {}

    async def ask(new: NewItem) -> None:
        try:
            codes[new.key] = (await queue.enqueue(new)).state
        except QueueError as error:
            codes[new.key] = error.code

    async def ask_all(*items: NewItem) -> None:
        async with anyio.create_task_group() as tasks:
            for new in items:
                tasks.start_soon(ask, new)

    await ask_all(item("a"), NewItem("b", "no_priority", "c", b""), item("d"))
    assert codes == {"a": "new", "b": "queue_unknown_priority", "d": "new"}

    async def away(*_: object) -> list[Enqueued]:
        raise QueueError("queue_unavailable", "away")

    monkeypatch.setattr(queue, "enqueue_many", away)
    await ask_all(item("a"), item("d"))
    assert (codes["a"], codes["d"]) == ("queue_unavailable", "queue_unavailable")


async def test_where_the_task_that_sends_is_cancelled_another_sends_again(
    queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, is_first = queue.enqueue_many, True
    scope, states = anyio.CancelScope(), {}

    async def ended(items: Sequence[NewItem], mark: str = "") -> list[Enqueued]:
        nonlocal is_first
        if is_first:
            is_first = False
            scope.cancel()
            await anyio.sleep_forever()
        return await send(items, mark)

    monkeypatch.setattr(queue, "enqueue_many", ended)

    async def ask(key: str) -> None:
        states[key] = (await queue.enqueue(item(key))).state

    async def ask_first() -> None:
        with scope:
            await ask("a")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask_first)
        for key in ("b", "d"):
            tasks.start_soon(ask, key)
    assert states == {"b": "new", "d": "new"}
