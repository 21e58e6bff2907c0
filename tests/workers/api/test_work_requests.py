"""Asking for work over HTTP: once for each key, on record when answered, waited for, revoked."""

from dataclasses import replace
from typing import Any

import anyio
import pytest
from fakeredis import FakeAsyncRedis, FakeServer

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.work import requests
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from queues.queue.items import NewItem
from tests.kernel import attempts
from tests.kernel.build import FakeHost, create, findings, link, submit
from tests.workers.api.asking import BINDINGS, EXTRACTIONS, binding, done, enqueued, step
from tests.workers.api.door import SESSION, Door, error_of, rows, running_door
from workers.api import outcome_watch
from workers.views.surroundings import FleetServices

pytestmark = pytest.mark.anyio


async def outcomes_of(door: Door, path: str, ids: list[str], wait_s: float = 0) -> list[Any]:
    response = await door.send(f"{path}/outcomes", {"request_ids": ids, "wait_s": wait_s})
    assert response.status_code == 200, response.text
    outcomes: list[Any] = response.json()["outcomes"]
    return outcomes


@pytest.mark.spec("K19")
async def test_what_is_answered_is_on_the_record(door: Door):
    open_requests = await enqueued(door, BINDINGS, binding("a", note=[1]), binding("b"))
    stored = rows(door.ledger, schema.outbox)
    assert {request["request_id"] for request in open_requests} == {
        row["request_id"] for row in stored
    }
    assert [request["duplicate"] for request in open_requests] == [False, False]
    document = (await door.http.get(f"{BINDINGS}/requests/{open_requests[0]['request_id']}")).json()
    assert (document["state"], document["queue"], document["request_key"]) == (
        "open",
        BINDING_QUEUE,
        "a",
    )
    assert document["content"] == binding("a", note=[1])["content"]
    assert findings(door.ledger) == ()


async def test_a_request_is_shown_without_redis_too():
    server = FakeServer()
    async with running_door(host=FakeHost().host, redis=FakeAsyncRedis(server=server)) as door:
        [request] = await enqueued(door, BINDINGS, binding("a"))
        server.connected = False
        shown = await door.http.get(f"{BINDINGS}/requests/{request['request_id']}")
        assert (shown.json()["state"], shown.json()["progress"]) == ("open", None)
        page = await door.http.get(f"/queues/{BINDING_QUEUE}/requests/{request['request_id']}")
        assert "Redis does not answer" in page.text
        server.connected = True


@pytest.mark.spec("K6")
async def test_the_same_key_is_the_same_request_and_other_content_a_conflict(door: Door):
    [first] = await enqueued(door, BINDINGS, binding("a"))
    again = await enqueued(door, BINDINGS, binding("b"), binding("a"))
    assert again[1] == {"request_id": first["request_id"], "duplicate": True}
    body = {"requests": [binding("c"), binding("a", binding_id="other")]}
    error = error_of(await door.send(f"{BINDINGS}/requests", body), 409, "work_request_conflict")
    assert error["details"] == {"field": "request_key", "index": 1}
    assert len(rows(door.ledger, schema.outbox)) == 2, "all of an asking, or none of it"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (BINDINGS, {"requests": []}, 422, "INVALID_REQUEST"),
        (BINDINGS, {"requests": [binding(str(n)) for n in range(257)]}, 422, "INVALID_REQUEST"),
        (BINDINGS, {"requests": [binding("a") | {"delay_s": -1}]}, 422, "INVALID_REQUEST"),
        (BINDINGS, {"requests": [binding("a") | {"more": 1}]}, 422, "INVALID_REQUEST"),
        (BINDINGS, {"requests": [binding("a", binding_id=7)]}, 422, "work_request_invalid"),
        (EXTRACTIONS, {"requests": [step("r", priority="soon")]}, 422, "work_request_invalid"),
        (BINDINGS, {"requests": [binding("requeue:request:r")]}, 422, "work_request_key_reserved"),
        (BINDINGS, {"requests": [binding("schedule:s:0")]}, 422, "work_request_key_reserved"),
        ("/v1/queues/nowhere", {"requests": [binding("a")]}, 404, "work_queue_unknown"),
        ("/v1/queues/authority-recompute", {"requests": [binding("a")]}, 404, "work_queue_unknown"),
    ],
)
async def test_what_cannot_be_asked_for_is_refused_and_changes_nothing(
    door: Door, path, body, status, code
):
    error_of(await door.send(f"{path}/requests", body), status, code)
    assert rows(door.ledger, schema.outbox) == []


