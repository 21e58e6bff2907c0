"""A refusal leaves a receipt, a repetition nothing, and everything else the record."""

import enum

import pytest

from kernel.ledger.receipts import purge_expired
from kernel.ledger.store.memory import MemoryStore
from kernel.model.node_kinds import UNDERSTANDING
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.transaction.kernel import DEFAULT_IDEMPOTENCY_WINDOW_HOURS, Kernel
from kernel.values.host import iso_time
from tests.kernel.build import (
    ABSENT,
    HOUR_US,
    adapt,
    changed,
    code_of,
    create,
    effect,
    envelope,
    everything,
    ledger_on,
    op_id,
    submit,
)


@pytest.fixture
def founded():
    return ledger_on(MemoryStore())


@pytest.fixture
def ledger(founded):
    return founded[0]


# Refusals

REFUSED = {
    "V1": ({"actor": "agent"}, "envelope_actor_unauthorized", "actor"),
    "V5": ({"policy_generation_id": "PG-0"}, "envelope_policy_generation_stale", None),
    "apply": (
        {
            "primitive_effects.0.target_ref": "n",
            "affected_subgraph_descriptor.scope_kind": "node_with_neighbors",
            "affected_subgraph_descriptor.affected_node_refs": ["n", "m"],
        },
        "node_already_exists",
        "target_ref",
    ),
}


def without_receipts(rows):
    kept = {name: of_table for name, of_table in rows.items() if name != "receipts"}
    passing = ("receipt_sequence", "receipt_hash", "committed_at_us")
    [head] = kept["chain_head"]
    return kept | {"chain_head": {name: head[name] for name in head if name not in passing}}


