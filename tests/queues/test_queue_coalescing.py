"""The same work asked for again."""

import pytest

from kernel.values import fleet_protocol
from kernel.work.retry_policy import WORKER_ENDS_MAX as ENDS_MAX
from queues.queue.items import CAUSES_KEPT_MAX, NewItem
from tests.queues.model import buried

pytestmark = pytest.mark.anyio


def ask(cause: str, priority: str = "background_normal", payload: bytes = b"1") -> NewItem:
    return NewItem("node", priority, cause, payload)


async def states(queue, *items: NewItem) -> list[str]:
    return [enqueued.state for enqueued in await queue.enqueue_many(items)]


async def test_causes_of_one_key_share_an_item_in_order_of_arrival(queue) -> None:
    assert await states(queue, ask("c2"), ask("c1"), ask("c2"), ask("c3")) == [
        "new",
        "merged",
        "known",
        "merged",
    ]
    (claim,) = await queue.claim(10, 1000)
    assert claim.causes == ("c2", "c1", "c3")


async def test_the_newest_payload_and_the_more_urgent_priority_win(queue, clock) -> None:
    await states(queue, ask("c1", "background_low_priority", b"old"))
    await states(queue, ask("c2", "user_initiated_critical", b"new"))
    await states(queue, ask("c3", "background_normal", b"newest"))
    assert (await queue.depth()).ready["background_low_priority"] == 0
    (claim,) = await queue.claim(10, 1000)
    assert (claim.priority, claim.payload) == ("user_initiated_critical", b"newest")
    assert claim.deadline_ms == clock.now_ms + 5_000


async def test_a_nearer_deadline_survives_a_more_urgent_priority(queue, clock) -> None:
    await states(queue, ask("c1", "high_access_frequency"))
    deadline_ms = clock.now_ms + 300_000
    clock.advance(299_000)
    await states(queue, ask("c2", "user_active_session"))
    (claim,) = await queue.claim(1, 1000)
    assert (claim.deadline_ms, claim.priority) == (deadline_ms, "user_active_session")


@pytest.mark.parametrize("way", ["ready", "delayed", "suspended"])
async def test_a_known_cause_in_another_version_is_stated_anew(queue, clock, monkeypatch, way):
    """What a gateway of another version has left is done, once one of this version relays."""
    monkeypatch.setattr(fleet_protocol, "PROTOCOL", 999)
    await states(queue, ask("c1", payload=fleet_protocol.protocol_payload({"request_id": "r"})))
    monkeypatch.undo()
    claims = await queue.claim(1, 1000) if way != "ready" else []
    again = ask("c1", payload=fleet_protocol.protocol_payload({"request_id": "r"}))
    assert await states(queue, again) == ["known"]
    if way == "delayed":
        await queue.put_off(claims, [500], "protocol_differs")
        assert await states(queue, again) == ["known"]
        clock.advance(500)
    elif way == "suspended":
        await queue.suspend(claims)
        assert await states(queue, again) == ["known"]
    (claim,) = await queue.claim(1, 1000)
    assert fleet_protocol.is_spoken(claim.payload)


async def test_what_is_in_flight_keeps_the_version_that_its_holder_speaks(queue, monkeypatch):
    monkeypatch.setattr(fleet_protocol, "PROTOCOL", 999)
    old = fleet_protocol.protocol_payload({"request_id": "r"})
    monkeypatch.undo()
    await states(queue, ask("c1", payload=old))
    await queue.claim(1, 1000)
    assert await states(
        queue, ask("c1", payload=fleet_protocol.protocol_payload({"request_id": "r"}))
    ) == ["known"]
    (flying,) = await queue.peek(1, 0, "in_flight")
    assert flying.payload == old


async def test_a_known_cause_changes_nothing(queue, clock) -> None:
    await states(queue, ask("c1", payload=b"first"))
    before = await queue.peek(1)
    clock.advance(10)
    assert await states(queue, ask("c1", "user_initiated_critical", b"again")) == ["known"]
    assert await queue.peek(1) == before


async def test_a_cause_in_flight_makes_no_successor(queue) -> None:
    await states(queue, ask("c1"))
    claims = await queue.claim(1, 1000)
    assert await states(queue, ask("c1")) == ["known"]
    assert await queue.acknowledge(claims) == [True]
    assert await queue.claim(1, 1000) == []


