"""Simulations through the door: previews for everybody, changes for nobody."""

import pytest

from kernel.ledger import schema
from tests.kernel.build import adapt, effect, envelope
from tests.workers.api.door import (
    SESSION,
    Door,
    claim,
    error_of,
    log_length,
    rows,
    source,
    understanding,
)

pytestmark = pytest.mark.anyio

GRANT = {
    "recipient_email_hash": "ab" * 32,
    "shared_corpus_view_id": "view",
    "share_token_policy_id": "policy",
}
PERMISSIVE = {
    "policy_id": "p",
    "forbidden_external_effects": [],
    "allowed_external_effects": [],
    "on_violation": "block_with_receipt",
}


@pytest.fixture(autouse=True)
async def _furnished(door: Door) -> None:
    await door.declare(SESSION, "a", "b")
    await door.operate(source("s-1"), understanding("u-1", "s-1"))


def state(door: Door):
    return {table.name: rows(door.ledger, table) for table in schema.STATE_TABLES}


async def test_an_intent_is_shown_as_the_operation_that_it_would_become(door: Door):
    before = state(door)
    response = await door.post("simulations", {"intent": claim("c-1", "s-1", "u-1")})
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["outcome"] == "previewed"
    shown = body["preview"]["preview_state"]
    assert shown["preview_kind"] == "node_write_preview"
    assert shown["preview_payload"]["nodes"][0]["node_id"] == "c-1"
    assert shown["preview_payload"]["would_request_recompute_of"] == ["u-1"]
    assert len(body["preview"]["session_profile_hash"]) == 64
    assert state(door) == before
    [result] = await door.operate(claim("c-1", "s-1", "u-1"))
    assert result["validation_result"] == "accepted"
    assert not result["duplicate"]


@pytest.mark.spec("§11.7")
async def test_the_simulation_is_on_the_log_in_the_name_of_its_session(door: Door):
    length = log_length(door.ledger)
    body = (await door.post("simulations", {"envelope": adapt("s-1", note="x")})).json()
    [row] = rows(door.ledger, schema.kernel_event_log)[length:]
    assert row["operation_id"] == body["submission"]["operation_id"]
    assert (row["semantic_intent"], row["session_id"]) == ("simulate", SESSION)


@pytest.mark.spec("K18")
async def test_a_callers_envelope_is_shown_as_a_callers(door: Door):
    document = adapt("s-1", note="x") | {"actor": "system"}
    body = (await door.post("simulations", {"envelope": document})).json()
    refused = body["preview"]["preview_state"]["would_be_rejected"]
    assert refused["reason_code"] == "envelope_actor_unauthorized"


@pytest.mark.spec("INV-G-SIM-EXTERNAL-1")
async def test_without_a_policy_everything_outside_is_forbidden(door: Door):
    document = envelope("share_link_grant", [effect("share_link_grant", "l", **GRANT)])
    code = "simulation_external_effect_blocked"
    error = error_of(await door.post("simulations", {"envelope": document}), 422, code)
    assert error["details"]["violations"][0]["external_effect"] == "third_party_notification"
    body = {"envelope": document, "policy": PERMISSIVE}
    assert (await door.post("simulations", body)).status_code == 200
    assert rows(door.ledger, schema.share_links) == []


async def test_what_cannot_be_simulated_is_an_error_with_its_receipt(door: Door):
    code = "simulation_not_supported_for_operation_kind"
    document = adapt("s-1", x=1) | {"operation_kind": "simulate"}
    error = error_of(await door.post("simulations", {"envelope": document}), 422, code)
    receipts = {row["receipt_id"] for row in rows(door.ledger, schema.receipts)}
    assert error["details"]["receipt_id"] in receipts


@pytest.mark.spec("K6")
async def test_the_same_asking_again_gets_the_same_preview(door: Door):
    body = {"envelope": adapt("s-1", note="x"), "simulation_key": "k", "retention": "durable"}
    first = (await door.post("simulations", body)).json()
    length = log_length(door.ledger)
    assert (await door.post("simulations", body)).json() == first
    assert log_length(door.ledger) == length
    other = body | {"envelope": adapt("u-1", note="y")}
    error_of(await door.post("simulations", other), 422, "envelope_idempotency_conflict")


async def test_an_intent_that_cannot_be_resolved_says_which_field(door: Door):
    response = await door.post("simulations", {"intent": claim("c-1", "nobody", "u-1")})
    assert error_of(response, 422, "intent_invalid")["details"]["field"] == "source_ref"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"intent": source("s-2"), "envelope": {}},
        {"envelope": []},
        {"envelope": {}, "policy": {"policy_id": "p"}},
        {"envelope": {}, "policy": PERMISSIVE | {"forbidden_external_effects": ["unheard_of"]}},
        {"envelope": {}, "retention": "forever"},
        {"envelope": {}, "prediction": {}},
    ],
)
async def test_a_request_that_is_none_is_refused_before_the_kernel(door: Door, body):
    receipts = len(rows(door.ledger, schema.receipts))
    error_of(await door.post("simulations", body), 422, "INVALID_REQUEST")
    assert len(rows(door.ledger, schema.receipts)) == receipts


async def test_a_session_that_is_not_there_simulates_nothing(door: Door):
    other = SESSION.replace("1", "2")
    response = await door.send(f"/v1/sessions/{other}/simulations", {"envelope": {}})
    error_of(response, 404, "SESSION_NOT_FOUND")
