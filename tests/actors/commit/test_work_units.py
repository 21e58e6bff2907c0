"""What a worker reports is recorded while its request is open, and read from the record."""

from typing import Any

import orjson
import pytest

from actors.commit.work_units import (
    CancelRequestUnit,
    RequestWorkUnit,
    RetentionSweepUnit,
    WorkReportUnit,
)
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.receipts import US_PER_DAY
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import RejectedResult
from kernel.records.extraction import SOURCE_CHANGED
from kernel.verify import verify
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.errors import WorkRefused
from kernel.work.reports import (
    CapacityRejected,
    TransitionDue,
)
from kernel.work.requests import WorkRequest, status_of
from tests.actors.harness import bench_on
from tests.extraction_steps import extraction_step
from tests.kernel.attempts import given_up
from tests.kernel.binding_world import of_nobody
from tests.kernel.build import create, ledger_on, submit
from tests.kernel.extractions import completeness

RUN = "ER-456"
SIGNAL = {"ec_capacity_lease_state": "none", "queue_depth": 1, "inflight_operations": 2}


def do(ledger: Ledger, unit: Any) -> Any:
    with bench_on(ledger) as context:
        return unit.run(context)


def ask(ledger: Ledger, *requests: WorkRequest) -> list[str]:
    return [request.request_id for request in do(ledger, RequestWorkUnit(requests))]


def step(number: int, prior: str, current: str, run: str = RUN, **fields: Any) -> WorkRequest:
    fields = completeness(prior, current) | fields
    content = extraction_step(run, number, prior, current, **fields)
    return WorkRequest(EXTRACTION_QUEUE, f"{run}:{number}:{current}", content)


def binding(key: str = "k") -> WorkRequest:
    return WorkRequest(BINDING_QUEUE, key, {"binding_id": "b", "source_event_id": "e"})


def report(ledger: Ledger, reported: Any) -> Any:
    return do(ledger, WorkReportUnit(reported))


def record(ledger: Ledger, request_id: str) -> tuple[str, Any]:
    outcome: tuple[str, Any] = report(ledger, TransitionDue(request_id=request_id))
    return outcome


def attempts(ledger: Ledger) -> list[dict[str, Any]]:
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.extraction_attempts, order_by="attempt_number"))
    return [orjson.loads(row["record"]) for row in rows]


def state(ledger: Ledger, request_id: str) -> str:
    with ledger.view() as view:
        status = status_of(view, request_id)
    assert status is not None
    return status.state


@pytest.mark.spec("§16.5", "§16.8", "§16.4")
def test_the_steps_of_a_run_are_orchestrated_operations_each_with_its_parent(ledger):
    """The worked example, asked for by somebody who knows no operation's id."""
    ids = ask(
        ledger,
        step(1, "pending", "running"),
        step(2, "running", "degraded"),
        step(3, "degraded", "running"),
        step(4, "running", "succeeded"),
    )
    results = []
    for request_id in ids:
        outcome, result = record(ledger, request_id)
        assert outcome == "completed"
        results.append(result)
    attempt_states = attempts(ledger)
    operations = [result.operation_id for result in results]
    assert [operation["operation_id"] for operation in attempt_states] == operations
    assert [attempt_state.get("parent_operation_id") for attempt_state in attempt_states] == [
        None,
        *operations[:-1],
    ]
    with ledger.view() as view:
        envelopes = [view.envelope(operation) for operation in operations]
        status = status_of(view, ids[3])
        assert verify(view).findings == ()
    assert status is not None
    assert (status.state, status.operation_id) == ("completed", operations[3])
    last = envelopes[3]
    assert last is not None
    assert last["causal_parent_operation_ids"] == [operations[2]]
    assert (last["actor"], last["operation_kind"]) == ("system", "extraction_state_change")
    assert last["affected_subgraph_descriptor"]["visibility_class_envelope"] == [
        "work_product_internal"
    ]
    assert len({envelope["idempotency_key"] for envelope in envelopes if envelope}) == 4


def test_a_step_that_is_delivered_twice_is_recorded_once(ledger):
    [request_id] = ask(ledger, step(1, "pending", "running"))
    assert record(ledger, request_id)[0] == "completed"
    assert record(ledger, request_id) == ("closed", None)
    assert len(attempts(ledger)) == 1


@pytest.mark.spec("§16.5")
def test_the_same_step_asked_for_under_two_keys_is_one_operation(ledger):
    next_step = step(1, "pending", "running")
    ids = ask(ledger, next_step, WorkRequest(next_step.queue, "another key", next_step.content))
    first, second = (record(ledger, request_id) for request_id in ids)
    assert (first[0], second[0]) == ("completed", "completed")
    assert first[1].operation_id == second[1].operation_id
    assert len(attempts(ledger)) == 1


