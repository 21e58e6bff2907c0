"""What is wrong with stored runs, at a glance and at a bounded cost."""

from kernel.landscape.recent_runs import (
    FAILED_KNOWN_US,
    MANY_ERRORS,
    STUCK_AFTER_US,
    RunTrouble,
    problems_of_runs,
)
from kernel.values.host import iso_time
from tests.kernel.landscape.runs import begin, seal, whole_run


def troubles(ledger, now_us):
    seen = ledger.read(lambda view: problems_of_runs(view, now_us))
    return {(trouble.run_id, trouble.kind) for trouble in seen}


def test_a_run_that_hangs_or_failed_or_has_no_seal_is_in_trouble(ledger, recorder):
    for run_id in ("hangs", "failed", "unsealed"):
        begin(recorder, run_id)
    recorder.complete_run("failed", "failed")
    recorder.complete_run("unsealed")
    now_us = ledger.host.now_us()
    assert troubles(ledger, now_us) == {("failed", "run_failed"), ("unsealed", "run_troubled")}
    later_us = now_us + STUCK_AFTER_US + 1
    assert ("hangs", "run_stuck") in troubles(ledger, later_us)
    assert ("failed", "run_failed") not in troubles(ledger, now_us + FAILED_KNOWN_US + 1)


def test_a_sealed_run_is_in_no_trouble_and_one_with_many_errors_is(ledger, recorder):
    whole_run(recorder)
    recorder.complete_run("run-1")
    seal(ledger)
    assert troubles(ledger, ledger.host.now_us()) == set()
    begin(recorder, "odd")
    for number in range(MANY_ERRORS + 1):
        recorder.record_validation_error("odd", {"n": number}, "no text", node_id="source")
    recorder.flush()
    [trouble] = ledger.read(lambda view: problems_of_runs(view, ledger.host.now_us()))
    message = f"has more than {MANY_ERRORS} errors"
    assert trouble == RunTrouble("run_troubled", "odd", message, trouble.since)
    assert trouble.since <= iso_time(ledger.host.now_us())
