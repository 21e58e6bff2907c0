"""A run goes on after its process ended, on the same graph and data (seed 003)."""

import pytest

from kernel.landscape.canonical_types import restore_value
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.open_work import rows_behind, state_input
from kernel.landscape.payloads import purge_payloads
from kernel.landscape.record_rules import TABLES
from kernel.landscape.run_checkpoints import (
    newest_checkpoint,
    reopen_run,
    topology_hash,
    topology_of,
)
from kernel.ledger.store.tables import TableQuery
from tests.kernel.landscape.runs import begin, begin_with_token, checkpoint, seal


def checkpoint_of(ledger, topology=None):
    return ledger.read(
        lambda view: newest_checkpoint(view, "run-1", topology or topology_of(view, "run-1"))
    )


@pytest.mark.spec("seed 003, Topology Validation")
def test_a_run_goes_on_only_on_the_graph_on_which_it_began(ledger, recorder):
    begin_with_token(recorder)
    checkpoint(recorder, "run-1", "t", 1, {"sum": 2.0, "items": [b"x"]})
    state = restore_value(checkpoint_of(ledger)["aggregation_state_json"].encode())
    assert state == {"sum": 2.0, "items": [b"x"]}
    assert isinstance(state["sum"], float)
    with ledger.view() as view:
        nodes = view.tables.scan(TableQuery(TABLES["nodes"], {"run_id": "run-1"}))
        edges = view.tables.scan(TableQuery(TABLES["edges"], {"run_id": "run-1"}))
    assert topology_hash(nodes[::-1], edges[::-1]) == topology_hash(nodes, edges)
    others = (
        ([{**nodes[0], "config_hash": "ab" * 32}, *nodes[1:]], edges),
        (nodes, [{**edges[0], "default_mode": "copy"}, *edges[1:]]),
        (nodes, edges[1:]),
    )
    for other in others:
        with pytest.raises(LandscapeRefused) as refused:
            checkpoint_of(ledger, topology_hash(*other))
        assert refused.value.code == "landscape_topology_differs"


def test_a_run_that_is_completed_or_sealed_does_not_go_on_and_one_that_failed_does(
    ledger, recorder
):
    begin(recorder)
    recorder.complete_run("run-1", "failed")
    assert checkpoint_of(ledger) is None
    assert reopen_run(ledger, "run-1")["status"] == "running"
    recorder.create_row("run-1", "source", 0, {"a": 1})
    recorder.flush()
    recorder.complete_run("run-1", "failed")
    seal(ledger)
    for refuse in (lambda: reopen_run(ledger, "run-1"), lambda: checkpoint_of(ledger)):
        with pytest.raises(LandscapeRefused) as refused:
            refuse()
        assert refused.value.code == "landscape_run_over"


@pytest.mark.spec("seed 003, Resume Flow")
def test_data_that_is_gone_or_is_not_what_the_record_says_is_not_gone_on_with(ledger, recorder):
    begin(recorder)
    row = recorder.create_row("run-1", "source", 0, {"a": 1.0}, row_id="r", keep_payload=True)
    recorder.create_token("run-1", "r", token_id="t")  # noqa: S106 - an id
    recorder.begin_node_state("run-1", "t", "parse", 0, {"b": 2}, state_id="s", keep_payload=True)
    recorder.flush()
    questions = {
        ("rows", "r", "source_data_hash"): lambda view: rows_behind(view, "run-1", None)[0][1],
        ("node_states", "s", "input_hash"): lambda view: state_input(view, "run-1", "s"),
    }
    assert [restore_value(ledger.read(each)) for each in questions.values()] == [
        {"a": 1.0},
        {"b": 2},
    ]
    for (name, record_id, column), question in questions.items():
        with ledger.store.transaction() as tables:
            stored = tables.get(TABLES[name], "run-1", record_id)
            tables.update(TABLES[name], ("run-1", record_id), {column: "ab" * 32})
        with pytest.raises(RecordDamaged, match=column):
            ledger.read(question)
        with ledger.store.transaction() as tables:
            tables.update(TABLES[name], ("run-1", record_id), {column: stored[column]})
    recorder.complete_run("run-1", "failed")
    purge_payloads(ledger, before_us=1 << 60, statuses=("failed",))
    for question in questions.values():
        with pytest.raises(LandscapeRefused) as refused:
            ledger.read(question)
        assert refused.value.code == "landscape_payload_gone"
    assert row["source_data_ref"] is not None