def test_another_step_under_a_number_that_is_taken_is_refused_on_the_record(ledger):
    ids = ask(ledger, step(1, "pending", "running"), step(1, "pending", "cancelled"))
    record(ledger, ids[0])
    outcome, result = record(ledger, ids[1])
    assert outcome == "rejected"
    assert isinstance(result, RejectedResult)
    assert result.rejection.reason_code == "envelope_idempotency_conflict"
    assert state(ledger, ids[1]) == "open"


def test_a_step_that_comes_too_early_leaves_no_trace(ledger):
    ids = ask(ledger, step(2, "running", "degraded"), step(1, "pending", "running"))
    before = ledger_size(ledger)
    assert record(ledger, ids[0]) == ("early", None)
    assert ledger_size(ledger) == before
    record(ledger, ids[1])
    assert record(ledger, ids[0])[0] == "completed"


def ledger_size(ledger: Ledger) -> tuple[int, int]:
    with ledger.view() as view:
        return view.tables.count(TableQuery(schema.kernel_event_log)), view.tables.count(
            TableQuery(schema.receipts)
        )


@pytest.mark.spec("INV-EXT-6")
def test_a_run_that_begins_anew_waits_until_the_one_that_it_replaces_is_cancelled(ledger):
    ids = ask(
        ledger,
        step(1, "pending", "running"),
        step(1, "pending", "running", run="ER-457", replaces_extraction_run_id=RUN),
        step(2, "running", "cancelled", cancellation_reason=SOURCE_CHANGED),
    )
    record(ledger, ids[0])
    assert record(ledger, ids[1]) == ("early", None)
    record(ledger, ids[2])
    assert record(ledger, ids[1])[0] == "completed"


@pytest.mark.spec("§13.5")
def test_what_an_evaluation_came_to_closes_its_request(ledger):
    [request_id] = ask(ledger, binding())
    assert report(ledger, of_nobody(request_id)) == ("completed", None)
    assert report(ledger, of_nobody(request_id)) == ("closed", None)
    with ledger.view() as view:
        status = status_of(view, request_id)
        assert verify(view).findings == ()
    assert status is not None
    assert status.result is not None
    assert status.result["outcome_state"] == "abandoned"


@pytest.mark.parametrize(
    "changes",
    [
        {"binding_id": "other"},
        {"source_event_id": "o"},
        {"outcome_state": "pending"},
        {"outcome_state": "succeeded", "outcome_reason_code": "binding_fired"},
    ],
)
def test_an_outcome_of_something_else_closes_nothing(ledger, changes):
    [request_id] = ask(ledger, binding())
    assert report(ledger, of_nobody(request_id, **changes)) == ("rejected", None)
    assert state(ledger, request_id) == "open"


def test_reports_of_another_queue_or_of_nothing_change_nothing(ledger):
    run, bound = ask(ledger, step(1, "pending", "running"), binding())
    before = ledger_size(ledger)
    rejected = CapacityRejected(request_id=run, capacity_signal_at_rejection=SIGNAL)
    assert report(ledger, rejected) == ("unknown", None)
    assert report(ledger, TransitionDue(request_id=bound)) == ("unknown", None)
    assert report(ledger, of_nobody(run)) == ("rejected", None)
    assert report(ledger, TransitionDue(request_id="nobody")) == ("unknown", None)
    assert ledger_size(ledger) == before


def test_what_is_given_up_or_taken_back_is_not_worked_on_any_more(ledger):
    run, bound = ask(ledger, step(1, "pending", "running"), binding())
    assert report(ledger, given_up(request_id=bound, error_signature="broken"))[0] == "completed"
    cancelled, status = do(ledger, CancelRequestUnit(run, "no longer wanted"))
    assert (cancelled, status.state, status.reason) == (True, "cancelled", "no longer wanted")
    assert record(ledger, run) == ("closed", None)
    assert do(ledger, CancelRequestUnit(bound, "late")) == (False, do_status(ledger, bound))
    assert do_status(ledger, bound).state == "dead_letter"
    with pytest.raises(WorkRefused):
        do(ledger, CancelRequestUnit("nobody", "why"))


def do_status(ledger: Ledger, request_id: str) -> Any:
    with ledger.view() as view:
        return status_of(view, request_id)


@pytest.mark.spec("§17.2")
def test_a_sweep_deletes_what_is_over_and_a_second_one_finds_nothing():
    ledger, fake = ledger_on(MemoryStore())
    submit(ledger, create("u-1", "ConsolidatedUnderstanding"))
    sweep = RetentionSweepUnit()
    assert do(ledger, sweep)["ephemeral_receipts"] == 0
    fake.time_us += 2 * US_PER_DAY
    assert do(ledger, sweep)["ephemeral_receipts"] > 0
    assert do(ledger, sweep) == {"ephemeral_receipts": 0}
