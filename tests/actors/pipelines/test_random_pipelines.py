"""Random pipelines, interrupted anywhere, end as if nobody had disturbed them (seed 003)."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.pipelines.pipeline import Pipeline
from actors.pipelines.runner import PipelineRun
from actors.pipelines.step import WalkTools
from actors.pipelines.walk import RowWalk
from kernel.landscape.digest import digest_of
from kernel.landscape.export import export_run, import_run
from kernel.landscape.lineage import lineage_of
from kernel.landscape.record_rules import TABLES
from kernel.ledger.ledger import Ledger
from kernel.ledger.memory import MemoryStore
from kernel.ledger.sqlite import SqliteStore
from kernel.ledger.tables import Store
from tests.actors.pipelines.essence import essence
from tests.actors.pipelines.random_pipelines import ListSink, pipelines
from tests.kernel.build import FakeHost, memory_ledger
from tests.system.faulty_store import CountedSteps, FaultyStore

RUN = "run-1"
ENDS_IN = {"forked", "expanded", "coalesced", "consumed_in_batch"}


class Interrupted(BaseException):
    """The process is not there any more."""


class InterruptingSteps(CountedSteps):
    """Ends the run at one of the steps, and is then out of the way."""

    def __init__(self, at: int | None) -> None:
        super().__init__()
        self.at = at

    def step(self) -> None:
        self.count += 1
        if self.at is not None and self.count >= self.at:
            self.at = None
            raise Interrupted


class InPlace:
    """Walks rows where they are."""

    def __init__(self, graph: Any, tools: WalkTools) -> None:
        self._graph, self._tools = graph, tools

    async def walk(self, run_id: str, rows: Any) -> Any:
        return [
            RowWalk(self._graph, self._tools, run_id, row.row_id).of_row(row.content)
            for row in rows
        ]


def go_on(ledger: Ledger, made: Any, *, resume: bool) -> None:
    tools = WalkTools(ledger.host.now_us, lambda _: None, None)  # type: ignore[arg-type]
    run = PipelineRun(made, ledger, tools, InPlace(made.graph, tools))
    (run.resume if resume else run.begin)(RUN)
    assert anyio.run(run.run).status == "completed"


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


def status(view: Any) -> str | None:
    run = view.tables.get(TABLES["runs"], RUN)
    return None if run is None else run["status"]


@pytest.mark.spec("seed 003, Core Invariants")
@settings(max_examples=40, deadline=None)
@given(pipelines(), st.lists(st.integers(1, 120), max_size=4))
def test_whatever_interrupts_a_pipeline_it_ends_as_one_that_nothing_did(drawn, interruptions):
    make, _ = drawn
    check_alike(disturbed(make, []), disturbed(make, interruptions))


@pytest.mark.spec("seed 003, Core Invariants")
@settings(max_examples=6, deadline=None)
@given(pipelines(), st.lists(st.integers(1, 120), max_size=2))
def test_an_interrupted_pipeline_ends_alike_on_a_database_that_knows_references(
    drawn, interruptions
):
    make, _ = drawn
    with TemporaryDirectory() as folder, closing(SqliteStore(Path(folder) / "ledger.db")) as store:
        check_alike(disturbed(make, []), disturbed(make, interruptions, store))


def test_a_source_without_rows_ends_its_run_whatever_interrupts_it(tmp_path):
    for at in (1, 2, 3, 5):
        with closing(SqliteStore(tmp_path / f"{at}.db")) as store:
            ledger, sinks = disturbed(without_rows, [at], store)
            assert ledger.read(status) == "completed"
            assert [sink.items for sink in sinks.values()] == [[]]


def without_rows() -> tuple[Pipeline, dict[str, ListSink]]:
    pipeline, sink = Pipeline("nothing"), ListSink()
    pipeline.source(lambda: iter(()), name="source")
    pipeline.sink(sink, name="out", after="source")
    return pipeline, {"out": sink}


def check_alike(undisturbed: Any, other: Any) -> None:
    """The same records but for times and ids, the same outputs, and an export that verifies."""
    (expected_ledger, expected_sinks), (ledger, sinks) = undisturbed, other
    with ledger.view() as view, expected_ledger.view() as expected_view:
        records, expected = essence(view, RUN), essence(expected_view, RUN)
        assert {name for name in records if records[name] != expected[name]} == set()
        check_whole(view, records)
        lines = [*export_run(view, RUN)]
        digest = digest_of(view, RUN)
    assert {name: sink.items for name, sink in sinks.items()} == {
        name: sink.items for name, sink in expected_sinks.items()
    }
    imported = memory_ledger()
    import_run(imported, lines)
    assert imported.read(lambda view: digest_of(view, RUN)) == digest


def check_whole(view: Any, records: dict[str, list[dict[str, Any]]]) -> None:
    """One terminal outcome for each token, nothing left open, and no lineage with a hole."""
    tokens = {row["token_id"] for row in records["tokens"]}
    terminal = Counter(row["token_id"] for row in records["token_outcomes"] if row["is_terminal"])
    assert terminal == Counter(tokens)
    assert {row["status"] for row in records["node_states"]} <= {"completed", "failed"}
    assert {row["status"] for row in records["operations"]} <= {"completed"}
    for row in records["tokens"]:
        lineage = lineage_of(view, RUN, row["token_id"])
        roots = {link["parent_token_id"] for link in lineage.parents} or {row["token_id"]}
        assert any(root.endswith(f"{index_of(root)}.0") for root in roots)
        outcome = lineage.outcome
        assert outcome is not None
        has_children = bool(lineage.children)
        assert has_children == (outcome["outcome"] in ENDS_IN)


def index_of(token_id: str) -> str:
    return token_id.split(".")[1]
