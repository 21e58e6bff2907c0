"""Detectors over a growing log: loops end, failures stay with their detector, nothing is lost."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
import structlog
from pydantic import SecretStr

from actors.implications.page import IMPLICATIONS_MAX, DetectorFailed, detect_page
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.records.implications.halts import EXCEEDED, halts_of
from kernel.records.implications.loop_limits import CYCLE_EPOCHS_MAX
from kernel.records.implications.runs import run_of
from kernel.values.errors import LedgerUnavailable
from tests.foreign_ends import ENDS, nobody_at_the_keyboard
from tests.kernel.build import (
    accept,
    adapt,
    create,
    findings,
    memory_ledger,
    receipts_of_kind,
)
from tests.kernel.implied import resumption
from tests.kernel.quarantining import quarantined
from tests.workers.implications.detectors import ENDLESS, TAGGING, Failing, Repeating, SlowToLoad
from tests.workers.implications.docketed import imply
from tests.workers.implications.running import Clock, running_detection, until_quiet
from workers.environment.ledger_access import open_or_create_ledger
from workers.environment.system_host import system_host
from workers.implications.detecting_process import DetectingProcess
from workers.implications.detection import ATTEMPTS_MAX

BRIDGE = pytest.mark.spec("INV-A-BRIDGE-1", "§19.1")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def place(request, tmp_path):
    if request.param == "sqlite":
        return tmp_path / "ledger.db"
    return SecretStr(request.getfixturevalue("postgres_url"))


@pytest.fixture
def sqlite(tmp_path):
    return tmp_path / "ledger.db"


def founded(place) -> Ledger:
    return open_or_create_ledger(place, system_host())


def detect(ledger, place, *detectors):
    """Run the detectors until there is nothing left to imply; return how much they emitted."""

    async def run():
        async with running_detection(ledger, place, detectors) as detection:
            return await until_quiet(detection)

    return anyio.run(run)


def standing(ledger):
    return ledger.read(lambda view: halts_of(view, limit=100))


def implied_by(ledger):
    return ledger.read(lambda view: view.tables.scan(TableQuery(schema.implied_operations)))


@BRIDGE
def test_a_detector_that_would_run_for_ever_is_halted_until_a_person_resumes_it(place):
    with closing(founded(place)) as ledger:
        accept(ledger, create("n", "Note"), create("m", "Note"), adapt("n", title="by hand"))
        assert detect(ledger, place, ENDLESS) == CYCLE_EPOCHS_MAX
        [halt] = standing(ledger)
        assert (halt.reason_code, halt.operation_kind, halt.target_ref) == (
            EXCEEDED,
            "field_adapt",
            "n",
        )
        [receipt] = receipts_of_kind(ledger, EXCEEDED)
        assert receipt["repetitions"] == CYCLE_EPOCHS_MAX
    # The halt survives the process.
    with closing(founded(place)) as ledger:
        accept(ledger, adapt("n", title="again"), adapt("m", title="elsewhere"))
        assert detect(ledger, place, ENDLESS) == CYCLE_EPOCHS_MAX
        assert {stands.target_ref for stands in standing(ledger)} == {"n", "m"}
        accept(ledger, resumption(halt.halt_id), adapt("n", title="once more"))
        assert detect(ledger, place, ENDLESS) == CYCLE_EPOCHS_MAX
        assert findings(ledger) == ()


@BRIDGE
def test_what_is_implied_is_emitted_once_whoever_reads_again(sqlite):
    with closing(founded(sqlite)) as ledger:
        accept(ledger, create("a", "Note"), create("b", "Note"))
        assert detect(ledger, sqlite, TAGGING) == 2
        assert detect(ledger, sqlite, TAGGING) == 0
        accept(ledger, create("c", "Note"))
        assert detect(ledger, sqlite, TAGGING) == 1
        assert findings(ledger) == ()


@BRIDGE
def test_of_two_that_read_the_same_stretch_one_records_it(sqlite):
    async def race(ledger):
        async with (
            running_detection(ledger, sqlite, [TAGGING]) as first,
            running_detection(ledger, sqlite, [TAGGING]) as second,
        ):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(first.detect_new)
                tasks.start_soon(second.detect_new)
            await until_quiet(first)
            await until_quiet(second)

    with closing(founded(sqlite)) as ledger:
        accept(ledger, create("a", "Note"))
        anyio.run(race, ledger)
        assert len(implied_by(ledger)) == 1


@BRIDGE
def test_operations_that_imply_too_much_together_are_shown_in_smaller_pages():
    ledger, detector = memory_ledger(), Repeating()
    accept(ledger, *(create(f"n{number}", "Note") for number in range(IMPLICATIONS_MAX // 2)))
    runs = imply(ledger, detector)
    emitted = [operation_id for run in runs for operation_id in run.operation_ids]
    assert len(set(emitted)) == detector.times * (IMPLICATIONS_MAX // 2)
    assert len(runs) > 1
    assert all(len(run.operation_ids) <= IMPLICATIONS_MAX for run in runs)


@BRIDGE
def test_one_operation_that_implies_too_much_is_a_failure_of_the_detector():
    ledger = memory_ledger()
    accept(ledger, create("n", "Note"))
    with pytest.raises(DetectorFailed) as failed, ledger.view() as view:
        detect_page(Repeating(times=IMPLICATIONS_MAX + 1), view, 0)
    assert failed.value.code == "implication_answer_too_large"


@BRIDGE
@pytest.mark.spec("§17.5")
def test_a_detector_is_not_shown_what_is_quarantined_and_goes_on_behind_it():
    ledger = memory_ledger()
    accept(ledger, *(create(f"n{number}", "Note") for number in range(3)))
    quarantined(ledger, 2)
    with ledger.view() as view:
        page = detect_page(Repeating(times=1), view, 0)
        shown = [name for each in page.implications for name in each.implied_by_operation_ids]
        hidden = view.log_row_at(2)["operation_id"]
    assert page.through_sequence == 3
    assert len(shown) == 2
    assert hidden not in shown


@BRIDGE
def test_the_start_of_the_process_does_not_count_against_a_detector(sqlite):
    limit_s = 2.0
    slow = SlowToLoad("slow", frozenset({"create"}), "tagged_by", "operation_id", 1.5 * limit_s)

    async def run(ledger):
        async with running_detection(ledger, sqlite, [slow], limit_s=limit_s) as detection:
            return await detection.detect_new()

    with closing(founded(sqlite)) as ledger:
        accept(ledger, create("n", "Note"))
        assert anyio.run(run, ledger) == 1


@BRIDGE
def test_a_process_that_does_not_begin_is_tried_again_and_halts_nobody(sqlite):
    async def run(ledger):
        async with running_detection(ledger, sqlite, [TAGGING], start_limit_s=0.01) as detection:
            for _ in range(ATTEMPTS_MAX + 1):
                assert await detection.detect_new() == 0

    with closing(founded(sqlite)) as ledger, structlog.testing.capture_logs() as events:
        accept(ledger, create("n", "Note"))
        anyio.run(run, ledger)
        said = {(event["event"], event["code"]) for event in events}
        assert said == {("implications_wait", "ledger_unavailable")}
        assert len(events) == ATTEMPTS_MAX + 1
        assert standing(ledger) == []


def test_a_ledger_that_cannot_be_opened_is_no_failure_of_a_detector(tmp_path):
    process = DetectingProcess(tmp_path / "nothing.db", [TAGGING])
    with closing(process), pytest.raises(LedgerUnavailable):
        process.detect(TAGGING.name, 0)


FAILURES = {
    "raises": "implication_detector_raised",
    "hangs": "implication_detector_timed_out",
    "ends": "implication_detector_ended",
    "answers-envelopes": "implication_answer_invalid",
    "names-others": "implication_answer_invalid",
    "answers-without-end": "implication_answer_too_large",
    "names-nothing-there": "intent_invalid",
}


@BRIDGE
@pytest.mark.slow
@pytest.mark.parametrize("name", FAILURES)
def test_a_detector_that_fails_is_halted_and_the_others_go_on(sqlite, name):
    clock = Clock()
    limit_s = 1.0 if name == "hangs" else 30.0
    detectors = [Failing(name), TAGGING]

    async def run(ledger):
        async with running_detection(
            ledger, sqlite, detectors, limit_s=limit_s, clock=clock
        ) as detection:
            for _ in range(4):
                yield await detection.detect_new()
                clock.now_s += 60

    async def total(ledger):
        return sum([emitted async for emitted in run(ledger)])

    with closing(founded(sqlite)) as ledger, structlog.testing.capture_logs() as events:
        accept(ledger, create("n", "Note"))
        assert anyio.run(total, ledger) == 1
        [halt] = standing(ledger)
        assert (halt.detector, halt.error_code) == (name, FAILURES[name])
        assert ledger.read(lambda view: run_of(view, name)) is None
        failed = [event for event in events if event["event"] == "implication_detector_failed"]
        assert {event["code"] for event in failed} == {FAILURES[name]}
        assert findings(ledger) == ()


@dataclass(frozen=True)
class Odd:
    """Ends as a test says."""

    detect: Callable[..., Any]
    name: str = "odd"
    semantic_intents: frozenset[str] = frozenset({"create"})


@BRIDGE
@pytest.mark.parametrize("name", ENDS)
def test_however_a_detector_ends_it_has_failed_and_says_where(name: str):
    def several(*_: Any) -> Iterator[Any]:
        yield ENDS[name]()

    ledger = memory_ledger()
    accept(ledger, create("n", "Note"))
    for detect in (ENDS[name], several):
        with (
            nobody_at_the_keyboard(),
            pytest.raises(DetectorFailed) as failed,
            ledger.view() as view,
        ):
            detect_page(Odd(detect), view, 0)
        is_exit = name == "SystemExit"
        assert failed.value.code == f"implication_detector_{'ended' if is_exit else 'raised'}"
        assert "Traceback" in failed.value.traceback
