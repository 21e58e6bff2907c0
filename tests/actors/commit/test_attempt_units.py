"""What is recorded of an attempt that failed, beside the record, and what follows."""

from typing import Any

import pytest

from actors.commit.work_units import RequestWorkUnit, RetryPolicyUnit, WorkReportUnit
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.values.host import iso_time, parse_time_us
from kernel.work.attempts import (
    POLICY_FLOOR_US,
    POLICY_PAGE,
    Failures,
    RetryPause,
    failures_of,
    waiting_retries,
    waits_by_another,
)
from kernel.work.contents import BINDING_QUEUE
from kernel.work.requests import WorkRequest, status_of
from kernel.work.retry_policy import DEFAULT_POLICY, RetryPolicy
from tests.actors.harness import bench_on
from tests.kernel.attempts import STARTED_US, delivery, failed, lost, snoozed
from tests.kernel.build import FakeHost, findings

pytestmark = pytest.mark.spec("§8.3")


class Attempts:
    """A ledger with requests, of which a worker reports."""

    def __init__(self, ledger: Ledger, host: FakeHost) -> None:
        self.ledger, self.host = ledger, host
        host.time_us = STARTED_US + 2_000_000

    def do(self, unit: Any) -> Any:
        with bench_on(self.ledger) as context:
            return unit.run(context)

    def ask(self, *names: str) -> list[str]:
        requests = tuple(
            WorkRequest(BINDING_QUEUE, name, {"binding_id": name, "source_event_id": "e"})
            for name in names
        )
        return [receipt.request_id for receipt in self.do(RequestWorkUnit(requests))]

    def report(self, report: Any) -> Any:
        return self.do(WorkReportUnit(report))

    def failures(self, request_id: str) -> Failures:
        failures = self.ledger.read(lambda view: failures_of(view, request_id, attempts=True))
        assert failures is not None
        return failures

    def state(self, request_id: str) -> tuple[str, str | None]:
        status = self.ledger.read(lambda view: status_of(view, request_id))
        assert status is not None
        return status.state, status.reason


@pytest.fixture
def attempts() -> Attempts:
    host = FakeHost()
    return Attempts(Ledger.create(MemoryStore(), host.host), host)


def test_a_failure_is_counted_and_waits_by_its_policy(attempts: Attempts):
    [request_id] = attempts.ask("b")
    assert attempts.report(failed(request_id)) == ("waits", RetryPause(5_000))
    failures = attempts.failures(request_id)
    assert (failures.deliveries, failures.failures, failures.snoozes) == (1, 1, 0)
    assert failures.next_attempt_at == iso_time(attempts.host.time_us + 5_000_000)
    assert failures.first_started_at == iso_time(STARTED_US)
    assert failures.policy_version == DEFAULT_POLICY.version
    [attempt] = failures.attempts
    assert (attempt.attempt_number, attempt.worker, attempt.took_ms) == (1, "worker-1", 1500)
    assert (attempt.error_class, attempt.message) == ("ValueError", "no such image")
    assert attempt.signature == failures.signature == "ValueError in jobs.resize: no such image"
    assert findings(attempts.ledger) == ()


def test_a_report_that_comes_twice_is_counted_once(attempts: Attempts):
    [request_id] = attempts.ask("b")
    attempts.report(failed(request_id))
    attempts.host.time_us += 1_000_000
    assert attempts.report(failed(request_id)) == ("waits", RetryPause(4_000))
    assert attempts.failures(request_id).failures == 1


def test_the_last_attempt_of_a_policy_makes_a_dead_letter_with_its_reason(attempts: Attempts):
    [request_id] = attempts.ask("b")
    policy = RetryPolicy(attempts=3)
    for number in range(2):
        outcome, _ = attempts.report(failed(request_id, f"c-{number}", policy=policy))
        assert outcome == "waits"
    assert attempts.report(failed(request_id, "c-2", policy=policy)) == ("completed", None)
    assert attempts.state(request_id) == ("dead_letter", "handler_failed: ValueError")
    assert attempts.failures(request_id).next_attempt_at is None
    assert attempts.report(failed(request_id, "c-3", policy=policy)) == ("closed", None)
    assert attempts.failures(request_id).failures == 3
    assert findings(attempts.ledger) == ()


def test_a_final_failure_is_a_dead_letter_at_once(attempts: Attempts):
    [request_id] = attempts.ask("b")
    assert attempts.report(failed(request_id, code="no_image", final=True))[0] == "completed"
    assert attempts.state(request_id) == ("dead_letter", "no_image")


def test_time_runs_from_the_begin_of_the_first_attempt_and_not_from_the_asking(attempts: Attempts):
    [request_id] = attempts.ask("b")
    attempts.host.time_us += 24 * 3_600_000_000
    policy = RetryPolicy(elapsed_ms_max=600_000, first_pause_ms=300_000)
    began = attempts.host.time_us
    times = {"started_at_us": began, "ended_at_us": began + 1_000_000}
    first = failed(request_id, policy=policy, delivery=delivery("c-1", **times))
    assert attempts.report(first)[0] == "waits"
    attempts.host.time_us += 300_000_000
    # Its next pause of ten minutes would end behind the ten minutes that it has.
    assert attempts.report(failed(request_id, "c-2", policy=policy))[0] == "completed"
    assert attempts.state(request_id)[0] == "dead_letter"


