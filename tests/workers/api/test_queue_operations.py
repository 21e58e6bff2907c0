"""Operators over HTTP: pauses, dead letters by why, requeuing."""

import pytest
from fakeredis import FakeAsyncRedis, FakeServer

from kernel.work.contents import BINDING_QUEUE
from queues.queue.items import NewItem
from queues.queue.outbox_relay import OutboxRelay
from tests.kernel.build import FakeHost
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import Door, error_of, running_door, transport_to
from workers.client import GatewayError, Rotulus

pytestmark = pytest.mark.anyio


async def test_a_queue_or_a_priority_is_paused_and_resumed(door: Door):
    queue = door.services.work.queues[BINDING_QUEUE]
    least_urgent = queue.priorities[-1].name
    for body in ({}, {"priority": least_urgent}):
        for verb, changed in (("pause", True), ("pause", False), ("resume", True)):
            answer = await door.send(f"{BINDINGS}/{verb}", body)
            assert answer.json() == {"changed": changed}, verb
    await door.send(f"{BINDINGS}/pause", {"priority": least_urgent})
    shown = (await door.http.get("/v1/queues")).json()["queues"][BINDING_QUEUE]
    assert (shown["paused"], shown["paused_priorities"]) == (False, [least_urgent])
    await door.send(f"{BINDINGS}/pause", {"decided_by": "ada", "reason": "an exchange"})
    [part, whole] = sorted(
        (await door.http.get("/v1/queues")).json()["pauses"], key=lambda pause: pause["decided_by"]
    )
    assert (part["priority"], part["decided_by"], part["reason"]) == (
        least_urgent,
        "127.0.0.1",
        "",
    )
    assert (whole["priority"], whole["decided_by"], whole["reason"]) == (
        None,
        "ada at 127.0.0.1",
        "an exchange",
    )
    wrong = await door.send(f"{BINDINGS}/pause", {"priority": "never"})
    error_of(wrong, 422, "queue_unknown_priority")


async def test_a_pause_is_decided_while_redis_is_away_and_the_relay_carries_it_there():
    server = FakeServer()
    async with running_door(host=FakeHost().host, redis=FakeAsyncRedis(server=server)) as door:
        queue = door.services.work.queues[BINDING_QUEUE]
        relay = OutboxRelay(door.ledger, queue, lambda: 0.0)
        server.connected = False
        answer = await door.send(f"{BINDINGS}/pause", {})
        assert (answer.status_code, answer.json()) == (200, {"changed": True})
        server.connected = True
        assert await queue.paused_priorities() == frozenset()
        await relay.look()
        assert await queue.paused_priorities() == {None}


async def test_dead_letters_are_listed_by_signature_and_requeued(door: Door):
    requests = await enqueued(door, BINDINGS, *(binding(name) for name in "abc"))
    ids = [request["request_id"] for request in requests]
    queue = door.services.work.queues[BINDING_QUEUE]
    for request_id, signature in zip(ids, ("odd", "broken", "broken"), strict=True):
        await given_up(door, BINDING_QUEUE, request_id, signature)
    await queue.enqueue(NewItem(ids[0], queue.priorities[-1].name, "cause", b"{}"))
    await queue.bury(await queue.claim(1, 1000))
    document = (await door.http.get(f"{BINDINGS}/dead-letters")).json()
    assert document["by_signature"] == {"broken": 2, "odd": 1}
    assert {letter["request_id"] for letter in document["dead_letters"]} == set(ids)
    page = {"error_signature": "broken", "limit": 1}
    first = (await door.http.get(f"{BINDINGS}/dead-letters", params=page)).json()
    page["after"] = first["next_after"]
    second = (await door.http.get(f"{BINDINGS}/dead-letters", params=page)).json()
    assert [
        letter["request_id"] for letter in first["dead_letters"] + second["dead_letters"]
    ] == sorted(ids[1:])
    assert second["next_after"] is None
    of_all = (await door.http.get("/v1/dead-letters")).json()
    assert of_all["dead_letters"] == document["dead_letters"]
    async with Rotulus("http://127.0.0.1", transport=transport_to(door.app)) as rotulus:
        by_client = [letter["request_id"] async for letter in rotulus.records.dead_letters()]
    assert by_client == sorted(ids)

    body = {"request_ids": ids[:1], "decided_by": "ada"}
    answer = (await door.send(f"{BINDINGS}/requeue", body)).json()
    status = (await door.http.get(f"{BINDINGS}/requests/{ids[0]}")).json()
    assert status["settled_by"] == "ada at 127.0.0.1"
    assert answer["requests"][0]["duplicate"] is False
    again = (await door.send(f"{BINDINGS}/requeue", {"request_ids": ids[:1]})).json()
    assert again["requests"] == [answer["requests"][0] | {"duplicate": True}]
    assert (await queue.depth()).dead == 0
    left = (await door.http.get(f"{BINDINGS}/dead-letters")).json()
    assert left["by_signature"] == {"broken": 2}
    new = answer["requests"][0]["request_id"]
    error = error_of(
        await door.send(f"{BINDINGS}/requeue", {"request_ids": [ids[1], new]}),
        409,
        "work_request_not_dead",
    )
    assert error["details"]["index"] == 1


