"""Whose key brings something is on the record, whatever the body says, and judged by it."""

import json
from typing import Any

import pytest

from tests.kernel.binding_world import bound
from tests.kernel.build import create, envelope, findings
from tests.workers.api.door import ONTOLOGY, SESSION, Door, error_of, source
from tests.workers.api.test_access import HTML, bearer, closed, key_of

__all__ = ["closed"]

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§20")]

OPERATIONS = f"/v1/sessions/{SESSION}/operations"
ENVELOPES = f"/v1/sessions/{SESSION}/envelopes"


class Callers:
    """Principals with keys, and a session that they share."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.keys: dict[str, dict[str, str]] = {}

    async def add(self, principal: str, *roles: str) -> None:
        grants = [(role, "*") for role in roles]
        self.keys[principal] = bearer(await key_of(self.door, principal, *grants))

    async def post(self, who: str, path: str, body: Any) -> Any:
        return await self.door.http.post(path, json=body, headers=self.keys[who])

    async def operate(self, who: str, *intents: dict[str, Any]) -> Any:
        response = await self.post(who, OPERATIONS, {"intents": intents})
        assert response.status_code == 200, response.text
        return response.json()["results"]

    async def principal_of(self, operation_id: str) -> str | None:
        path = f"/v1/operations/{operation_id}"
        response = await self.door.http.get(path, headers=self.keys["person:owner"])
        document = response.json()
        assert document["row"].get("principal") == document["envelope"].get("principal")
        name: str | None = document["envelope"].get("principal")
        return name


@pytest.fixture
async def callers(closed: Door) -> Callers:
    made = Callers(closed)
    await made.add("person:owner", "owner")
    await made.add("service:ada", "producer", "reviewer")
    await made.add("service:bob", "producer", "reviewer")
    body = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a", "b"]}
    assert (await made.post("service:ada", "/v1/sessions", body)).status_code == 201
    return made


async def test_intents_envelopes_sources_and_streams_name_whose_key_brought_them(callers: Callers):
    [intent] = await callers.operate("service:ada", source("s-1"))
    posted = await callers.post("service:bob", ENVELOPES, create("n-1", "Note"))
    line = b'{"intent_kind":"create_source","intent_key":"l","node_id":"s-2",'
    line += b'"corpus_id":"corpus:test","content_kind":"order","text":"DENIED"}\n'
    stream = await callers.door.http.post(
        f"{OPERATIONS}:bulk", content=line, headers=callers.keys["service:bob"]
    )
    came = await callers.post("service:ada", "/v1/sources/shop", {"order": 1})
    assert came.status_code == 200, came.text
    named = {
        came.json()["results"][0]["operation_id"]: "service:ada",
        intent["operation_id"]: "service:ada",
        posted.json()["operation_id"]: "service:bob",
        stream.json()["result"]["operation_id"]: "service:bob",
    }
    for operation_id, principal in named.items():
        assert await callers.principal_of(operation_id) == principal
        path = f"/operations/{operation_id}"
        page = await callers.door.http.get(path, headers=HTML | callers.keys["person:owner"])
        assert f'data-proved="row.principal">{principal}</span>' in page.text
    assert findings(callers.door.ledger) == ()


@pytest.mark.spec("K6")
async def test_two_who_choose_the_same_key_do_not_meet_and_each_meets_itself(callers: Callers):
    await callers.operate("service:ada", source("s-1"))
    first, second = noted("ada was here"), noted("bob was here")
    [ada] = await callers.operate("service:ada", first)
    [bob] = await callers.operate("service:bob", second)
    assert ada["operation_id"] != bob["operation_id"]
    assert await callers.operate("service:ada", first) == [ada | {"duplicate": True}]
    assert await callers.operate("service:bob", second) == [bob | {"duplicate": True}]
    body = create("n-1", "Note", envelope={"idempotency_key": "k"})
    other = create("n-2", "Note", envelope={"idempotency_key": "k"})
    assert (await callers.post("service:ada", ENVELOPES, body)).status_code == 200
    assert (await callers.post("service:bob", ENVELOPES, other)).status_code == 200
    conflict = await callers.post("service:ada", ENVELOPES, other | {"operation_id": UUID})
    error_of(conflict, 422, "envelope_idempotency_conflict")


def noted(note: str) -> dict[str, Any]:
    """A change of a node, under a key that others choose as well."""
    intent = {"intent_kind": "field_adapt", "intent_key": "chosen", "node_id": "s-1"}
    return intent | {"fields": {"note": note}}


UUID = "018f3c1e-7a2b-7c4d-8e9f-0a1b2c3d4e5f"


async def test_an_envelope_that_names_another_principal_is_refused(callers: Callers, door: Door):
    stated = create("n-1", "Note") | {"principal": "service:ada"}
    refused = await callers.post("service:bob", ENVELOPES, stated)
    details = error_of(refused, 422, "principal_differs")["details"]
    assert details["field"] == "principal"
    assert (await callers.post("service:ada", ENVELOPES, stated)).status_code == 200
    # Where access is open nobody is anybody.
    await door.declare(SESSION, "a")
    error_of(await door.post("envelopes", stated), 422, "principal_differs")


@pytest.mark.spec("§11.5")
async def test_a_preview_is_in_the_scope_of_who_asks(callers: Callers):
    await callers.operate("service:ada", source("s-1"), noted("ada was here"))
    body = {"intent": noted("another"), "simulation_key": "same"}
    path = f"/v1/sessions/{SESSION}/simulations"
    answers = [(await callers.post(f"service:{who}", path, body)).json() for who in ("ada", "bob")]
    ids = [answer["preview"]["preview_id"] for answer in answers]
    assert ids[0] != ids[1]
    # Ada's key is taken, by her; Bob's is his own.
    are_taken = ["envelope_idempotency_conflict" in json.dumps(answer) for answer in answers]
    assert are_taken == [True, False], answers


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rollbacks", {"tier": 1, "operation_id": "o", "decided_by": "eve"}),
        ("/v1/reviews/decisions", {
            "decision_key": "k", "kind": "relationship", "record_id": "r",
            "decision": "confirm", "adjudicated_by": "eve", "grounds": "g"}),
        ("/v1/reviews/takings", {"receipt_id": "r", "decided_by": "eve", "grounds": "g"}),
        ("/v1/erasures", {
            "reason": "r", "authority": "eve", "payload_kind": "thought", "payload_id": "p"}),
        ("/v1/legal-holds", {
            "reason": "r", "authority": "eve", "hold_id": "h", "subject_kind": "ledger"}),
        ("/v1/legal-holds/h/lift", {"reason": "r", "authority": "eve"}),
        ("/v1/quarantines/q/lift", {"reason": "r", "authority": "eve"}),
        ("/v1/ledger/accept-head", {"reason": "r", "authority": "eve"}),
    ],
)  # fmt: skip
async def test_a_name_that_is_not_the_callers_is_refused(
    callers: Callers, path: str, body: dict[str, Any]
):
    error_of(await callers.post("person:owner", path, body), 403, "principal_differs")


async def test_an_approval_is_in_the_name_of_whose_key_brings_it_and_of_no_architect(
    callers: Callers,
):
    await callers.post("service:ada", ENVELOPES, create("corpus", "Corpus"))
    for who, role, is_taken in (
        ("eve", "user", False),
        ("service:ada", "architect", False),
        ("service:ada", "user", True),
    ):
        approval = {"approved_by": who, "approver_role": role, "reason": "r"}
        document = bound(
            "b-1",
            "court_disposition_observation",
            critical_approval=approval,
            resource_policy={"capacity_priority": "critical"},
        )
        response = await callers.post("service:ada", ENVELOPES, document)
        if is_taken:
            assert response.status_code == 200, response.text
        else:
            error_of(response, 422, "principal_differs")


@pytest.mark.spec("INV-A-COST-1")
async def test_an_override_is_confirmed_by_whose_key_brings_it(callers: Callers):
    for who, is_taken in (("eve", False), ("service:ada", True)):
        override = {"confirmed_by": who, "reason": "the hearing is at noon"}
        [intended] = await callers.operate(
            "service:ada", source(f"s-{who}", capacity_override=override)
        )
        document = create(f"n-{who}", "Note", envelope={"capacity_override": override})
        posted = await callers.post("service:ada", ENVELOPES, document)
        if is_taken:
            assert posted.status_code == 200, posted.text
            assert intended["validation_result"] == "accepted"
        else:
            error_of(posted, 422, "principal_differs")
            assert intended["reason_code"] == "principal_differs"


@pytest.mark.spec("K21")
async def test_nobody_but_an_owner_undoes_their_own_operation(callers: Callers):
    for name in ("n-1", "n-2"):
        await callers.post("service:ada", ENVELOPES, create(name, "Note"))
    written = {}
    for name in ("n-1", "n-2"):
        change = envelope("annotate", [effect_of(name)])
        written[name] = (await callers.post("service:ada", ENVELOPES, change)).json()
    undo = {
        name: {"tier": 1, "operation_id": each["operation_id"]} for name, each in written.items()
    }
    refused = await callers.post("service:ada", "/v1/rollbacks", undo["n-1"])
    error_of(refused, 403, "rollback_of_own_operation")
    epoch = {"tier": 2, "epoch_id": written["n-1"]["operation_id"]}
    refused = await callers.post("service:ada", "/v1/rollbacks", epoch)
    error_of(refused, 403, "rollback_of_own_operation")
    done = await callers.post("service:bob", "/v1/rollbacks", undo["n-1"])
    assert done.status_code == 200, done.text
    # What Bob has undone was Ada's; an owner may undo anything of anybody's.
    await callers.add("service:ada", "owner")
    assert (await callers.post("service:ada", "/v1/rollbacks", undo["n-2"])).status_code == 200
    assert findings(callers.door.ledger) == ()


def effect_of(node_id: str) -> dict[str, Any]:
    return create(node_id, "Note", title="x")["primitive_effects"][0]
