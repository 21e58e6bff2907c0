"""Asking for recomputes over HTTP, and the cascades that a gateway writes down."""

import anyio
import pytest

from kernel.authority import request_recording
from kernel.ledger import schema
from kernel.transaction.kernel import Kernel
from tests.kernel.build import FakeHost, create, memory_ledger, submit
from tests.workers.api.door import claim, error_of, eventually, rows, running_door, source
from tests.workers.api.door import understanding as understanding_intent
from workers.use_cases.authority_sweeps import DeferredCascades

SESSION = "00000000-0000-4000-8000-000000000001"
DECLARATION = {
    "session_id": SESSION,
    "ontology": {
        "hypothesis_space_id": "h",
        "hypothesis_version": "1",
        "causal_graph_ref": "g",
        "causal_graph_version": "1",
    },
    "hypotheses": ["a", "b"],
}


@pytest.fixture
async def door():
    async with running_door(host=FakeHost().host) as running:
        await running.http.post("/v1/sessions", json=DECLARATION)
        await operate(running, source("s"), understanding_intent("cu:1", "s"))
        yield running


async def operate(door, *intents):
    path = f"/v1/sessions/{SESSION}/operations"
    answer = await door.http.post(path, json={"intents": [*intents]})
    assert answer.status_code == 200, answer.text
    for result in answer.json()["results"]:
        assert result["validation_result"] == "accepted", result


@pytest.mark.spec("§8.2")
async def test_who_asks_for_a_recompute_is_given_the_request(door):
    body = {"trigger_source_id": "a reader"}
    answer = await door.http.post("/v1/authority/cu:1/recompute", json=body)
    assert answer.status_code == 202
    request = answer.json()["request"]
    assert (request["target_cu_id"], request["trigger_kind"]) == ("cu:1", "user_request")
    assert request["priority"] == "user_initiated_critical"
    again = await door.http.post("/v1/authority/cu:1/recompute", json=body)
    assert again.json()["duplicate"]
    assert again.json()["request"] == request


async def test_what_cannot_be_recomputed_is_not_found(door):
    answer = await door.http.post(
        "/v1/authority/s/recompute", json={"trigger_source_id": "a reader"}
    )
    error_of(answer, 404, "not_found")


async def test_the_same_source_with_another_urgency_is_another_asking(door):
    path, body = "/v1/authority/cu:1/recompute", {"trigger_source_id": "a reader"}
    await door.http.post(path, json=body)
    answer = await door.http.post(path, json={**body, "priority": "background_normal"})
    error_of(answer, 422, "envelope_idempotency_conflict")


@pytest.mark.spec("§8.6")
async def test_the_sweeps_say_what_they_asked_for(door):
    document = (await door.http.post("/v1/authority/tick", json={})).json()
    assert document["requested"] == 0
    filled = (await door.http.post("/v1/authority/backfill")).json()
    assert filled["requested"] == 0  # its creation asked for it
    counted = {"understandings": 1, "materialized": 0, "requested": 1, "share": 0, "ready": False}
    assert filled["progress"] == counted
    assert (await door.http.get("/v1/authority/backfill")).json() == counted


async def test_a_sweep_that_runs_is_not_begun_again(door):
    door.services.sweeping.add("authority_decay_tick")
    error_of(await door.http.post("/v1/authority/tick", json={}), 409, "authority_sweep_running")


@pytest.mark.spec("§18.1")
async def test_a_sweep_that_the_throttle_puts_off_may_be_asked_for_again_and_goes_on():
    fake = FakeHost()
    ledger = memory_ledger(fake)
    nightly = {"cu_authority_strategy": "scheduled_nightly_only"}
    submit(ledger, create("cu:1", "ConsolidatedUnderstanding", **nightly))
    kernel = Kernel(throttle_ops_per_sec=1)
    async with running_door(ledger.store, host=fake.host, kernel=kernel) as door:
        answer = await door.http.post("/v1/authority/backfill")
        error_of(answer, 429, "authority_sweep_put_off")
        assert answer.headers["Retry-After"] == "1"
        fake.time_us += 1_100_000
        filled = (await door.http.post("/v1/authority/backfill")).json()
        assert filled["requested"] == 1


@pytest.mark.spec("K12")
async def test_a_gateway_writes_down_what_was_too_wide(door, monkeypatch):
    monkeypatch.setattr(request_recording, "CASCADE_REQUESTS_MAX", 1)
    await operate(
        door,
        understanding_intent("cu:2", "s"),
        claim("c", "s", "cu:1"),
        {
            "intent_kind": "link_input",
            "intent_key": "l",
            "source_node_id": "cu:1",
            "target_node_id": "cu:2",
            "essentiality": "core",
        },
    )
    change = {"intent_kind": "field_adapt", "intent_key": "f", "node_id": "c"}
    await operate(door, {**change, "fields": {"authority": 0.1}})

    def waiting():
        return [row for row in rows(door.services.ledger, schema.outbox) if row["open"]]

    assert [request["item_key"] for request in waiting() if request["queue"] == "authority-cascade"]
    cascades = DeferredCascades(door.services.ledger, door.services.write)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cascades.run)
        await eventually(lambda: all(queue["queue"] != "authority-cascade" for queue in waiting()))
        tasks.cancel_scope.cancel()
    assert {"cu:1", "cu:2"} <= {request["item_key"] for request in waiting()}


@pytest.mark.parametrize("source", ["\\ud800", "a\\u0000b", "", "x" * 513])
async def test_a_source_that_is_no_name_is_refused(door, source):
    answer = await door.http.post(
        "/v1/authority/cu:1/recompute",
        content=f'{{"trigger_source_id": "{source}"}}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422, answer.text
