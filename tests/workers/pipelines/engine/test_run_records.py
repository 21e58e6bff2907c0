"""A run's checkpoints, and the data with which it goes on (seed 003, Resume Flow)."""

import math

import pytest

from kernel.landscape.canonical_types import Canonical, DataRefused
from kernel.landscape.errors import RecordDamaged
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.ledger.store.tables import TableQuery
from tests.workers.pipelines.engine.random_pipelines import ListSink
from tests.workers.pipelines.engine.running import RUN, go_on
from workers.pipelines.engine.pipeline import Pipeline
from workers.pipelines.engine.resume import recorded_state
from workers.pipelines.engine.run_records import RunRecords, row_name

pytestmark = pytest.mark.spec("seed 003, Resume Flow")


@pytest.fixture
def graph():
    pipeline = Pipeline("numbers")
    pipeline.source(lambda: ({"n": number} for number in range(3)), name="source")
    pipeline.sink(ListSink(), name="out", after="source")
    return pipeline.graph


@pytest.fixture
def records(ledger, graph):
    """A run with one row that is not done, and a checkpoint before it."""
    records = RunRecords(Recorder(ledger), graph, RUN)
    loading = records.begin({})
    records.row(0, Canonical(b'{"n":0}'))
    state = {
        "rows_done": 0,
        "rows_read": 1,
        "source_ended": False,
        "is_settled": False,
        "source_operation": loading,
        "positions": {},
        "batches": {},
    }
    records.checkpoint(1, f"{row_name(RUN, 0)}.0", state)
    records.flush()
    return records


def test_a_run_goes_on_with_the_rows_that_are_on_record_and_not_done(ledger, graph, records):
    state = ledger.read(lambda view: recorded_state(view, RUN, graph))
    assert [(row.index, row.content) for row in state.waiting] == [(0, b'{"n":0}')]
    assert (state.commit_number, state.rows_read, state.source_ended) == (1, 1, False)


def test_a_run_does_not_go_on_with_data_that_is_not_what_its_rows_hash_says(ledger, graph, records):
    with ledger.store.transaction() as tables:
        changed = {"source_data_hash": "ab" * 32}
        tables.update(TABLES["rows"], (RUN, row_name(RUN, 0)), changed)
    with pytest.raises(RecordDamaged, match="source_data_hash"):
        ledger.read(lambda view: recorded_state(view, RUN, graph))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_state_that_is_not_finite_is_no_checkpoint(ledger, records, number):
    with pytest.raises(DataRefused, match="finite"):
        records.checkpoint(2, "t", {"sum": [number]})
    records.flush()
    [checkpoint] = ledger.read(lambda view: view.tables.scan(TableQuery(TABLES["checkpoints"])))
    assert checkpoint["sequence_number"] == 1


@pytest.mark.spec("seed 003, Aggregation Tables")
def test_a_batch_has_its_members_in_their_order_and_what_came_of_it(ledger):
    pipeline = Pipeline("twos")
    pipeline.source(lambda: ({"n": number} for number in range(3)), name="source")
    pipeline.aggregation(lambda rows: {"n": len(rows)}, name="twos", after="source", count=2)
    pipeline.sink(ListSink(), name="out", after="twos")
    go_on(ledger, pipeline, resume=False)
    with ledger.view() as view:
        batches, members, outputs, tokens = (
            view.tables.scan(TableQuery(TABLES[name], {"run_id": RUN}))
            for name in ("batches", "batch_members", "batch_outputs", "tokens")
        )
    assert [(batch["status"], batch["trigger_type"]) for batch in batches] == [
        *(("completed", "count"), ("completed", "end_of_source")),
    ]
    first, last = (batch["batch_id"] for batch in batches)
    places = [(each["batch_id"], each["ordinal"], each["token_id"]) for each in members]
    rows = [row_name(RUN, index) for index in range(3)]
    assert places == [
        *((first, 0, f"{rows[0]}.0"), (first, 1, f"{rows[1]}.0"), (last, 0, f"{rows[2]}.0")),
    ]
    assert {each["batch_id"] for each in outputs} == {first, last}
    assert {each["output_id"] for each in outputs} < {token["token_id"] for token in tokens}