async def test_a_new_cause_in_flight_follows_after_the_acknowledgement(queue, clock) -> None:
    await states(queue, ask("c1"))
    claims = await queue.claim(1, 1000)
    clock.advance(5)
    assert await states(queue, ask("c2", payload=b"2"), ask("c2"), ask("c3", payload=b"3")) == [
        "successor",
        "known",
        "successor",
    ]
    assert await queue.claim(1, 1000) == []
    await queue.acknowledge(claims)
    (after,) = await queue.claim(1, 1000)
    assert (after.causes, after.payload, after.attempt) == (("c2", "c3"), b"3", 1)
    assert after.enqueued_at_ms == clock.now_ms


async def test_a_retry_takes_its_successor_along(queue) -> None:
    await states(queue, ask("c1"))
    claims = await queue.claim(1, 1000)
    await states(queue, ask("c2", "user_initiated_critical", b"2"))
    await queue.retry(claims, [0], "flaky")
    (after,) = await queue.claim(1, 1000)
    assert (after.causes, after.payload, after.attempt) == (("c1", "c2"), b"2", 2)
    assert after.priority == "user_initiated_critical"


async def test_an_expired_claim_takes_its_successor_along(queue, clock) -> None:
    await states(queue, ask("c1"))
    await queue.claim(1, 1000)
    await states(queue, ask("c2"))
    clock.advance(1000)
    assert await queue.reap() == 1
    (after,) = await queue.claim(1, 1000)
    # Nobody had begun it, so the claim that expired was no attempt.
    assert (after.causes, after.attempt) == (("c1", "c2"), 1)


async def test_a_successor_outlives_the_burial_of_its_item(queue, redis) -> None:
    await states(queue, ask("c1"))
    claims = await queue.claim(1, 1000)
    await states(queue, ask("c2"))
    await queue.bury(claims)
    assert [claim.causes for claim in await queue.claim(5, 1000)] == [("c2",)]
    assert await buried(redis, queue) == {"node": ["c1"]}


async def test_a_cause_that_joins_a_delayed_item_does_not_hasten_it(queue, clock) -> None:
    await states(queue, ask("c1"))
    await queue.retry(await queue.claim(1, 1000), [500], "flaky")
    assert await states(queue, ask("c2", "user_initiated_critical"), ask("c1")) == [
        "merged",
        "known",
    ]
    clock.advance(499)
    assert await queue.claim(1, 1000) == []
    clock.advance(1)
    (claim,) = await queue.claim(1, 1000)
    assert (claim.causes, claim.priority) == (("c1", "c2"), "user_initiated_critical")


async def test_causes_beyond_the_limit_are_counted_but_not_kept(queue) -> None:
    requests = [ask(f"c{n}") for n in range(CAUSES_KEPT_MAX + 3)]
    await queue.enqueue_many(requests[:1000])
    await queue.enqueue_many(requests[1000:])
    (claim,) = await queue.claim(1, 1000)
    assert len(claim.causes) == CAUSES_KEPT_MAX
    assert claim.causes_count == CAUSES_KEPT_MAX + 3


async def test_a_large_successor_merges_within_the_limit(queue) -> None:
    await queue.enqueue_many([ask(f"a{n}") for n in range(1000)])
    claims = await queue.claim(1, 1000)
    await queue.enqueue_many([ask(f"b{n}") for n in range(1000)])
    await queue.retry(claims, [0], "flaky")
    (claim,) = await queue.claim(1, 1000)
    assert claim.causes == tuple(f"a{n}" for n in range(1000))
    assert claim.causes_count == 2000


@pytest.mark.parametrize("joins", ["while it was claimed", "after its last claim had expired"])
async def test_what_joins_an_item_that_is_only_to_be_given_up_is_an_item_of_its_own(
    queue, redis, clock, joins: str
) -> None:
    """It ended its workers; the next claim buries what had been tried, and no more."""
    await states(queue, ask("tried"))
    for attempt in range(1, ENDS_MAX + 1):
        (claim,) = await queue.claim(1, 1000)
        assert await queue.begin([claim]) == [True]
        if attempt == ENDS_MAX and joins == "while it was claimed":
            assert await states(queue, ask("later")) == ["successor"]
        clock.advance(2000)
        await queue.reap()
    if joins != "while it was claimed":
        assert await states(queue, ask("later")) == ["successor"]
    assert await states(queue, ask("later"), ask("tried")) == ["known", "known"]
    (claim,) = await queue.claim(1, 1000)
    assert claim.causes == ("tried",)
    await queue.bury([claim])
    assert await buried(redis, queue) == {"node": ["tried"]}
    (claim,) = await queue.claim(1, 1000)
    assert (claim.causes, claim.attempt, claim.ends) == (("later",), 1, None)