async def test_a_queue_that_is_full_says_when_to_ask_again(door: Door, monkeypatch):
    monkeypatch.setattr(requests, "OPEN_MAX", 2)
    await enqueued(door, BINDINGS, binding("a"), binding("b"))
    response = await door.send(f"{BINDINGS}/requests", {"requests": [binding("c")]})
    error_of(response, 429, "work_requests_too_many")
    assert int(response.headers["Retry-After"]) >= 1
    assert (await enqueued(door, BINDINGS, binding("a")))[0]["duplicate"], "a retry needs no room"
    await enqueued(door, EXTRACTIONS, step("r"))


async def test_a_request_may_wait_for_a_time(door: Door):
    [request] = await enqueued(door, EXTRACTIONS, step("r", delay_s=60))
    assert (await enqueued(door, EXTRACTIONS, step("r", delay_s=60)))[0]["duplicate"]
    document = (await door.http.get(f"{EXTRACTIONS}/requests/{request['request_id']}")).json()
    assert document["not_before"] > document["enqueued_at"]


async def test_a_request_is_found_in_its_own_queue_alone(door: Door):
    [request] = await enqueued(door, BINDINGS, binding("a"))
    for path in (f"{EXTRACTIONS}/requests/{request['request_id']}", f"{BINDINGS}/requests/nobody"):
        error_of(await door.http.get(path), 404, "work_request_unknown")
        error_of(await door.http.get(f"{path}/outcome"), 404, "work_request_unknown")
        body = {"reason": "why"}
        error_of(await door.send(f"{path}/cancel", body), 404, "work_request_unknown")
    body = {"request_ids": [request["request_id"], "nobody"]}
    error_of(await door.send(f"{BINDINGS}/outcomes", body), 404, "work_request_unknown")


async def test_an_outcome_is_answered_as_soon_as_it_is_on_the_record(door: Door):
    [request] = await enqueued(door, EXTRACTIONS, step("r"))
    path = f"{EXTRACTIONS}/requests/{request['request_id']}/outcome"
    assert (await door.http.get(path)).json()["state"] == "open"
    answers: list[Any] = []

    async def wait() -> None:
        answers.append((await door.http.get(path, params={"wait_s": 30})).json())

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await done(door, request["request_id"])
    [outcome] = answers
    assert outcome["state"] == "completed"
    assert outcome["operation_id"]
    assert outcome["closed_at"]
    assert (await door.http.get(path, params={"wait_s": 30})).json() == outcome


async def test_many_are_waited_for_until_all_of_them_ended_or_the_time_is_over(door: Door):
    first, second = await enqueued(door, EXTRACTIONS, step("r"), step("s"))
    ids = [second["request_id"], first["request_id"]]
    await done(door, first["request_id"])
    outcomes = await outcomes_of(door, EXTRACTIONS, ids, 0.05)
    assert [outcome["state"] for outcome in outcomes] == ["open", "completed"]
    assert [outcome["request_id"] for outcome in outcomes] == ids
    results: list[Any] = []

    async def wait() -> None:
        results.extend(await outcomes_of(door, EXTRACTIONS, ids, 30))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await done(door, second["request_id"])
    assert [result["state"] for result in results] == ["completed", "completed"]


