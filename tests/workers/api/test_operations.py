"""Intents through the door: each has its own result, and what is refused leaves nothing behind."""

import pytest

from kernel.ledger import schema
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
from workers.api.routes.session_operations import INTENTS_MAX

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _declared(door: Door) -> None:
    await door.declare(SESSION, "a", "b")


async def test_accepted_intents_say_where_on_the_record_they_stand(door: Door):
    before = log_length(door.ledger)
    results = await door.operate(source("s-1"), understanding("u-1", "s-1"))
    assert [result["validation_result"] for result in results] == ["accepted", "accepted"]
    assert [result["duplicate"] for result in results] == [False, False]
    log = rows(door.ledger, schema.kernel_event_log)[before:]
    assert [result["row_hash"] for result in results] == [row["row_hash"] for row in log]
    assert [result["ec_sequence_number"] for result in results] == [
        str(row["ec_sequence_number"]) for row in log
    ]
    assert {row["session_id"] for row in log} == {SESSION}


async def test_the_same_intent_again_is_a_duplicate_with_the_first_answer(door: Door):
    [first] = await door.operate(source("s-1"))
    length = log_length(door.ledger)
    [again] = await door.operate(source("s-1"))
    assert again == first | {"duplicate": True}
    assert log_length(door.ledger) == length


@pytest.mark.spec("K6")
async def test_another_intent_under_a_known_key_is_refused(door: Door):
    await door.operate(source("s-1"))
    [refused] = await door.operate(source("s-1", "Another text."))
    assert refused["validation_result"] == "rejected"
    assert refused["reason_code"] == "envelope_idempotency_conflict"


@pytest.mark.parametrize(
    ("intent", "field"),
    [
        (understanding("u-1", "nowhere"), "source_ref"),
        (claim("c-1", "s-1", "no-understanding"), "understanding_id"),
        (claim("c-1", "s-1", "u-1", text="Not"), "text"),
        (
            claim("c-1", "s-1", "u-1", span={"source_ref": "s-1", "offset": 0, "length": 999}),
            "length",
        ),
        (
            {
                "intent_kind": "field_adapt",
                "intent_key": "k",
                "node_id": "s-1",
                "fields": {"cu_authority": 1},
            },
            "fields",
        ),
    ],
)
async def test_an_intent_that_cannot_be_resolved_names_its_field_and_writes_nothing(
    door: Door, intent, field
):
    await door.operate(source("s-1"), understanding("u-1", "s-1"))
    length = log_length(door.ledger)
    [result] = await door.operate(intent)
    assert result["validation_result"] == "invalid"
    assert result["reason_code"] == "intent_invalid"
    assert result["field"] == field
    assert log_length(door.ledger) == length


async def test_a_bad_intent_among_good_ones_is_refused_alone(door: Door):
    results = await door.operate(
        source("s-1"), understanding("u-1", "nowhere"), source("s-1"), source("s-2")
    )
    results_seen = [(result["validation_result"], result.get("duplicate")) for result in results]
    assert results_seen == [
        ("accepted", False),
        ("invalid", None),
        ("accepted", True),
        ("accepted", False),
    ]


@pytest.mark.parametrize("value", [float("nan"), 2**60, "\ud800", {"deep": [float("inf")]}])
async def test_an_intent_with_a_value_that_has_no_canonical_form_is_refused(door: Door, value):
    await door.operate(source("s-1"))
    intent = {"intent_kind": "field_adapt", "intent_key": "k", "node_id": "s-1"}
    [result] = await door.operate({**intent, "fields": {"n": value}})
    assert result["validation_result"] in ("invalid", "rejected")
    assert result["reason_code"] in ("intent_invalid", "envelope_schema_invalid")


@pytest.mark.parametrize("count", [0, INTENTS_MAX + 1])
async def test_no_intents_and_too_many_are_refused_whole(door: Door, count):
    length = log_length(door.ledger)
    body = {"intents": [source(f"s-{number}") for number in range(count)]}
    error = error_of(await door.post("operations", body), 422, "INVALID_REQUEST")
    assert error["details"]["problems"][0]["field"] == "body.intents"
    assert log_length(door.ledger) == length


async def test_as_many_intents_as_allowed_are_taken_in_order(door: Door):
    results = await door.operate(*(source(f"s-{number}") for number in range(INTENTS_MAX)))
    sequences = [int(result["ec_sequence_number"]) for result in results]
    assert sequences == list(range(sequences[0], sequences[0] + INTENTS_MAX))


@pytest.mark.parametrize(
    ("intent", "field"),
    [
        ({"intent_kind": "recalculate_authority"}, "body.intents.0"),
        ({"intent_kind": "anchor_belief"}, "body.intents.0"),
        ({"intent_kind": "\ud800"}, "body.intents.0"),
        (source("s-1", actor="system"), "body.intents.0.create_source.actor"),
        (source(""), "body.intents.0.create_source.node_id"),
        (source("s-1", text=7), "body.intents.0.create_source.text"),
    ],
)
async def test_what_is_no_public_intent_never_reaches_a_session(door: Door, intent, field):
    length = log_length(door.ledger)
    response = await door.post("operations", {"intents": [intent]})
    error = error_of(response, 422, "INVALID_REQUEST")
    assert error["details"]["problems"][0]["field"] == field
    assert log_length(door.ledger) == length
