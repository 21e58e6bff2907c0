"""Asked-for work: one request for a key, one outcome for a request, whatever is sent again."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, Request
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings.outcomes import SUSPENDED
from kernel.values.host import iso_time
from kernel.values.priorities import PRIORITIES_OF
from kernel.work import ready_requests, receipts, requests
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.errors import WorkRefused
from kernel.work.manifests import unevaluated_result
from kernel.work.outcomes import close, open_by_queue, open_request, put_off, reject_for_capacity
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.ready_requests import (
    FAN_OUT_CYCLE_US,
    FAN_OUT_MAX,
    first_of_each_run,
    plan_fan_out,
)
from kernel.work.reports import CapacityRejected
from kernel.work.requests import (
    DELAY_S_MAX,
    WorkRequest,
    enqueue,
    outcome_of,
    request_id_of,
    status_of,
)
from tests.extraction_steps import extraction_step
from tests.kernel.build import create, findings, ledger_on, memory_ledger, receipts_of_kind, submit


def binding(key: str = "k-1", **content: Any) -> WorkRequest:
    stated = {"binding_id": "b-1", "source_event_id": "e-1", **content}
    return WorkRequest(BINDING_QUEUE, key, stated)


def step(run: str, number: int, key: str | None = None, **fields: Any) -> WorkRequest:
    states = ("running", "degraded") if number > 1 else ("pending", "running")
    content = extraction_step(run, number, *states, **fields)
    return WorkRequest(EXTRACTION_QUEUE, key or f"{run}:{number}", content)


def ask(ledger: Ledger, *requests: WorkRequest) -> list[str]:
    with ledger.transaction() as transaction:
        return [request.request_id for request in enqueue(transaction, requests)]


def end(ledger: Ledger, request_id: str, outcome: Any = "completed", **fields: Any) -> bool:
    with ledger.transaction() as transaction:
        return close(transaction, request_id, outcome, **fields)


def suspend(ledger: Ledger, request_id: str) -> None:
    with ledger.transaction() as transaction:
        request = open_request(transaction, request_id)
        assert request is not None
        put_off(transaction, request, unevaluated_result(transaction, request, SUSPENDED))


def refused(ledger: Ledger, *requests: WorkRequest) -> tuple[str, str]:
    before = everything_open(ledger)
    with pytest.raises(WorkRefused) as caught, ledger.transaction() as transaction:
        enqueue(transaction, requests)
    assert everything_open(ledger) == before
    return caught.value.code, caught.value.field


def everything_open(ledger: Ledger) -> list[Request]:
    with ledger.view() as view:
        return view.open_requests()


@pytest.mark.spec("K19")
def test_a_request_is_an_open_row_and_a_receipt_that_says_all_of_it(ledger):
    [request_id] = ask(ledger, binding(note={"more": [1, None]}))
    [request] = everything_open(ledger)
    assert (request.queue, request.item_key) == (BINDING_QUEUE, "e-1")
    assert request.priority == "background"
    [receipt] = receipts_of_kind(ledger, "work_requested")
    assert request.document["content"]["note"] == {"more": [1, None]}
    for name, value in request.document.items():
        if name != "enqueued_at":
            assert receipt[name] == value
    assert receipt["emitted_at"] == request.document["enqueued_at"]
    assert request_id == request_id_of(BINDING_QUEUE, "k-1")
    assert findings(ledger) == ()


@pytest.mark.spec("K6")
def test_the_same_asking_is_the_same_request_whatever_became_of_it(ledger):
    [first] = ask(ledger, binding())
    assert ask(ledger, binding()) == [first]
    assert ask(ledger, binding("k-2"), binding()) == [request_id_of(BINDING_QUEUE, "k-2"), first]
    end(ledger, first)
    with ledger.transaction() as transaction:
        [again] = enqueue(transaction, [binding()])
    assert again.duplicate
    assert len(receipts_of_kind(ledger, "work_requested")) == 2
    assert refused(ledger, binding(binding_id="other"))[0] == "work_request_conflict"
    assert refused(ledger, binding("k-3"), binding("k-3", binding_id="o"))[0] == (
        "work_request_conflict"
    )
    assert findings(ledger) == ()


@pytest.mark.parametrize(
    ("work_request", "code", "field"),
    [
        (WorkRequest("authority-recompute", "k", {}), "work_queue_unknown", "queue"),
        (WorkRequest("nowhere", "k", {}), "work_queue_unknown", "queue"),
        (binding(""), "work_request_invalid", "request_key"),
        (binding("k" * 401), "work_request_invalid", "request_key"),
        (binding("a\x00b"), "work_request_invalid", "request_key"),
        (binding("\ud800"), "work_request_invalid", "request_key"),
        (binding(source_event_id="\x00"), "work_request_invalid", "content.source_event_id"),
        (binding(source_event_id=""), "work_request_invalid", "content.source_event_id"),
        (binding(binding_id=7), "work_request_invalid", "content.binding_id"),
        (binding(artifact_ref=""), "work_request_invalid", "content.artifact_ref"),
        (binding(capacity_priority="vital"), "work_request_invalid", "content.capacity_priority"),
        (binding(schema_version=2), "work_request_invalid", "content.schema_version"),
        (binding(note=float("nan")), "work_request_invalid", "content"),
        (binding(note=[1e17]), "work_request_invalid", "content"),
        (binding(note="x" * 33_000), "work_request_invalid", "content"),
        (step("a|b", 1), "work_request_invalid", "content.extraction_run_id"),
        (step("r", 0), "work_request_invalid", "content.attempt_number"),
        (step("r", 1, block_reason="rate_limit"), "work_request_invalid", "content"),
        (
            WorkRequest(EXTRACTION_QUEUE, "k", step("r", 1).content, "soon"),
            "work_request_invalid",
            "priority",
        ),
        (
            WorkRequest(EXTRACTION_QUEUE, "k", step("r", 1).content, "background_normal"),
            "work_request_invalid",
            "priority",
        ),
        (
            WorkRequest(BINDING_QUEUE, "k", binding().content, "critical"),
            "work_request_invalid",
            "priority",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused_whole(ledger, work_request, code, field):
    assert refused(ledger, binding("good"), work_request) == (code, field)
    assert receipts_of_kind(ledger, "work_requested") == []


@pytest.mark.parametrize("capacity", PRIORITIES_OF[BINDING_QUEUE])
@pytest.mark.spec("§14.2")
def test_a_binding_waits_at_the_priority_that_its_policy_has(ledger, capacity):
    ask(ledger, binding(capacity_priority=capacity))
    assert [request.priority for request in everything_open(ledger)] == [capacity]


@pytest.mark.parametrize("priority", [None, *PRIORITIES_OF[EXTRACTION_QUEUE]])
def test_a_step_waits_at_the_priority_that_its_producer_states(ledger, priority):
    ask(ledger, WorkRequest(EXTRACTION_QUEUE, "k", step("r", 1).content, priority))
    assert [request.priority for request in everything_open(ledger)] == [priority or "normal"]


@pytest.mark.parametrize("kind", [receipts.REQUESTED, receipts.CAPACITY_REJECTED])
def test_no_receipt_puts_a_request_where_its_queue_has_no_priority(ledger, kind):
    """It could not be sent; verification writes by the same table and finds it."""
    [request_id] = ask(ledger, binding())
    body = receipts_of_kind(ledger, "work_requested")[0] | {"request_id": "another"}
    body |= {"priority": "background_normal"}
    if kind == receipts.CAPACITY_REJECTED:
        body = {"request_id": request_id, "retry_priority": "background_normal"}
    with ledger.transaction() as transaction, pytest.raises(ValueError, match="no priority"):
        receipts.WRITES[kind](transaction, body)


def test_every_queue_has_its_priorities_and_its_default_is_one_of_them():
    assert PRIORITIES_OF.keys() == QUEUE_KINDS.keys()
    for queue, kind in QUEUE_KINDS.items():
        assert kind.default_priority in PRIORITIES_OF[queue]


def test_there_is_a_limit_to_what_is_asked_at_once_and_to_what_waits(ledger, monkeypatch):
    many = [binding(f"k-{number}", source_event_id=f"e-{number}") for number in range(257)]
    assert refused(ledger, *many) == ("work_request_invalid", "requests")
    monkeypatch.setattr(requests, "OPEN_MAX", 3)
    monkeypatch.setattr(requests, "ITEM_REQUESTS_MAX", 2)
    assert refused(ledger, binding("a"), binding("b"), binding("c")) == (
        "work_item_full",
        "content.source_event_id",
    )
    ask(ledger, *many[:3])
    assert refused(ledger, many[3]) == ("work_requests_too_many", "")
    assert ask(ledger, many[2]), "what is there already needs no room"
    assert ask(ledger, step("r", 1)), "another queue has its own room"
    end(ledger, request_id_of(BINDING_QUEUE, "k-0"))
    ask(ledger, many[3])


def test_a_refusal_names_the_request_that_is_to_blame(ledger):
    ask(ledger, binding("there"))
    for wrong in (binding(""), binding("there", binding_id="other")):
        with pytest.raises(WorkRefused) as caught, ledger.transaction() as transaction:
            enqueue(transaction, [binding("a"), binding("b"), wrong])
        assert caught.value.details == {"field": "request_key", "index": 2}


def test_what_is_delayed_is_not_due_before_and_is_the_same_asking_again():
    ledger, fake = ledger_on(memory_ledger().store)
    delayed = WorkRequest(BINDING_QUEUE, "k", binding().content, delay_s=60)
    assert ask(ledger, delayed) == ask(ledger, delayed)
    assert refused(ledger, binding("k"))[0] == "work_request_conflict"
    [request] = everything_open(ledger)
    due_us = request.enqueued_at_us + 60_000_000
    assert ready_requests.due([request], due_us - 1) == []
    assert ready_requests.due([request], due_us) == [request]
    with ledger.view() as view:
        status = status_of(view, request.request_id)
        assert ready_requests.fan_out_of(view, "e-1", due_us - 1).admitted == frozenset()
        assert ready_requests.fan_out_of(view, "e-1", due_us).admitted == {request.request_id}
    assert status is not None
    assert status.not_before == iso_time(due_us)
    for delay_s in (-1, DELAY_S_MAX + 1):
        delayed_request = WorkRequest(BINDING_QUEUE, "other", binding().content, delay_s=delay_s)
        assert refused(ledger, delayed_request) == ("work_request_invalid", "delay_s")
    assert fake.time_us < due_us
    assert findings(ledger) == ()


def at(time_us: int, key: str = "k", **fields: Any) -> WorkRequest:
    return WorkRequest(BINDING_QUEUE, key, binding().content, run_at=iso_time(time_us), **fields)


@pytest.mark.spec("K6")
def test_what_has_a_time_is_not_due_before_and_is_the_same_asking_whenever_it_is_asked():
    ledger, fake = ledger_on(memory_ledger().store)
    time_us = fake.time_us + 60_000_000
    [request_id] = ask(ledger, at(time_us))
    fake.time_us += 30_000_000
    elsewhere = datetime.fromtimestamp(time_us // 10**6, timezone(timedelta(hours=2))).isoformat()
    assert ask(ledger, replace(at(time_us), run_at=elsewhere)) == [request_id]
    assert refused(ledger, at(time_us + 1))[0] == "work_request_conflict"
    [request] = everything_open(ledger)
    assert request.request_id == request_id
    assert ready_requests.due([request], time_us - 1) == []
    assert ready_requests.due([request], time_us) == [request]
    with ledger.view() as view:
        status = status_of(view, request.request_id)
    assert status is not None
    assert status.not_before == iso_time(time_us)
    assert findings(ledger) == ()


def test_of_a_time_and_a_delay_the_later_holds():
    ledger, fake = ledger_on(memory_ledger().store)
    ask(ledger, at(fake.time_us + 5_000_000, "early", delay_s=60))
    ask(ledger, at(fake.time_us + 90_000_000, "late", delay_s=60))
    early, late = everything_open(ledger)
    assert ready_requests.due_at_us(early) == early.enqueued_at_us + 60_000_000
    assert ready_requests.due_at_us(late) == fake.time_us + 90_000_000


def test_a_time_is_one_and_not_too_far_away_and_may_be_over():
    ledger, fake = ledger_on(memory_ledger().store)
    latest_us = fake.time_us + DELAY_S_MAX * 10**6
    for stated in ("soon", "2031-05-01", "2031-05-01T12:00:00", "", "1", iso_time(latest_us + 1)):
        wrong = replace(at(0), run_at=stated)
        assert refused(ledger, wrong) == ("work_request_invalid", "run_at"), stated
    ask(ledger, at(latest_us, "latest"), at(0, "over"))
    fake.time_us = latest_us
    assert len(ready_requests.due(everything_open(ledger), latest_us)) == 2
    ask(ledger, at(latest_us, "latest"))


def test_what_has_no_delay_is_due_though_a_clock_was_set_back(ledger):
    ask(ledger, binding(delay_s=5), step("r", 1))
    with ledger.view() as view:
        waiting = view.open_requests()
    assert ready_requests.due(waiting, 0) == waiting


@pytest.mark.spec("§16.4")
def test_a_delayed_attempt_holds_the_later_ones_of_its_run_back(ledger):
    first = step("r", 1)
    ask(ledger, WorkRequest(first.queue, "one", first.content, delay_s=60), step("r", 2))
    with ledger.view() as view:
        waiting = view.open_requests()
        now_us = waiting[-1].enqueued_at_us
        assert first_of_each_run(view, ready_requests.due(waiting, now_us)) == []
        assert (
            first_of_each_run(view, ready_requests.due(waiting, now_us + 60_000_000)) == waiting[:1]
        )


@pytest.mark.parametrize("outcome", ["completed", "dead_letter", "cancelled"])
def test_a_request_has_one_outcome_and_never_a_second(ledger, outcome):
    [request_id] = ask(ledger, binding())
    assert end(ledger, request_id, outcome, reason="why\x00" + "y" * 300)
    for other in ("completed", "dead_letter", "cancelled"):
        assert not end(ledger, request_id, other)
    with ledger.view() as view:
        status = status_of(view, request_id)
        assert open_request(view, request_id) is None
        assert view.tables.count(TableQuery(schema.outbox_outcomes)) == 1
    assert status is not None
    assert (status.state, status.request_key, status.content) == (
        outcome,
        "k-1",
        binding().content,
    )
    assert status.reason is not None
    assert len(status.reason) == 200
    assert status.closed_at is not None
    assert status.closed_at > status.enqueued_at
    assert findings(ledger) == ()


def test_a_recompute_has_a_status_and_what_nobody_asked_for_has_none(ledger):
    submit(ledger, create("u-1", "ConsolidatedUnderstanding"))
    [authority] = everything_open(ledger)
    with ledger.view() as view:
        assert status_of(view, "nobody") is None
        status = status_of(view, authority.request_id)
    assert status is not None
    assert (status.state, status.request_key, status.item_key) == ("open", None, "u-1")
    assert status.content["target_cu_id"] == "u-1"
    for request_id in ("nobody", authority.request_id):
        with pytest.raises(WorkRefused, match="nobody asked"):
            end(ledger, request_id)


@pytest.mark.spec("§14.3", "§14.5")
@pytest.mark.parametrize(
    ("capacity", "retry"),
    [
        ("background", "background"),
        ("user_initiated", "user_initiated"),
        ("critical", "background"),
    ],
)
def test_capacity_that_ran_out_is_on_record_and_the_retry_has_its_priority(ledger, capacity, retry):
    [request_id] = ask(ledger, binding(capacity_priority=capacity))
    signal = {
        "ec_capacity_lease_state": "exhausted",
        "queue_depth": 12,
        "inflight_operations": 4,
    }
    report = CapacityRejected(
        request_id=request_id,
        binding_evaluation_id="evaluation-1",
        capacity_signal_at_rejection=signal,
    )
    with ledger.transaction() as transaction:
        assert reject_for_capacity(transaction, report)
    [receipt] = receipts_of_kind(ledger, "binding_fire_capacity_rejected")
    expected = {
        "receipt_kind": "binding_fire_capacity_rejected",
        "binding_id": "b-1",
        "source_event_id": "e-1",
        "binding_evaluation_id": "evaluation-1",
        "rejected_at": receipt["emitted_at"],
        "retry_eligible": True,
        "retry_priority": retry,
        "capacity_signal_at_rejection": signal,
        "schema_version": 1,
    }
    assert receipt.items() >= expected.items()
    [request] = everything_open(ledger)
    assert request.priority == retry
    assert ask(ledger, binding(capacity_priority=capacity)) == [request_id], "still the same asking"
    end(ledger, request_id)
    with ledger.transaction() as transaction:
        assert not reject_for_capacity(transaction, report)
    assert findings(ledger) == ()


@pytest.mark.spec("§16.4")
def test_of_each_run_only_the_first_open_attempt_is_ready(ledger):
    ids = ask(ledger, step("r", 3), step("r", 2), step("s", 1), step("r", 4))

    def ready() -> list[str]:
        with ledger.view() as view:
            waiting = view.open_requests(queue=EXTRACTION_QUEUE)
            return [request.request_id for request in first_of_each_run(view, waiting)]

    assert ready() == [ids[1], ids[2]]
    end(ledger, ids[1], "dead_letter")
    assert ready() == [ids[0], ids[2]]
    end(ledger, ids[0], "cancelled")
    assert ready() == [ids[2], ids[3]]


def test_how_a_request_of_any_queue_ended_is_one_question(ledger):
    submit(ledger, create("u-1", "ConsolidatedUnderstanding"))
    [authority] = everything_open(ledger)
    [bound] = ask(ledger, binding())
    with ledger.view() as view:
        assert outcome_of(view, "authority-recompute", authority.request_id).state == "open"
        assert outcome_of(view, BINDING_QUEUE, bound).state == "open"
        assert outcome_of(view, EXTRACTION_QUEUE, bound) is None
        assert outcome_of(view, BINDING_QUEUE, "nobody") is None
    end(ledger, bound, "completed", result={"outcome_state": "succeeded"})
    with ledger.view() as view:
        outcome = outcome_of(view, BINDING_QUEUE, bound)
    assert (outcome.state, outcome.result) == ("completed", {"outcome_state": "succeeded"})


def test_open_requests_are_counted_by_queue_without_reading_them(ledger, monkeypatch):
    submit(ledger, create("u-1", "ConsolidatedUnderstanding"))
    ask(ledger, binding("a"), binding("b"), step("r", 1))
    end(ledger, request_id_of(BINDING_QUEUE, "a"))
    with ledger.view() as view:
        # However many are open, no row is read.
        monkeypatch.setattr(type(view.tables), "scan", None)
        assert open_by_queue(view) == {
            "authority-recompute": 1,
            BINDING_QUEUE: 1,
            EXTRACTION_QUEUE: 1,
        }


@pytest.mark.spec("§14.1", "V4-AT-26-FANOUT")
def test_fifty_bindings_are_evaluated_for_an_event_in_a_cycle_the_most_urgent_first():
    ledger, fake = ledger_on(memory_ledger().store)
    requests = [binding(f"k-{n}", binding_id=f"b-{n}") for n in range(60)]
    requests[55] = binding("k-55", binding_id="b-55", capacity_priority="critical")
    requests[56] = binding("k-56", binding_id="b-56", capacity_priority="user_initiated")
    requests.append(binding("other", source_event_id="e-2"))
    ids = ask(ledger, *requests)

    def plan(at_us: int) -> ready_requests.FanOut:
        with ledger.view() as view:
            return ready_requests.fan_out_of(view, "e-1", at_us)

    now_us = fake.time_us
    first = plan(now_us)
    assert first.admitted == {*ids[:48], ids[55], ids[56]}
    assert first.deferred == (*ids[48:55], *ids[57:60])
    assert first.deferred_evaluation_at_us == now_us + FAN_OUT_CYCLE_US
    for request_id in first.admitted:
        end(ledger, request_id)
    with ledger.view() as view:
        closed_us = sorted(
            row["closed_at_us"] for row in view.tables.scan(TableQuery(schema.outbox_outcomes))
        )
    # The cycle is used up, for those that come now as well.
    ask(ledger, binding("late", capacity_priority="critical"))
    used_up = plan(closed_us[-1])
    assert used_up.admitted == frozenset()
    assert used_up.deferred_evaluation_at_us == closed_us[0] + FAN_OUT_CYCLE_US
    again = plan(closed_us[-1] + FAN_OUT_CYCLE_US)
    assert again.deferred == ()
    assert len(again.admitted) == 11


@pytest.mark.spec("§14.3")
def test_the_suspended_of_a_cycle_go_first_in_the_order_of_their_suspension():
    ledger = memory_ledger()
    ids = ask(ledger, *(binding(f"k-{n}", binding_id=f"b-{n}") for n in range(6)))
    for place in (4, 1, 3, 4):
        suspend(ledger, ids[place])
    with ledger.view() as view:
        requests = view.open_requests()
        since = ready_requests.suspension_times(view, requests)
        plan = ready_requests.fan_out_of(view, "e-1", 0, fan_out_max=4)
        assert ready_requests.suspension_times(view, []) == {}
    assert [*since] == [ids[4], ids[1], ids[3]]
    assert [*since.values()] == sorted(since.values())
    assert plan.admitted == {ids[4], ids[1], ids[3], ids[0]}
    assert plan.deferred == (ids[2], ids[5])


@pytest.mark.spec("§14.1")
@given(
    st.lists(st.sampled_from(list(PRIORITIES_OF[BINDING_QUEUE])), max_size=12),
    st.lists(st.integers(0, 2 * FAN_OUT_CYCLE_US), max_size=12),
    st.integers(0, 2 * FAN_OUT_CYCLE_US),
    st.integers(1, 8),
)
def test_a_cycle_never_has_more_than_its_fan_out_and_nothing_is_left_out(
    priorities, evaluated_us, now_us, fan_out_max
):
    waiting = [
        Request(f"r-{n}", n, BINDING_QUEUE, "e", priority, 0, 0, b"{}")
        for n, priority in enumerate(priorities)
    ]
    plan = plan_fan_out(waiting, evaluated_us, now_us, fan_out_max)
    recent = [at for at in evaluated_us if at > now_us - FAN_OUT_CYCLE_US]
    assert len(plan.admitted) + len(recent) <= max(fan_out_max, len(recent))
    assert plan.admitted | set(plan.deferred) == {request.request_id for request in waiting}
    assert not plan.admitted & set(plan.deferred)
    assert (plan.deferred_evaluation_at_us is not None) == bool(plan.deferred)
    if not recent:
        assert len(plan.admitted) == min(len(waiting), FAN_OUT_MAX, fan_out_max)
