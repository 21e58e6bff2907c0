"""A run goes on after its process ended, on the same graph, each row to one end (seed 003)."""

import os
import signal
import subprocess
import sys

import pytest

from kernel.landscape.checkpoints import (
    is_due,
    record_checkpoint,
    reopen_run,
    resume_point,
    row_data,
    rows_to_do,
    topology_hash,
    topology_of,
)
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.payloads import purge_payloads
from kernel.landscape.record_rules import TABLES
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import begin, begin_with_token, seal

ROWS = 60


def point_of(ledger, topology=None):
    return ledger.read(
        lambda view: resume_point(view, "run-1", topology or topology_of(view, "run-1"))
    )


@pytest.mark.slow
@pytest.mark.spec("seed 003, Resume Flow")
def test_a_run_that_is_killed_again_and_again_ends_with_each_row_at_one_end(tmp_path):
    path = tmp_path / "ledger.db"
    command = [sys.executable, "-m", "tests.kernel.landscape.resuming", str(path), str(ROWS)]
    for lines in (7, 23, None):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        done = [process.stdout.readline() for _ in range(lines or 0)]
        if lines is None:
            process.communicate(timeout=50)
            assert process.returncode == 0
        else:
            assert all(done)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
    ledger = Ledger(SqliteStore(path), FakeHost().host)
    with ledger.view() as view:
        outcomes = view.tables.select(TABLES["token_outcomes"], {"run_id": "run-1"})
        [run] = view.tables.select(TABLES["runs"])
    ledger.close()
    assert run["status"] == "completed"
    ends = {outcome["token_id"]: outcome["context_json"] for outcome in outcomes}
    assert len(outcomes) == ROWS
    assert ends == {f"token-row-{n}": f'{{"doubled":{n * 2}}}' for n in range(ROWS)}


def test_rows_are_to_do_until_each_of_their_ways_has_ended(ledger, recorder):
    begin(recorder)
    rows = [recorder.create_row("run-1", "source", n, {"n": n}) for n in range(6)]
    tokens = [recorder.create_token("run-1", row["row_id"]) for row in rows[1:]]
    batch_id = recorder.create_batch("run-1", "gather")["batch_id"]
    done, unfinished, waiting, halved, gone = tokens
    recorder.record_token_outcome("run-1", done["token_id"], "completed", sink_name="s")
    recorder.record_token_outcome("run-1", waiting["token_id"], "buffered", batch_id=batch_id)
    for token, count in ((halved, 1), (gone, 2)):
        branches = recorder.fork_token("run-1", token, ["a", "b"])
        for branch in branches[:count]:
            recorder.record_token_outcome("run-1", branch["token_id"], "routed", sink_name="s")
    recorder.flush()
    to_do = [row["row_index"] for row in ledger.read(lambda view: rows_to_do(view, "run-1"))]
    assert to_do == [0, 2, 3, 4]
    assert unfinished["token_id"]


@pytest.mark.spec("seed 003, Topology Validation")
def test_a_run_goes_on_only_on_the_graph_on_which_it_began(ledger, recorder):
    begin_with_token(recorder)
    record_checkpoint(recorder, "run-1", "t", "parse", 1, {"sum": 2.0, "items": [b"x"]})
    assert point_of(ledger).aggregation_state == {"sum": 2.0, "items": [b"x"]}
    assert isinstance(point_of(ledger).aggregation_state["sum"], float)
    with ledger.view() as view:
        nodes = view.tables.select(TABLES["nodes"], {"run_id": "run-1"})
        edges = view.tables.select(TABLES["edges"], {"run_id": "run-1"})
    assert topology_hash(nodes[::-1], edges[::-1]) == topology_hash(nodes, edges)
    others = (
        ([{**nodes[0], "config_hash": "ab" * 32}, *nodes[1:]], edges),
        (nodes, [{**edges[0], "default_mode": "copy"}, *edges[1:]]),
        (nodes, edges[1:]),
    )
    for other in others:
        with pytest.raises(LandscapeRefused) as refused:
            point_of(ledger, topology_hash(*other))
        assert refused.value.code == "landscape_topology_differs"
    with pytest.raises(LandscapeRefused, match="no node"):
        record_checkpoint(recorder, "run-1", "t", "nowhere", 2)


def test_a_run_that_is_completed_or_sealed_does_not_go_on_and_one_that_failed_does(
    ledger, recorder
):
    begin(recorder)
    recorder.complete_run("run-1", "failed")
    assert point_of(ledger).checkpoint is None
    assert reopen_run(ledger, "run-1")["status"] == "running"
    recorder.create_row("run-1", "source", 0, {"a": 1})
    recorder.flush()
    recorder.complete_run("run-1", "failed")
    seal(ledger)
    for refuse in (lambda: reopen_run(ledger, "run-1"), lambda: point_of(ledger)):
        with pytest.raises(LandscapeRefused) as refused:
            refuse()
        assert refused.value.code == "landscape_run_over"


def test_data_that_is_gone_or_is_not_what_the_row_says_is_not_gone_on_with(ledger, recorder):
    begin(recorder)
    row = recorder.create_row("run-1", "source", 0, {"a": 1.0}, keep_payload=True)
    recorder.flush()
    assert ledger.read(lambda view: row_data(view, row)) == {"a": 1.0}
    with pytest.raises(RecordDamaged):
        ledger.read(lambda view: row_data(view, {**row, "source_data_hash": "ab" * 32}))
    recorder.complete_run("run-1", "failed")
    purge_payloads(ledger, before_us=1 << 60, statuses=("failed",))
    with pytest.raises(LandscapeRefused) as refused:
        ledger.read(lambda view: row_data(view, row))
    assert refused.value.code == "landscape_payload_gone"


@pytest.mark.parametrize(("frequency", "due"), [(1, [1, 2, 3, 4]), (2, [2, 4]), (0, [])])
def test_a_checkpoint_is_due_every_so_many_rows(frequency, due):
    assert [number for number in range(1, 5) if is_due(number, frequency)] == due