async def test_a_wait_for_any_is_over_with_the_first_that_ends(door: Door):
    both = await enqueued(door, EXTRACTIONS, step("r"), step("s"))
    body = {"request_ids": [request["request_id"] for request in both], "wait_s": 30}
    states: list[list[str]] = []

    async def wait() -> None:
        answer = await door.send(f"{EXTRACTIONS}/outcomes", body | {"until": "any"})
        states.append([outcome["state"] for outcome in answer.json()["outcomes"]])

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert states == []
            await done(door, both[1]["request_id"])
        await wait()
    assert states == [["open", "completed"]] * 2


async def test_an_outcome_that_another_process_records_is_found_as_well(door: Door, monkeypatch):
    monkeypatch.setattr(outcome_watch, "LOOK_EVERY_S", 0.02)
    [request] = await enqueued(door, EXTRACTIONS, step("r"))
    results: list[Any] = []

    async def wait() -> None:
        results.extend(await outcomes_of(door, EXTRACTIONS, [request["request_id"]], 30))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            with door.ledger.transaction() as transaction:
                close(transaction, request["request_id"], "completed")
    assert results[0]["state"] == "completed"


@pytest.mark.parametrize(
    "body", [{"request_ids": ["r"] * 257}, {"request_ids": ["r"], "wait_s": 30.5}]
)
async def test_outcomes_of_too_many_or_after_too_long_are_not_waited_for(door: Door, body):
    error_of(await door.send(f"{EXTRACTIONS}/outcomes", body), 422, "INVALID_REQUEST")


async def test_waits_have_a_limit_and_end_with_the_process(door: Door, monkeypatch):
    open_requests = await enqueued(door, EXTRACTIONS, step("r"), step("s"))
    ids = [request["request_id"] for request in open_requests]
    monkeypatch.setattr(outcome_watch, "WAITED_FOR_MAX", 1)
    response = await door.send(f"{EXTRACTIONS}/outcomes", {"request_ids": ids, "wait_s": 30})
    error_of(response, 503, "waits_full")
    assert response.headers["Retry-After"]
    results: list[Any] = []

    async def wait() -> None:
        results.extend(await outcomes_of(door, EXTRACTIONS, ids[:1], 30))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            door.services.outcomes.stop()
    assert results[0]["state"] == "open"
    assert (await outcomes_of(door, EXTRACTIONS, ids[:1], 30))[0]["state"] == "open"


async def test_the_outcome_of_an_authority_is_waited_for_like_any_other(door: Door):
    submit(door.ledger, create("corpus/u-1", "ConsolidatedUnderstanding"))
    [row] = rows(door.ledger, schema.outbox)
    path = f"/v1/queues/authority-recompute/requests/{row['request_id']}/outcome"
    assert (await door.http.get(path)).json()["state"] == "open"


async def test_a_request_is_taken_back_once_and_leaves_the_queue(door: Door):
    [request] = await enqueued(door, BINDINGS, binding("a"))
    request_id = request["request_id"]
    queue = door.services.work.queues[BINDING_QUEUE]
    await queue.enqueue(NewItem(request_id, queue.priorities[-1].name, "cause", b"{}"))
    path = f"{BINDINGS}/requests/{request_id}/cancel"
    body = {"reason": "no longer wanted", "decided_by": "ada"}
    answer = (await door.send(path, body)).json()
    assert answer["cancelled"] is True
    request = answer["request"]
    assert (request["state"], request["reason"]) == ("cancelled", "no longer wanted")
    assert request["settled_by"] == "ada at 127.0.0.1"
    assert await queue.peek(10) == []
    again = (await door.send(path, {"reason": "another reason"})).json()
    assert (again["cancelled"], again["request"]) == (False, request)


async def test_a_recompute_has_a_status_and_is_not_taken_back(door: Door):
    submit(door.ledger, create("corpus/u-1", "ConsolidatedUnderstanding"))
    [row] = rows(door.ledger, schema.outbox)
    path = f"/v1/queues/{AUTHORITY_QUEUE}/requests/{row['request_id']}"
    document = (await door.http.get(path)).json()
    assert (document["state"], document["request_key"]) == ("open", None)
    assert document["content"]["target_cu_id"] == "corpus/u-1"
    refused = await door.send(f"{path}/cancel", {"reason": "no longer wanted"})
    error_of(refused, 409, "work_request_not_cancellable")
    given_up = attempts.given_up(row["request_id"], "broken").model_dump(mode="json")
    await door.reporter("work", {"queue": AUTHORITY_QUEUE, "reports": [given_up]})
    late = (await door.send(f"{path}/cancel", {"reason": "no longer wanted"})).json()
    assert late["cancelled"] is False
    assert (late["request"]["state"], late["request"]["reason"]) == ("dead_letter", "broken")


