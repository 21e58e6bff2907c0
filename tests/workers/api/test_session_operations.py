"""Belief sessions through the door: declare, eliminate, query, audit."""

import anyio
import pytest

from kernel.ledger import schema
from tests.actors.harness import Gate, ScriptedStore
from tests.kernel.build import FakeHost
from tests.workers.api.door import (
    ONTOLOGY,
    SESSION,
    Door,
    error_of,
    is_uuid,
    log_length,
    rows,
    running_door,
    source,
)

pytestmark = pytest.mark.anyio

OTHER = "00000000-0000-4000-8000-000000000002"


def strike(observation_id: str, *eliminated: str, **fields) -> dict:
    body = {"source_id": "adapter://a", "observation_id": observation_id}
    return {**body, "eliminated": eliminated, **fields}


async def test_a_declaration_is_answered_with_201_and_the_snapshot(door: Door):
    response = await door.declare(SESSION, "c", "a", "b", metadata={"case_name": "A v. B"})
    assert response.status_code == 201
    body = response.json()
    assert body["session_id"] == SESSION
    assert body["snapshot"]["n_survivors"] == 3
    [session] = rows(door.ledger, schema.belief_sessions)
    assert (session["session_id"], session["title"]) == (SESSION, "A v. B")


async def test_a_declaration_without_an_id_is_given_one(door: Door):
    body = {"ontology": ONTOLOGY, "hypotheses": ["a"]}
    first = (await door.http.post("/v1/sessions", json=body)).json()["session_id"]
    second = (await door.http.post("/v1/sessions", json=body)).json()["session_id"]
    assert is_uuid(first)
    assert first != second
    assert (await door.http.get(f"/v1/sessions/{first}")).status_code == 200


async def test_the_same_declaration_again_is_answered_the_same_and_records_nothing(door: Door):
    first = await door.declare(SESSION, "a", "b")
    length = log_length(door.ledger)
    again = await door.declare(SESSION, "b", "a")
    assert (again.status_code, again.json()) == (201, first.json())
    assert log_length(door.ledger) == length


async def test_another_declaration_of_a_session_is_a_conflict(door: Door):
    await door.declare(SESSION, "a", "b")
    error = error_of(await door.declare(SESSION, "a", "c"), 409, "SESSION_EXISTS")
    assert error["details"] == {"session_id": SESSION}
    error_of(await door.declare(SESSION, "a", "b", stability_window=1), 409, "SESSION_EXISTS")


async def test_an_elimination_says_what_it_did_and_where_the_session_stands(door: Door):
    await door.declare(SESSION, "a", "b", "c")
    body = (await door.post("eliminate", strike("o-1", "a", "unheard-of"))).json()
    assert body["applied_eliminated"] == ["a"]
    assert body["ignored_eliminated"] == ["unheard-of"]
    assert body["snapshot"]["n_survivors"] == 2
    audit = (await door.http.get(f"/v1/sessions/{SESSION}/audit")).json()["events"]
    assert [event["verb"] for event in audit] == ["DECLARE_SESSION", "ELIMINATE"]
    assert audit[1]["event_id"] == body["audit_event_id"]
    assert audit[1]["delta"]["eliminated"] == ["a"]


async def test_the_same_observation_again_is_answered_the_same_and_recorded_once(door: Door):
    await door.declare(SESSION, "a", "b", "c")
    first = (await door.post("eliminate", strike("o-1", "a"))).json()
    await door.post("eliminate", strike("o-2", "b"))
    again = (await door.post("eliminate", strike("o-1", "a"))).json()
    assert again["audit_event_id"] == first["audit_event_id"]
    assert again["applied_eliminated"] == ["a"]
    assert again["snapshot"]["n_survivors"] == 1
    assert len(rows(door.ledger, schema.belief_events)) == 3


async def test_an_observation_with_other_content_is_a_conflict_and_changes_nothing(door: Door):
    await door.declare(SESSION, "a", "b", "c")
    await door.post("eliminate", strike("o-1", "a"))
    error_of(await door.post("eliminate", strike("o-1", "b")), 409, "CONFLICT")
    changed = strike("o-1", "a", justification={"rule": "another"})
    error_of(await door.post("eliminate", changed), 409, "CONFLICT")
    assert (await door.http.get(f"/v1/sessions/{SESSION}")).json()["n_survivors"] == 2


@pytest.mark.parametrize("quote", ["{}", '"{}"'])
async def test_if_match_lets_an_elimination_pass_only_on_the_head_it_names(door: Door, quote):
    await door.declare(SESSION, "a", "b", "c")
    [declared] = (await door.http.get(f"/v1/sessions/{SESSION}/audit")).json()["events"]
    head = quote.format(declared["event_id"])
    passed = await door.post("eliminate", strike("o-1", "a"), **{"If-Match": head})
    assert passed.status_code == 200
    stale = await door.post("eliminate", strike("o-2", "b"), **{"If-Match": head})
    details = error_of(stale, 409, "CONFLICT")["details"]
    assert details["head_event_id"] == passed.json()["audit_event_id"]
    assert len(rows(door.ledger, schema.belief_events)) == 2


