"""The way of a request: what happened to it in order, what caused it, and what it led to."""

import pytest

from actors.commit.work_units import PauseUnit, PrioritizeUnit, RequestWorkUnit
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.values.host import parse_time_us
from kernel.work import request_history as request_history_module
from kernel.work.attempts import record_attempt
from kernel.work.contents import BINDING_QUEUE
from kernel.work.dead_letters import DeadLetterDismissal, dismiss, requeue
from kernel.work.outcomes import close
from kernel.work.pauses import PauseDecision
from kernel.work.reports import SuccessfulAttempt
from kernel.work.request_history import RequestHistory, request_history
from kernel.work.request_lists import list_requests
from kernel.work.request_search import RequestSearch, requests_caused_by
from kernel.work.requests import SCHEDULE_KEY, WorkRequest, status_of
from tests.actors.harness import bench_on
from tests.kernel.attempts import delivery, failed
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.deciding import deciding

MINUTE_US = 60_000_000


def do(ledger: Ledger, unit) -> object:
    with bench_on(ledger) as context:
        return unit.run(context)


def asked(ledger: Ledger, key: str) -> str:
    content = {"binding_id": "b-1", "source_event_id": f"e-{key}"}
    [receipt] = do(
        ledger, RequestWorkUnit((WorkRequest(BINDING_QUEUE, key, content),), by_worker=True)
    )
    return receipt.request_id


def history(ledger: Ledger, request_id: str) -> RequestHistory:
    with ledger.view() as view:
        status = status_of(view, request_id, attempts=True)
        assert status is not None
        return request_history(view, status)


def told(ledger: Ledger, request_id: str) -> list[tuple[str, str, str]]:
    return [(each.what, each.words, each.who) for each in history(ledger, request_id).events]


def test_what_happened_is_told_in_its_order_with_who_did_it():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    do(ledger, PauseUnit(PauseDecision(BINDING_QUEUE, "critical", "eve", "another"), True))
    request_id, other = asked(ledger, "a"), asked(ledger, "b")
    host.time_us += MINUTE_US
    do(ledger, PauseUnit(PauseDecision(BINDING_QUEUE, None, "ada", "an exchange"), True))
    host.time_us += MINUTE_US
    do(ledger, PauseUnit(PauseDecision(BINDING_QUEUE, None, "bob", ""), False))
    host.time_us += MINUTE_US
    with ledger.transaction() as transaction:
        request = transaction.open_request(request_id)
        held = delivery(started_at_us=host.time_us, ended_at_us=host.time_us + 2_000_000)
        record_attempt(transaction, request, failed(request_id, delivery=held))
    host.time_us += MINUTE_US
    do(ledger, PrioritizeUnit(request_id, "user_initiated", "a deadline", "ada"))
    host.time_us += MINUTE_US
    with ledger.transaction() as transaction:
        close(transaction, request_id, "dead_letter", reason="broken")
    do(ledger, PauseUnit(PauseDecision(BINDING_QUEUE, None, "ada", "later"), True))
    with ledger.transaction() as transaction:
        dismissal = DeadLetterDismissal("known", "ada")
        dismiss(transaction, BINDING_QUEUE, [request_id], dismissal, deciding(transaction))
    assert told(ledger, request_id) == [
        ("asked", "Asked for at the priority background", ""),
        ("paused", "Paused its queue: an exchange", "ada"),
        ("resumed", "Resumed its queue", "bob"),
        ("attempt", "Attempt 1 failed: ValueError", "worker-1"),
        ("priority", "Given the priority user_initiated", "ada"),
        ("outcome", "Given up: broken", ""),
        ("settled", "Dismissed: known", "ada"),
    ]
    attempt = history(ledger, request_id).events[3]
    assert attempt.took_ms == 2000
    assert [what for what, _, _ in told(ledger, other)] == ["asked", "paused", "resumed", "paused"]
    late = asked(ledger, "late")
    assert ("paused", "Paused before it was asked for", "ada") in told(ledger, late)


def test_of_the_attempt_that_succeeded_it_is_told_when_it_began():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    request_id = asked(ledger, "a")
    host.time_us += MINUTE_US
    attempt = SuccessfulAttempt(took_ms=20_000, worker="worker-1")
    with ledger.transaction() as transaction:
        close(transaction, request_id, "completed", attempt=attempt)
    begin, begun, outcome = history(ledger, request_id).events
    assert [event.what for event in (begin, begun, outcome)] == ["asked", "begun", "outcome"]
    assert (begun.took_ms, begun.who) == (20_000, "worker-1")
    lasted_us = parse_time_us(outcome.at) - parse_time_us(begun.at)
    assert lasted_us == 20_000_000


def test_a_request_names_what_asked_for_it_and_what_followed(ledger: Ledger):
    first = asked(ledger, "a")
    assert history(ledger, first).cause.kind == "producer"
    with ledger.transaction() as transaction:
        close(transaction, first, "dead_letter", reason="broken")
    assert history(ledger, first).led_to == ()
    with ledger.transaction() as transaction:
        [again] = requeue(transaction, BINDING_QUEUE, [first], "ada", deciding(transaction))
    [link] = history(ledger, first).led_to
    assert (link.kind, link.name, link.queue) == ("request", again.request_id, BINDING_QUEUE)
    cause = history(ledger, again.request_id).cause
    assert (cause.kind, cause.name) == ("request", first)
    assert told(ledger, first)[-1][:2] == ("settled", "Asked for anew")
    scheduled = asked(ledger, f"{SCHEDULE_KEY}nightly:{1_700_000_000}")
    cause = history(ledger, scheduled).cause
    assert (cause.kind, cause.name, cause.queue) == ("schedule", "nightly", BINDING_QUEUE)


def test_what_the_record_asks_for_names_the_operation_that_caused_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    request_id = asked(ledger, "a")
    submit(ledger, *(create(f"u-{n}", "ConsolidatedUnderstanding") for n in range(3)))
    later = asked(ledger, "behind the operations and caused by none")
    with ledger.view() as view:
        page = list_requests(view, RequestSearch(AUTHORITY_QUEUE), after=None, limit=9)
        assert len(page.requests) == 3
    for request in page.requests:
        cause = history(ledger, request.request_id).cause
        assert cause.kind == "operation"
        with ledger.view() as view:
            row = view.log_row_of(cause.name)
            assert row is not None
            caused = [*requests_caused_by(view, row["ec_sequence_number"])]
            assert [each.request_id for each in caused] == [request.request_id]
    with ledger.transaction() as transaction:
        close(transaction, request_id, "completed", operation_id=cause.name)
    operation, recompute = history(ledger, request_id).led_to
    assert (operation.kind, operation.name) == ("operation", cause.name)
    assert (recompute.kind, recompute.name) == ("request", request.request_id)
    assert history(ledger, later).led_to == ()
    assert not history(ledger, request_id).is_cut
    monkeypatch.setattr(request_history_module, "LED_TO_MAX", 1)
    assert (history(ledger, request_id).led_to, history(ledger, request_id).is_cut) == (
        (operation,),
        True,
    )