@pytest.mark.spec("K5")
@pytest.mark.parametrize(("changes", "code", "field"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_leaves_a_durable_receipt_and_nothing_else(ledger, changes, code, field):
    submit(ledger, create("n", "Note"))
    document = changed(create("m", "Note"), changes) | {"session_id": "s"}
    before = everything(ledger)
    result = submit(ledger, document)
    after = everything(ledger)
    assert without_receipts(after) == without_receipts(before)
    [row] = after["receipts"][len(before["receipts"]) :]
    assert (row["receipt_kind"], row["reason_code"]) == ("envelope_validation_failed", code)
    with ledger.view() as view:
        [receipt] = view.receipts_of(document["operation_id"])
    assert result.receipt_id == row["receipt_id"] == receipt["receipt_id"]
    assert receipt == receipt | {
        "operation_id": document["operation_id"],
        "idempotency_key": document["idempotency_key"],
        "actor": document["actor"],
        "semantic_intent": "create",
        "session_id": "s",
        "check": result.rejection.check,
        "reason_code": code,
        "field": field or "policy_generation_id",
        "message": result.rejection.message,
    }
    assert result.document() == {
        "operation_id": document["operation_id"],
        "validation_result": "rejected",
        "check": result.rejection.check,
        "reason_code": code,
        "field": result.rejection.field,
        "message": result.rejection.message,
        "receipt_id": row["receipt_id"],
    }


@pytest.mark.spec("K5")
def test_refusals_leave_no_gap_in_the_sequence(ledger):
    documents = [
        create("a", "Note"),
        create("a", "Note"),
        {"no": "envelope"},
        create("b", "Note"),
        create("c", "Note", envelope={"actor": "agent"}),
        create("c", "Note"),
    ]
    results = submit(ledger, *documents)
    accepted = [result for result in results if isinstance(result, SubmissionResult)]
    assert [acceptance.ec_sequence_number for acceptance in accepted] == [1, 2, 3]
    with ledger.view() as view:
        assert [row["ec_sequence_number"] for row in view.log_rows()] == [1, 2, 3]
        assert view.head().ec_sequence_number == 3
        assert view.head().receipt_sequence == 3


@pytest.mark.spec("K5")
def test_an_envelope_whose_last_effect_fails_leaves_nothing_of_its_first(ledger):
    last = effect("edge_create", "e", source_node_id="n", target_node_id="nobody", edge_type="t")
    tainted = {
        "source_visibility_taint": ["public_open", "sealed"],
        "resolved_output_visibility_class": "sealed",
    }
    document = create(
        "n", "ConsolidatedUnderstanding", last, visibility_class="sealed", envelope=tainted
    )
    before = everything(ledger)
    assert code_of(submit(ledger, document)) == "edge_endpoint_missing"
    assert without_receipts(everything(ledger)) == without_receipts(before)
    assert [row["receipt_kind"] for row in everything(ledger)["receipts"]] == [
        "envelope_validation_failed"
    ]


def test_one_refusal_does_not_disturb_the_others_of_its_transaction(ledger):
    results = submit(ledger, create("a", "Note"), create("a", "Note"), adapt("a", title="t"))
    assert [code_of(result) for result in results] == [None, "node_already_exists", None]
    with ledger.view() as view:
        assert view.node("a")["payload"] == {"title": "t"}


class Name(enum.StrEnum):
    ODD = "odd"


@pytest.mark.parametrize(
    "stated", ["\ud800", "x" * 513, 7, None, [], {}, Name.ODD], ids=lambda value: repr(value)[:9]
)
@pytest.mark.parametrize("name", ["operation_id", "idempotency_key", "actor", "session_id"])
def test_what_a_receipt_cannot_hold_it_does_not_repeat(ledger, name, stated):
    document = changed(create("n", "Note"), {name: stated, "recorded_at": ABSENT})
    result = submit(ledger, document)
    assert isinstance(result, RejectedResult)
    [row] = everything(ledger)["receipts"]
    with ledger.view() as view:
        [receipt] = view.receipts_of(row["operation_id"])
    assert name not in receipt


# What is kept


@pytest.mark.spec("§2.8")
def test_fields_that_nobody_knows_are_kept_at_every_level(ledger):
    unknown = {"later": [1, {"é": None}], "recorded_thoughts": [{"version": "m"}]}
    document = changed(
        create("n", "Note") | unknown,
        {
            "primitive_effects.0.later": 0.5,
            "affected_subgraph_descriptor.later": "x",
            "primitive_effects.0.payload.later": True,
        },
    )
    result = submit(ledger, document)
    with ledger.view() as view:
        assert view.envelope(result.operation_id) == document
        content = view.blob(view.log_row_of(result.operation_id)["envelope_payload_blob_ref"])
    assert b'"later":[1,{"\xc3\xa9":null}]' in content


@pytest.mark.spec("§2.3")
def test_the_answer_says_where_the_operation_stands_and_what_it_did(founded):
    ledger, fake = founded
    fake.time_us += 5
    document = create("cu", "ConsolidatedUnderstanding")
    result = submit(ledger, document)
    at = iso_time(fake.time_us)
    assert result == SubmissionResult(
        document["operation_id"],
        1,
        at,
        tuple(
            {"effect_id": primitive_effect["effect_id"], "applied_at": at}
            for primitive_effect in document["primitive_effects"]
        ),
        (
            {
                "receipt_id": f"receipt:{document['operation_id']}:0",
                "receipt_kind": "source_span_unavailable",
                "retention_class": "durable",
            },
            {
                "receipt_id": f"receipt:{document['operation_id']}:1",
                "receipt_kind": "authority_recompute_request",
                "retention_class": "ephemeral",
            },
        ),
        everything(ledger)["chain_head"][0]["row_hash"],
    )
    assert result.document()["ec_sequence_number"] == "1"
    assert result.duplicate is False


# Repetitions


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"operation_id": op_id("another")},
        {"recorded_at": "2030-01-01T00:00:00Z"},
        {"duration_ms": 7},
        {
            "operation_id": op_id("another"),
            "recorded_at": "2031-01-01T00:00:00Z",
            "duration_ms": 0.5,
        },
    ],
)
def test_the_same_again_gets_the_first_answer_and_changes_nothing(ledger, changes):
    document = create("cu", "ConsolidatedUnderstanding")
    first = submit(ledger, document)
    before = everything(ledger)
    again = submit(ledger, document | changes)
    assert again == first
    assert again.document() == first.document()
    assert again.duplicate
    after = everything(ledger)
    del before["chain_head"][0]["committed_at_us"], after["chain_head"][0]["committed_at_us"]
    assert after == before


@pytest.mark.spec("K6")
def test_the_same_twice_in_one_transaction_is_one_operation(ledger):
    document = create("n", "Note")
    first, again = submit(ledger, document, document)
    assert again == first
    assert again.duplicate
    assert len(everything(ledger)["kernel_event_log"]) == 1


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    "changes",
    [
        {"primitive_effects.0.payload.title": "another"},
        {"target_refs": []},
        {"unknown": "field"},
        {"causal_parent_operation_ids": ["p"]},
    ],
)
def test_other_content_under_the_same_key_is_a_conflict_and_the_first_answer_stands(
    ledger, changes
):
    document = create("n", "Note", title="one")
    first = submit(ledger, document)
    refused = submit(ledger, changed(document, changes))
    assert refused.rejection.check == "V2"
    assert refused.rejection.reason_code == "envelope_idempotency_conflict"
    assert first.operation_id in refused.rejection.message
    assert submit(ledger, document) == first