def test_a_snooze_is_no_failure_and_has_a_bound_of_its_own(attempts: Attempts):
    [request_id] = attempts.ask("b")
    policy = RetryPolicy(snoozes=3)
    for number in range(3):
        report = snoozed(request_id, f"s-{number}", 7_000, policy=policy)
        assert attempts.report(report) == ("waits", RetryPause(7_000))
    assert attempts.report(failed(request_id, "c", policy=policy)) == ("waits", RetryPause(5_000))
    failures = attempts.failures(request_id)
    assert (failures.deliveries, failures.failures, failures.snoozes) == (4, 1, 3)
    assert len(failures.attempts) == 1
    attempts.report(snoozed(request_id, "s-3", 7_000, policy=policy))
    assert attempts.state(request_id) == ("dead_letter", "snoozes_exhausted")


def test_a_worker_that_vanished_is_an_attempt_of_its_own_and_three_ends_are_enough(
    attempts: Attempts,
):
    [request_id] = attempts.ask("b")
    for ends in (0, 1, 2):
        assert attempts.report(lost(request_id, f"w-{ends}", ends)) == ("waits", RetryPause(0))
    assert attempts.report(lost(request_id, "w-3", 3)) == ("completed", None)
    assert attempts.state(request_id) == ("dead_letter", "worker_ended_three_times")
    failures = attempts.failures(request_id)
    assert (failures.failures, failures.worker_ends, len(failures.attempts)) == (0, 3, 4)
    assert {attempt.code for attempt in failures.attempts} == {"worker_lost"}


def test_the_first_and_the_last_attempts_are_kept_and_the_others_counted(attempts: Attempts):
    [request_id] = attempts.ask("b")
    policy = RetryPolicy(attempts=1000, first_pause_ms=0, pause_ms_max=0)
    for number in range(1, 51):
        attempts.report(failed(request_id, f"c-{number}", policy=policy))
    failures = attempts.failures(request_id)
    kept = [attempt.attempt_number for attempt in failures.attempts]
    assert kept == [1, 2, 3, *range(34, 51)]
    assert (failures.failures, failures.attempts_left_out) == (50, 30)


def test_another_policy_reaches_what_waits_in_pages(attempts: Attempts):
    names = [f"b-{number}" for number in range(POLICY_PAGE + 1)]
    request_ids = attempts.ask(*names[:200]) + attempts.ask(*names[200:])
    for request_id in request_ids:
        attempts.report(failed(request_id))
    shorter = RetryPolicy(first_pause_ms=20_000)

    def still_waits() -> bool:
        return attempts.ledger.read(lambda view: waits_by_another(view, BINDING_QUEUE, shorter))

    for left in (True, False):
        assert still_waits()
        assert attempts.do(RetryPolicyUnit(BINDING_QUEUE, shorter)) == 0
        assert still_waits() is left
    for request_id in request_ids:
        failures = attempts.failures(request_id)
        assert failures.policy_version == shorter.version
        due_us = parse_time_us(str(failures.next_attempt_at)) - STARTED_US - 1_500_000
        assert 16_000_000 <= due_us <= 24_000_000
    assert attempts.do(RetryPolicyUnit(BINDING_QUEUE, shorter)) == 0


def test_a_policy_with_fewer_attempts_ends_what_has_had_them(attempts: Attempts):
    often, once = attempts.ask("often", "once")
    for number in range(3):
        attempts.report(failed(often, f"c-{number}"))
    attempts.report(failed(once, "c"))
    assert attempts.do(RetryPolicyUnit(BINDING_QUEUE, RetryPolicy(attempts=2))) == 1
    assert attempts.state(often) == ("dead_letter", "handler_failed: ValueError")
    assert attempts.state(once)[0] == "open"


def test_a_shorter_pause_leaves_redis_the_time_to_hear_of_it(attempts: Attempts):
    [request_id] = attempts.ask("b")
    attempts.report(failed(request_id, policy=RetryPolicy(first_pause_ms=3_600_000)))
    attempts.host.time_us += 60_000_000
    attempts.do(RetryPolicyUnit(BINDING_QUEUE, DEFAULT_POLICY))
    due_at = attempts.failures(request_id).next_attempt_at
    assert due_at == iso_time(attempts.host.time_us + POLICY_FLOOR_US)


def test_a_snooze_does_not_follow_another_policy(attempts: Attempts):
    [request_id] = attempts.ask("b")
    attempts.report(snoozed(request_id, "s", 3_600_000))
    due_at = attempts.failures(request_id).next_attempt_at
    attempts.do(RetryPolicyUnit(BINDING_QUEUE, RetryPolicy(first_pause_ms=1)))
    assert attempts.failures(request_id).next_attempt_at == due_at


def test_a_success_after_failures_keeps_them_and_is_left_alone_by_a_policy(attempts: Attempts):
    [request_id] = attempts.ask("b")
    attempts.report(failed(request_id))
    attempts.report(failed(request_id, "c-2", final=True))
    assert attempts.do(RetryPolicyUnit(BINDING_QUEUE, RetryPolicy(attempts=1))) == 0
    assert len(attempts.failures(request_id).attempts) == 2


def test_what_a_relay_needs_to_know_is_read_for_many_at_once(attempts: Attempts):
    request_ids = attempts.ask("a", "b", "c")
    attempts.report(failed(request_ids[0]))
    attempts.report(lost(request_ids[1], "w", 1))
    with attempts.ledger.view() as view:
        retries = waiting_retries(view, view.open_requests(queue=BINDING_QUEUE))
    assert retries.keys() == set(request_ids[:2])
    assert (retries[request_ids[0]].attempts, retries[request_ids[0]].worker_ends) == (1, 0)
    assert (retries[request_ids[1]].attempts, retries[request_ids[1]].worker_ends) == (1, 1)
