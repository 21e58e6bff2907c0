"""Random pipelines, interrupted anywhere, end as if nobody had disturbed them (seed 003)."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.landscape.canonical_types import restore_value
from kernel.landscape.record_rules import TABLES
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import Store, TableQuery
from tests.kernel.build import FakeHost, memory_ledger
from tests.system.faulty_store import CountedSteps, FaultyStore
from tests.workers.pipelines.engine.random_pipelines import ListSink, pipelines
from tests.workers.pipelines.engine.running import RUN, check_records, go_on, status
from workers.pipelines.engine.pipeline import Pipeline


class Interrupted(BaseException):
    """The process is not there any more."""


class InterruptingSteps(CountedSteps):
    """Ends the run at one of the steps; nothing can be written from then on.

    A sink that raises is a failure of the run, so it is the store that shows that the process is
    gone.
    """

    def __init__(self, at: int | None) -> None:
        super().__init__()
        self.at = at

    def step(self) -> None:
        self.count += 1
        if self.at is not None and self.count >= self.at:
            raise Interrupted


def disturbed(
    make: Any, interruptions: list[int], store: Store | None = None
) -> tuple[Ledger, dict[str, Any]]:
    """Run a pipeline that is interrupted at steps, each counted from where it goes on."""
    store, host = store or MemoryStore(), FakeHost().host
    ledger = Ledger.create(store, host)
    sinks: dict[str, Any] = {}
    for at in [*interruptions, None]:
        steps = InterruptingSteps(at)
        made, new_sinks = make()
        for name, sink in new_sinks.items():
            sink.items = sinks[name].items if sinks else []
            sink.interrupt = steps.step
        sinks = new_sinks
        faulty = Ledger(FaultyStore(store, steps), host)
        has_begun = ledger.read(status) is not None
        try:
            go_on(faulty, made, resume=has_begun)
        except Interrupted:
            if ledger.read(status) == "completed":
                break
        else:
            break
    return ledger, sinks


@pytest.mark.spec("seed 003, Core Invariants")
@settings(max_examples=40, deadline=None)
@given(pipelines(), st.lists(st.integers(1, 120), max_size=4))
def test_whatever_interrupts_a_pipeline_it_ends_as_one_that_nothing_did(make, interruptions):
    check_alike(disturbed(make, []), disturbed(make, interruptions))


@pytest.mark.spec("seed 003, Core Invariants")
@settings(max_examples=6, deadline=None)
@given(pipelines(), st.lists(st.integers(1, 120), max_size=2))
def test_an_interrupted_pipeline_ends_alike_on_a_database_that_knows_references(
    make, interruptions
):
    with TemporaryDirectory() as folder, closing(SqliteStore(Path(folder) / "ledger.db")) as store:
        check_alike(disturbed(make, []), disturbed(make, interruptions, store))


def test_a_source_without_rows_ends_its_run_whatever_interrupts_it(tmp_path):
    for at in (1, 2, 3, 5):
        with closing(SqliteStore(tmp_path / f"{at}.db")) as store:
            ledger, sinks = disturbed(without_rows, [at], store)
            assert ledger.read(status) == "completed"
            assert [sink.items for sink in sinks.values()] == [[]]


@pytest.mark.spec("seed 003, Checkpoint and Recovery")
@pytest.mark.parametrize(
    ("commit_rows", "behind"), [(1, {*range(12)}), (5, {0, 5, 10, 11}), (0, {0, 4, 6, 10, 11})]
)
def test_checkpoints_follow_each_row_or_so_many_or_closed_batches_alone(commit_rows, behind):
    pipeline, ledger = Pipeline("threes", commit_rows=commit_rows), memory_ledger()
    pipeline.source(lambda: ({"n": number} for number in range(11)), name="source")
    pipeline.aggregation(lambda rows: {"n": len(rows)}, name="threes", after="source", count=3)
    pipeline.sink(ListSink(), name="out", after="threes")
    go_on(ledger, pipeline, resume=False)
    with ledger.view() as view:
        states = [
            restore_value(row["aggregation_state_json"].encode())
            for row in view.tables.scan(TableQuery(TABLES["checkpoints"], {"run_id": RUN}))
        ]
    assert {state["rows_done"] for state in states} == behind


def without_rows() -> tuple[Pipeline, dict[str, ListSink]]:
    pipeline, sink = Pipeline("nothing"), ListSink()
    pipeline.source(lambda: iter(()), name="source")
    pipeline.sink(sink, name="out", after="source")
    return pipeline, {"out": sink}


def check_alike(undisturbed: Any, other: Any) -> None:
    """The same records but for times and ids, the same outputs, and an export that verifies."""
    (expected_ledger, expected_sinks), (ledger, sinks) = undisturbed, other
    check_records(expected_ledger, ledger)
    assert {name: sink.items for name, sink in sinks.items()} == {
        name: sink.items for name, sink in expected_sinks.items()
    }