async def test_what_was_given_up_is_dismissed_with_a_reason(door: Door):
    [request] = await enqueued(door, BINDINGS, binding("a"))
    dead = request["request_id"]
    await given_up(door, BINDING_QUEUE, dead, "broken")
    body = {"request_ids": [dead], "reason": "the case was closed", "decided_by": "ada"}
    error_of(await door.send(f"{BINDINGS}/dismiss", body | {"reason": ""}), 422, "INVALID_REQUEST")
    assert (await door.send(f"{BINDINGS}/dismiss", body)).json() == {"dismissed": 1}
    assert (await door.send(f"{BINDINGS}/dismiss", body)).json() == {"dismissed": 0}
    assert (await door.http.get(f"{BINDINGS}/dead-letters")).json()["dead_letters"] == []
    status = (await door.http.get(f"{BINDINGS}/requests/{dead}")).json()
    assert status["dismissed"] == "the case was closed"
    assert status["settled_by"] == "ada at 127.0.0.1"


@pytest.mark.parametrize("verb", ["pause", "resume", "requeue", "dismiss", "dead-letters"])
async def test_a_queue_that_is_not_there_is_said_to_be_unknown(door: Door, verb):
    path = f"/v1/queues/nowhere/{verb}"
    if verb == "dead-letters":
        answer = await door.http.get(path)
    else:
        body = {"request_ids": ["x"]} if verb in ("requeue", "dismiss") else {}
        body |= {"reason": "why"} if verb == "dismiss" else {}
        answer = await door.send(path, body)
    error_of(answer, 404, "work_queue_unknown")


async def test_requests_are_listed_and_searched_in_pages(door: Door):
    requests = await enqueued(door, BINDINGS, *(binding(name) for name in "abc"))
    ids = [request["request_id"] for request in requests]
    await given_up(door, BINDING_QUEUE, ids[1], "odd")
    first = (await door.http.get(f"{BINDINGS}/requests", params={"limit": 2})).json()
    rest = {"limit": 2, "after": first["next_after"]}
    second = (await door.http.get(f"{BINDINGS}/requests", params=rest)).json()
    listed = first["requests"] + second["requests"]
    assert [request["request_id"] for request in listed] == ids[::-1]
    assert second["next_after"] is None
    dead = {"state": "dead_letter", "words": "ODD"}
    [letter] = (await door.http.get(f"{BINDINGS}/requests", params=dead)).json()["requests"]
    assert (letter["request_id"], letter["request_key"], letter["reason"]) == (ids[1], "b", "odd")
    async with Rotulus("http://127.0.0.1", transport=transport_to(door.app)) as rotulus:
        by_client = [
            request["request_id"]
            async for request in rotulus.records.requests(BINDING_QUEUE, state="open")
        ]
        everywhere = [request["request_id"] async for request in rotulus.records.requests()]
        [named] = [request async for request in rotulus.records.requests(request_id=ids[1])]
        with pytest.raises(GatewayError, match="no queue is called"):
            await anext(rotulus.records.requests("none"))
    assert by_client == [ids[2], ids[0]]
    assert everywhere == ids[::-1]
    assert (named["queue"], named["state"]) == (BINDING_QUEUE, "dead_letter")
    wrong = await door.http.get(f"{BINDINGS}/requests", params={"state": "asleep"})
    assert wrong.status_code == 422
    error_of(await door.http.get("/v1/queues/none/requests"), 404, "work_queue_unknown")