async def test_a_session_that_validates_refuses_unknown_hypotheses_whole(door: Door):
    await door.declare(SESSION, "a", "b", validate_hypotheses=True)
    response = await door.post("eliminate", strike("o-1", "a", "z"))
    assert error_of(response, 422, "INVALID_HYPOTHESIS_ID")["details"]["invalid"] == ["z"]
    assert (await door.http.get(f"/v1/sessions/{SESSION}")).json()["n_survivors"] == 2
    assert len(rows(door.ledger, schema.belief_events)) == 1


async def test_the_audit_may_begin_after_an_event(door: Door):
    await door.declare(SESSION, "a", "b", "c")
    for name in "ab":
        await door.post("eliminate", strike(f"o-{name}", name))
    path = f"/v1/sessions/{SESSION}/audit"
    events = (await door.http.get(path)).json()["events"]
    since = await door.http.get(path, params={"since_event_id": events[0]["event_id"]})
    assert since.json()["events"] == events[1:]
    unknown = await door.http.get(path, params={"since_event_id": "no-such-event"})
    error_of(unknown, 404, "EVENT_NOT_FOUND")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", None),
        ("/audit", None),
        ("/eliminate", strike("o-1", "a")),
        ("/operations", {"intents": [source("s-1")]}),
        ("/envelopes", {}),
    ],
)
async def test_a_session_that_was_never_declared_is_not_found(door: Door, path, body):
    url = f"/v1/sessions/{OTHER}{path}"
    response = await (door.http.get(url) if body is None else door.http.post(url, json=body))
    error_of(response, 404, "SESSION_NOT_FOUND")
    assert log_length(door.ledger) == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hypotheses": "abc"}, "body.hypotheses"),
        ({"stability_window": -1}, "body.stability_window"),
        ({"session_id": "one"}, "body.session_id"),
        ({"ontology": {}}, "body.ontology.hypothesis_space_id"),
        ({"surprise": 1}, "body.surprise"),
        ({"\ud800": 1}, "body"),
    ],
)
async def test_a_declaration_that_is_not_one_names_the_field(door: Door, changes, field):
    body = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a"], **changes}
    response = await door.send("/v1/sessions", body)
    assert error_of(response, 422, "INVALID_REQUEST")["details"]["problems"][0]["field"] == field


@pytest.mark.parametrize(
    "changes",
    [
        {"hypotheses": [""]},
        {"metadata": {"n": 2**60}},
        {"metadata": {"s": "\ud800"}},
        {"ontology": {**ONTOLOGY, "causal_graph_ref": "x" * 2000}},
    ],
)
async def test_a_declaration_beyond_the_rules_of_a_session_is_refused(door: Door, changes):
    body = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a"], **changes}
    error_of(await door.send("/v1/sessions", body), 422, "INVALID_REQUEST")
    assert log_length(door.ledger) == 0


async def test_a_session_with_too_much_waiting_says_when_to_ask_again():
    store, gate = ScriptedStore(), Gate()
    async with running_door(store, host=FakeHost().host, mailbox_max=1) as door:
        await door.declare(SESSION, "a", "b", "c")
        store.gate = gate
        answers: list = []

        async def ask(number: int) -> None:
            answers.append(await door.post("eliminate", strike(f"o-{number}", "a")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 1)
            await gate.reached()
            tasks.start_soon(ask, 2)
            await anyio.sleep(0.05)
            refused = await door.post("eliminate", strike("o-3", "a"))
            gate.open()
        error_of(refused, 429, "mailbox_full")
        assert int(refused.headers["Retry-After"]) >= 1
        assert [answer.status_code for answer in answers] == [200, 200]
        assert len(rows(door.ledger, schema.belief_events)) == 3


async def test_a_commit_that_failed_says_when_to_ask_again_and_the_same_succeeds_then():
    store = ScriptedStore()
    async with running_door(store, host=FakeHost().host) as door:
        await door.declare(SESSION, "a", "b")
        store.faults.append("unavailable")
        failed = await door.post("eliminate", strike("o-1", "a"))
        error_of(failed, 503, "commit_failed")
        assert "Retry-After" in failed.headers
        again = await door.post("eliminate", strike("o-1", "a"))
        assert again.json()["applied_eliminated"] == ["a"]


async def test_more_sessions_than_a_process_may_hold_are_turned_away_for_now():
    async with running_door(host=FakeHost().host, active_sessions_max=1) as door:
        await door.declare(SESSION, "a")
        refused = await door.declare(OTHER, "a")
        error_of(refused, 503, "runtime_full")
        assert "Retry-After" in refused.headers
