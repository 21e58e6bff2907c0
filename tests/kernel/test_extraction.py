"""Steps of an extraction on the record: numbered, linked, and as §16.8 tells them."""

import orjson
import pytest

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.records.extraction import SOURCE_CHANGED
from tests.extraction_steps import state_change
from tests.kernel.build import code_of, create, effect, envelope, findings, submit
from tests.kernel.extractions import PARTIAL, completeness

RUN = "ER-456"


def step(number, prior, current, parent=None, run=RUN, **fields):
    if parent is not None:
        fields["parent_operation_id"] = parent
    fields = completeness(prior, current) | fields
    payload = state_change(number, prior, current, **fields)
    transition = effect("extraction_state_transition", run, **payload)
    return envelope("extraction_state_change", [transition])


def go(ledger, *transition, **fields):
    return submit(ledger, step(*transition, **fields))


def attempts(ledger, run=RUN):
    with ledger.view() as view:
        query = TableQuery(
            schema.extraction_attempts, {"extraction_run_id": run}, order_by="attempt_number"
        )
        rows = view.tables.scan(query)
    return [orjson.loads(row["record"]) for row in rows]


@pytest.mark.spec("§16.8", "§16.4", "§16.2")
def test_the_worked_example_of_a_reentry_is_one_chain_of_four_operations(ledger):
    ways = [
        ("pending", "running"),
        ("running", "degraded"),
        ("degraded", "running"),
        ("running", "succeeded"),
    ]
    parent, operations = None, []
    for number, way in enumerate(ways, start=1):
        parent = go(ledger, number, *way, parent).operation_id
        operations.append(parent)
    attempt_states = attempts(ledger)
    assert [
        (
            attempt_state["attempt_number"],
            attempt_state["prior_state"],
            attempt_state["current_state"],
        )
        for attempt_state in attempt_states
    ] == [(number, *way) for number, way in enumerate(ways, start=1)]
    assert [operation["operation_id"] for operation in attempt_states] == operations
    assert len(set(operations)) == 4
    assert {attempt_state["extraction_run_id"] for attempt_state in attempt_states} == {RUN}
    walked, by_operation = (
        [operations[-1]],
        {operation["operation_id"]: operation for operation in attempt_states},
    )
    while "parent_operation_id" in by_operation[walked[-1]]:
        walked.append(by_operation[walked[-1]]["parent_operation_id"])
    assert walked == operations[::-1]

    # What came of it is taken back by a new operation, not by a rollback.
    back = go(ledger, 5, "succeeded", "degraded", operations[-1])
    assert back.operation_id not in operations
    assert attempts(ledger)[:4] == attempt_states
    assert findings(ledger) == ()


@pytest.mark.spec("§16.5")
@pytest.mark.parametrize(
    ("transition", "code"),
    [
        ((1, "running", "degraded"), "extraction_attempt_invalid"),
        ((3, "running", "degraded"), "extraction_attempt_invalid"),
        ((2, "pending", "running"), "extraction_state_transition_invalid"),
        ((2, "running", "pending"), "extraction_state_transition_invalid"),
    ],
)
def test_a_step_has_the_next_number_and_begins_where_the_last_one_ended(ledger, transition, code):
    first = go(ledger, 1, "pending", "running")
    assert code_of(go(ledger, *transition, first.operation_id)) == code
    assert len(attempts(ledger)) == 1


@pytest.mark.spec("§16.4")
@pytest.mark.parametrize("parent", [None, "somebody-else"])
def test_a_step_names_the_operation_of_the_one_before(ledger, parent):
    go(ledger, 1, "pending", "running")
    refused = go(ledger, 2, "running", "succeeded", parent)
    assert code_of(refused) == "extraction_attempt_invalid"


@pytest.mark.spec("§16.3")
@pytest.mark.parametrize(
    ("current", "fields", "code"),
    [
        ("blocked", {"block_reason": "rate_limit"}, None),
        ("blocked", {}, "effect_payload_invalid"),
        ("blocked", {"block_reason": "tired"}, "effect_payload_invalid"),
        ("degraded", {"block_reason": "rate_limit"}, "effect_payload_invalid"),
        ("cancelled", {"cancellation_reason": SOURCE_CHANGED}, None),
        ("degraded", {"cancellation_reason": SOURCE_CHANGED}, "effect_payload_invalid"),
    ],
)
def test_a_block_has_its_reason_and_nothing_else_has_one(ledger, current, fields, code):
    first = go(ledger, 1, "pending", "running")
    assert code_of(go(ledger, 2, "running", current, first.operation_id, **fields)) == code


@pytest.mark.spec("INV-EXT-6")
def test_a_run_whose_source_changed_is_cancelled_and_a_new_run_begins_from_nothing(ledger):
    first = go(ledger, 1, "pending", "running")
    new = {"run": "ER-457", "replaces_extraction_run_id": RUN}
    assert code_of(go(ledger, 1, "pending", "running", **new)) == "extraction_attempt_invalid"
    reason = {"cancellation_reason": SOURCE_CHANGED}
    go(ledger, 2, "running", "cancelled", first.operation_id, **reason)
    assert code_of(go(ledger, 1, "pending", "running", **new)) is None
    [again] = attempts(ledger, "ER-457")
    assert (again["attempt_number"], again["current_state"]) == (1, "running")
    assert "parent_operation_id" not in again
    # What was cancelled stays so.
    last = attempts(ledger)[-1]["operation_id"]
    assert code_of(go(ledger, 3, "cancelled", "running", last)) == (
        "extraction_state_transition_invalid"
    )


@pytest.mark.spec("INV-EXT-3")
@pytest.mark.parametrize(
    ("current", "stated", "code"),
    [
        ("degraded", None, "extraction_completeness_missing"),
        ("degraded", "most of it", "extraction_completeness_contradicted"),
        ("degraded", {"succeeded_fields": ["party"]}, "extraction_completeness_contradicted"),
        ("degraded", PARTIAL, None),
        ("succeeded", PARTIAL, "extraction_completeness_contradicted"),
        ("succeeded", {"succeeded_fields": ["party"]}, None),
        ("succeeded", None, None),
    ],
)
def test_what_ends_in_part_says_which_fields_failed(ledger, current, stated, code):
    first = go(ledger, 1, "pending", "running")
    completeness = {} if stated is None else {"extraction_completeness": stated}
    document = step(2, "running", current, first.operation_id, **completeness)
    if stated is None:
        document["primitive_effects"][0]["payload"].pop("extraction_completeness", None)
    assert code_of(submit(ledger, document)) == code


@pytest.mark.spec("INV-EXT-1", "INV-EXT-5", "INV-K-MEMBERSHIP-EXTRACTION-1", "§16.7")
def test_what_becomes_of_a_run_touches_no_other_run_and_no_membership(ledger):
    submit(ledger, create("doc", "SourceArtifact"))
    with ledger.view() as view:
        before = view.membership("corpus:test", "doc")
    first = go(ledger, 1, "pending", "running")
    other = go(ledger, 1, "pending", "running", run="other")
    go(ledger, 2, "running", "degraded", first.operation_id)
    assert code_of(go(ledger, 2, "running", "succeeded", other.operation_id, run="other")) is None
    with ledger.view() as view:
        assert view.membership("corpus:test", "doc") == before
