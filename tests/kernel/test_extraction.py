"""Steps of an extraction on the record: numbered, linked, and as §16.8 tells them."""

import orjson
import pytest

from kernel.ledger import schema
from kernel.stores.extraction import SOURCE_CHANGED
from tests.kernel.build import code_of, effect, envelope, findings, memory_ledger, submit

RUN = "ER-456"


@pytest.fixture
def ledger():
    return memory_ledger()


def step(number, prior, current, parent=None, run=RUN, **more):
    payload = {
        "attempt_number": number,
        "prior_state": prior,
        "current_state": current,
        "state_change_reason": "because",
        **({} if parent is None else {"parent_operation_id": parent}),
        **more,
    }
    transition = effect("extraction_state_transition", run, **payload)
    return envelope("extraction_state_change", [transition])


def go(ledger, *given, **more):
    return submit(ledger, step(*given, **more))


def attempts(ledger, run=RUN):
    with ledger.view() as view:
        rows = view.tables.select(
            schema.extraction_attempts, {"extraction_run_id": run}, order_by="attempt_number"
        )
    return [orjson.loads(row["record"]) for row in rows]


@pytest.mark.spec("§16.8", "§16.4")
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
    ("given", "code"),
    [
        ((1, "running", "degraded"), "extraction_attempt_invalid"),
        ((3, "running", "degraded"), "extraction_attempt_invalid"),
        ((2, "pending", "running"), "extraction_state_transition_invalid"),
        ((2, "running", "pending"), "extraction_state_transition_invalid"),
    ],
)
def test_a_step_has_the_next_number_and_begins_where_the_last_one_ended(ledger, given, code):
    first = go(ledger, 1, "pending", "running")
    assert code_of(go(ledger, *given, first.operation_id)) == code
    assert len(attempts(ledger)) == 1


@pytest.mark.spec("§16.4")
@pytest.mark.parametrize("parent", [None, "somebody-else"])
def test_a_step_names_the_operation_of_the_one_before(ledger, parent):
    go(ledger, 1, "pending", "running")
    refused = go(ledger, 2, "running", "succeeded", parent)
    assert code_of(refused) == "extraction_attempt_invalid"


@pytest.mark.spec("§16.3")
@pytest.mark.parametrize(
    ("current", "more", "code"),
    [
        ("blocked", {"block_reason": "rate_limit"}, None),
        ("blocked", {}, "effect_payload_invalid"),
        ("blocked", {"block_reason": "tired"}, "effect_payload_invalid"),
        ("degraded", {"block_reason": "rate_limit"}, "effect_payload_invalid"),
        ("cancelled", {"cancellation_reason": SOURCE_CHANGED}, None),
        ("degraded", {"cancellation_reason": SOURCE_CHANGED}, "effect_payload_invalid"),
    ],
)
def test_a_block_has_its_reason_and_nothing_else_has_one(ledger, current, more, code):
    first = go(ledger, 1, "pending", "running")
    assert code_of(go(ledger, 2, "running", current, first.operation_id, **more)) == code


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
