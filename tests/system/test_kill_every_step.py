"""A process killed at any step of a submit has kept its word, and nothing half done.

The clock and the randomness repeat, so what a killed process may leave is known to the byte: the
ledger before or after each of its transactions.
"""

import hashlib
import os
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.verify import verify
from tests.kernel.build import FakeHost, code_of, create, effect, everything, submit
from tests.system.faulty_store import CountedSteps, FaultyStore, step_in_ledger
from tests.system.killed_at_steps import in_a_process

pytestmark = pytest.mark.timeout(180)

AT_ONCE = 8
RETRIED_EACH = 8
"""A retry is made on the first of the ledgers that have the same rows, and at every eighth step."""

FEWEST_STEPS = 8
"""A submit of three effects that takes fewer steps was not looked at."""


def index(node_id: str) -> dict[str, Any]:
    return effect("index_update", node_id, index_name="i", entry={})


def batches() -> list[list[dict[str, Any]]]:
    """What is submitted: three effects each, one refused as it is applied, one asked for twice."""
    first = create("n", "Note", index("n"))
    understanding = create("cu", "ConsolidatedUnderstanding", index("cu"))
    refused = create("late", "Note", effect("index_update", "n", index_name="a|b", entry={}))
    return [[first], [understanding, refused, first], [create("m", "Note", index("m"))]]


BATCHES = batches()
REFUSED = BATCHES[1][1]["operation_id"]
ACCEPTED = {operation["operation_id"] for batch in BATCHES for operation in batch} - {REFUSED}


class UndisturbedCourse:
    """What a run that nobody disturbs comes to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.empty = folder / "empty.db"
        opened(self.empty).close()
        path = self.copy("undisturbed")
        self.states = [everything_in(path)]
        ledger = opened(path)
        for batch in BATCHES:
            submit(ledger, *batch)
            self.states.append(everything(ledger))
        ledger.close()
        status, answers = Child(self.copy("counted"), None).ended()
        assert status == 0
        last = answers[-1]
        self.steps = int(last)

    def copy(self, name: str) -> Path:
        return Path(shutil.copy(self.empty, self.folder / f"{name}.db"))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> UndisturbedCourse:
    return UndisturbedCourse(tmp_path_factory.mktemp("steps"))


def opened(path: Path) -> Ledger:
    return Ledger.create(SqliteStore(path), FakeHost().host)


def everything_in(path: Path) -> dict[str, list[dict[str, Any]]]:
    ledger = opened(path)
    try:
        return everything(ledger)
    finally:
        ledger.close()


class Child:
    """A process of its own that submits the batches, until it is killed."""

    def __init__(self, path: Path, kill_at: int | None) -> None:
        self.path = path
        self._read, write = os.pipe()
        self._pid = in_a_process(partial(_submit_all, path, kill_at, write))
        os.close(write)

    def ended(self) -> tuple[int, list[str]]:
        """Its status and the answers that it gave."""
        with os.fdopen(self._read) as answers:
            lines = answers.read().splitlines()
        return os.waitpid(self._pid, 0)[1], lines


def _submit_all(path: Path, kill_at: int | None, answers: int) -> None:
    """One line of answers once each transaction is durable, and at the end the number of steps."""
    steps = CountedSteps(kill_at)
    ledger = Ledger(FaultyStore(SqliteStore(path), steps), FakeHost().host)
    step_in_ledger(steps)
    for batch in BATCHES:
        results = submit(ledger, *batch)
        many = results if isinstance(results, list) else [results]
        codes = ",".join(code_of(result) or str(result.ec_sequence_number) for result in many)
        os.write(answers, f"{codes}\n".encode())
    os.write(answers, f"{steps.count}\n".encode())


def killed_at_each_step(course: UndisturbedCourse) -> Iterator[tuple[int, Path, list[str]]]:
    """Each step with the ledger that a kill there leaves, and the answers given before."""
    steps = iter(range(1, course.steps + 1))
    while some := list(islice(steps, AT_ONCE)):
        children = [(step, Child(course.copy(f"killed-{step}"), step)) for step in some]
        for step, child in children:
            status, answers = child.ended()
            assert os.WIFSIGNALED(status), step
            assert os.WTERMSIG(status) == signal.SIGKILL
            yield step, child.path, answers


class Verifier:
    """Verifies ledgers, each content once: many steps leave the same bytes."""

    def __init__(self) -> None:
        self._sound: set[str] = set()

    def check(self, ledger: Ledger, step: int) -> None:
        content = digest_of(everything(ledger))
        if content not in self._sound:
            with ledger.view() as view:
                assert verify(view).findings == (), step
            self._sound.add(content)


def digest_of(rows: dict[str, list[dict[str, Any]]]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def check_retry(ledger: Ledger, sequences: dict[str, int]) -> None:
    """Everything again, under the same keys: one result each, the one that was given before."""
    documents = [document for batch in BATCHES for document in batch]
    for document, result in zip(documents, submit(ledger, *documents), strict=True):
        if document["operation_id"] == REFUSED:
            assert code_of(result) == "index_entry_incomplete"
            continue
        assert code_of(result) is None, result
        known = sequences.setdefault(result.operation_id, result.ec_sequence_number)
        assert result.ec_sequence_number == known
    with ledger.view() as view:
        logged = [row["operation_id"] for row in view.log_rows()]
        assert sorted(logged) == sorted(ACCEPTED)
        assert all(view.node(node_id) is not None for node_id in ("n", "cu", "m"))
        assert view.node("late") is None
        assert len(view.open_requests()) == 1


@pytest.mark.spec("§2.3", "§2.5", "K5", "K6", "K25")
def test_whatever_the_step_the_record_is_whole_and_a_retry_completes_it(
    course: UndisturbedCourse,
) -> None:
    assert course.steps > FEWEST_STEPS * len(BATCHES)
    verifier, reached = Verifier(), set()
    for step, path, answers in killed_at_each_step(course):
        ledger = opened(path)
        state = everything(ledger)
        assert state in course.states, step
        durable = course.states.index(state)
        # An answer is given after COMMIT, so one transaction at most is durable and not answered.
        assert len(answers) <= durable <= len(answers) + 1, step
        is_known = (len(answers), durable) in reached
        reached.add((len(answers), durable))
        verifier.check(ledger, step)
        if is_known and step % RETRIED_EACH:
            ledger.close()
            continue
        rows = state["kernel_event_log"]
        check_retry(ledger, {row["operation_id"]: row["ec_sequence_number"] for row in rows})
        verifier.check(ledger, step)
        ledger.close()
    # Every transaction was struck before its COMMIT, and between COMMIT and its answer.
    assert reached >= {(done, done + late) for done in range(len(BATCHES)) for late in (0, 1)}