async def test_a_recompute_waits_for_what_feeds_it(door: Door):
    submit(door.ledger, create("corpus/u-1", "ConsolidatedUnderstanding"))
    submit(door.ledger, create("corpus/u-2", "ConsolidatedUnderstanding"))
    submit(door.ledger, link("e-1", "corpus/u-1", "corpus/u-2"))
    waiting = [row for row in rows(door.ledger, schema.outbox) if row["item_key"] == "corpus/u-2"]
    said = await why(door, f"/v1/queues/{AUTHORITY_QUEUE}", waiting[-1])
    assert said == "an understanding that feeds it, or one above that, is recomputed first"


async def why(door: Door, path: str, request: dict[str, Any]) -> str | None:
    answer = await door.http.get(f"{path}/requests/{request['request_id']}/waiting")
    assert answer.status_code == 200, answer.text
    return answer.json()["why"]


async def test_a_request_whose_sessions_gateway_is_away_says_so(door: Door):
    submit(
        door.ledger,
        create("corpus/u-1", "ConsolidatedUnderstanding", envelope={"session_id": SESSION}),
    )
    [row] = rows(door.ledger, schema.outbox)
    path = f"/v1/queues/{AUTHORITY_QUEUE}"
    sessions: list[str] = []

    def absent_owner(session_id: str) -> str:
        sessions.append(session_id)
        return "gateway-b"

    door.app.services = replace(door.services, fleet=FleetServices(absent_owner=absent_owner))
    away = "its session's gateway gateway-b is away; "
    assert (await why(door, path, row)).startswith(away)
    queue = door.services.work.queues[AUTHORITY_QUEUE]
    await queue.enqueue(NewItem(row["item_key"], queue.priorities[-1].name, "cause", b"{}"))
    assert (await why(door, path, row)).startswith(away)
    door.app.services = door.services
    assert await why(door, path, row) == f"no worker serves {AUTHORITY_QUEUE}"
    assert sessions == [f"requests:{AUTHORITY_QUEUE}", SESSION]


async def test_each_open_request_says_why_it_waits(door: Door):
    [later] = await enqueued(door, BINDINGS, binding("a") | {"delay_s": 60})
    assert (await why(door, BINDINGS, later)).startswith("it is not begun until it is due, at ")
    [now] = await enqueued(door, BINDINGS, binding("b"))
    assert "about to be put into its queue" in await why(door, BINDINGS, now)
    queue = door.services.work.queues[BINDING_QUEUE]
    await queue.enqueue(NewItem(now["request_id"], "background", "cause", b"{}"))
    assert await why(door, BINDINGS, now) == "no worker serves binding-evaluation"
    follows = {"attempt_number": 2, "prior_state": "pending", "current_state": "running"}
    later_step = {"request_key": "r-2", "content": step("r")["content"] | follows}
    first, second = await enqueued(door, EXTRACTIONS, step("r"), later_step)
    behind = f"it waits behind {first['request_id']}, an earlier step of its run"
    assert await why(door, EXTRACTIONS, second) == behind
    await door.send(f"{BINDINGS}/pause", {"decided_by": "ada"})
    assert (await why(door, BINDINGS, now)).endswith(" by ada at 127.0.0.1")
    await door.send(f"{BINDINGS}/requests/{now['request_id']}/cancel", {"reason": "enough"})
    assert await why(door, BINDINGS, now) is None
    answer = await door.http.get(f"{BINDINGS}/requests/unknown/waiting")
    error_of(answer, 404, "work_request_unknown")