@pytest.mark.spec("§2.2 V2")
def test_a_repetition_is_answered_even_where_it_would_now_be_refused(ledger):
    document = create("n", "Note")
    first = submit(ledger, document)
    advance = effect("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-1")
    advanced = envelope("policy_snapshot_advance", [advance])
    assert code_of(submit(ledger, advanced, submitter="orchestrator")) is None
    assert submit(ledger, document) == first
    assert code_of(submit(ledger, create("m", "Note"))) == "envelope_policy_generation_stale"


def test_a_refused_key_is_free(ledger):
    document = create("n", "Note")
    refused = submit(ledger, document | {"policy_generation_id": "PG-0"})
    assert code_of(refused) == "envelope_policy_generation_stale"
    assert isinstance(submit(ledger, document), SubmissionResult)


@pytest.mark.spec("K6")
def test_the_orchestrators_content_is_the_intent_whose_digest_it_states(ledger):
    document = create("n", "Note", envelope={"intent_digest": "d", "actor": "agent"})
    first = submit(ledger, document, submitter="orchestrator")
    later = document | {"causal_parent_operation_ids": ["p"], "operation_id": "another"}
    assert submit(ledger, later, submitter="orchestrator") == first
    other = document | {"intent_digest": "e"}
    refused = submit(ledger, other, submitter="orchestrator")
    assert code_of(refused) == "envelope_idempotency_conflict"


@pytest.mark.spec("K6")
def test_a_caller_cannot_pass_other_content_off_by_stating_a_digest(ledger):
    document = create("n", "Note", envelope={"intent_digest": "d"})
    submit(ledger, document)
    other = changed(document, {"primitive_effects.0.payload.title": "another"})
    assert code_of(submit(ledger, other)) == "envelope_idempotency_conflict"


@pytest.mark.spec("§2.5")
@pytest.mark.parametrize(
    ("kernel", "hours"), [(Kernel(), 24), (Kernel(idempotency_window_hours=1), 1)]
)
def test_after_the_window_the_same_key_makes_a_new_operation(founded, kernel, hours):
    ledger, fake = founded
    document = envelope("search_run_record", [effect("receipt_only", query="q")])
    first = submit(ledger, document, kernel=kernel)
    committed_us = fake.time_us

    fake.time_us = committed_us + hours * HOUR_US - 1
    assert submit(ledger, document, kernel=kernel) == first

    fake.time_us = committed_us + hours * HOUR_US
    renewed = document | {"operation_id": op_id("renewed")}
    second = submit(ledger, renewed, kernel=kernel)
    assert (second.operation_id, second.ec_sequence_number) == (renewed["operation_id"], 2)
    assert not second.duplicate
    assert submit(ledger, renewed, kernel=kernel) == second
    records = everything(ledger)["idempotency_records"]
    assert [(row["ec_sequence_number"], row["archived"]) for row in records] == [(1, 1), (2, 0)]


@pytest.mark.spec("§2.5", "§17.6")
def test_an_answer_names_its_receipts_after_the_ephemeral_ones_are_gone(founded):
    ledger, fake = founded
    kernel = Kernel(idempotency_window_hours=48)
    submit(ledger, create("cu-1", UNDERSTANDING), kernel=kernel)
    document = create("cu-2", UNDERSTANDING)
    first = submit(ledger, document, kernel=kernel)
    retentions = {said["retention_class"] for said in first.emitted_receipts}
    assert retentions == {"durable", "ephemeral"}
    fake.time_us += 47 * HOUR_US
    with ledger.transaction() as transaction:
        assert purge_expired(transaction) == 2
    again = submit(ledger, document, kernel=kernel)
    assert again.duplicate
    assert again.document() == first.document()


@pytest.mark.spec("§2.5")
def test_the_window_is_a_day_unless_it_is_set(ledger):
    assert DEFAULT_IDEMPOTENCY_WINDOW_HOURS == 24
    submit(ledger, create("n", "Note"))
    [record] = everything(ledger)["idempotency_records"]
    with ledger.view() as view:
        assert record["expires_at_us"] - view.head().committed_at_us == 24 * HOUR_US


def test_an_operation_id_is_used_once_whatever_its_key(ledger):
    document = create("n", "Note")
    submit(ledger, document)
    other = create("m", "Note", envelope={"operation_id": document["operation_id"]})
    refused = submit(ledger, other)
    assert (refused.rejection.check, refused.rejection.field) == ("V1", "operation_id")
