"""What a recorder records, refuses and loses nothing of (seed 003, LandscapeRecorder)."""

import inspect
import threading

import orjson
import pytest

from kernel.landscape.canonical_types import DataRefused
from kernel.landscape.errors import LandscapeRefused, RecordRefused
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.landscape.reports import performance_of
from kernel.ledger.store.tables import TableQuery
from kernel.values.canonical import MAX_SAFE_INTEGER
from tests.kernel.landscape.runs import begin, begin_with_token, whole_run


def record_whole(recorder, data, token_id):
    with recorder.whole("run-1"):
        recorder.record_token_outcome("run-1", token_id, "failed", error_hash="ab" * 32)
        recorder.create_row("run-1", "source", 1, data, row_id="r1")


def rows_of(ledger, name, **where):
    return ledger.read(lambda view: view.tables.scan(TableQuery(TABLES[name], where)))


@pytest.mark.spec("seed 003, Database Schema")
def test_a_whole_run_has_records_in_every_table_and_reads_back_as_recorded(ledger, recorder):
    recorded = whole_run(recorder)
    recorder.flush()
    assert all(rows_of(ledger, name, run_id="run-1") for name in TABLES)
    [row] = rows_of(ledger, "rows", run_id="run-1")
    assert row == recorded["row"]
    recorder.complete_run("run-1")
    [run] = rows_of(ledger, "runs", run_id="run-1")
    assert (run["status"], run["reproducibility_grade"]) == ("completed", "replay_reproducible")


@pytest.mark.spec("seed 003, Atomic Operations")
def test_a_fork_of_a_token_that_has_ended_leaves_nothing_behind(ledger, recorder):
    begin(recorder)
    row = recorder.create_row("run-1", "source", 0, {"a": 1})
    token = recorder.create_token("run-1", row["row_id"])
    recorder.record_token_outcome("run-1", token["token_id"], "routed", sink_name="sure")
    recorder.flush()
    recorder.fork_token("run-1", token, ["a", "b"])
    other = recorder.create_row("run-1", "source", 1, {"a": 2})
    with pytest.raises(LandscapeRefused) as refused:
        recorder.flush()
    assert refused.value.code == "landscape_conflict"
    assert [t["token_id"] for t in rows_of(ledger, "tokens")] == [token["token_id"]]
    assert rows_of(ledger, "token_parents") == []
    # What fitted was written.
    assert other["row_id"] in {row["row_id"] for row in rows_of(ledger, "rows")}


@pytest.mark.spec("seed 003, Terminal State Reference")
def test_a_token_has_one_terminal_outcome_and_any_number_of_buffered_ones(ledger, recorder):
    begin(recorder)
    row = recorder.create_row("run-1", "source", 0, {"a": 1})
    token_id = recorder.create_token("run-1", row["row_id"])["token_id"]
    batch_id = recorder.create_batch("run-1", "gather")["batch_id"]
    for _ in range(2):
        recorder.record_token_outcome("run-1", token_id, "buffered", batch_id=batch_id)
    recorder.record_token_outcome("run-1", token_id, "completed", sink_name="sure")
    recorder.flush()
    recorder.record_token_outcome("run-1", token_id, "failed", error_hash="ab" * 32)
    with pytest.raises(LandscapeRefused):
        recorder.flush()
    outcomes = rows_of(ledger, "token_outcomes", token_id=token_id)
    assert sorted(outcome["outcome"] for outcome in outcomes) == [
        *("buffered", "buffered", "completed"),
    ]


@pytest.mark.spec("seed 003, Discriminated Union (NodeState)")
@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ("completed", {}),
        ("completed", {"output": 1, "error": "no"}),
        ("pending", {"output": 1}),
        ("failed", {"success_reason": "none"}),
        ("open", {}),
        ("done", {}),
    ],
)
def test_a_state_that_lacks_or_has_a_field_against_its_status_is_not_recorded(
    ledger, recorder, status, fields
):
    begin_with_token(recorder)
    state = recorder.begin_node_state("run-1", "t", "parse", 0, {"a": 1})
    with pytest.raises(RecordRefused) as refused:
        recorder.complete_node_state("run-1", state["state_id"], status, duration_us=1, **fields)
    assert refused.value.code == "landscape_record_invalid"
    recorder.flush()
    [stored] = rows_of(ledger, "node_states")
    assert stored == state


@pytest.mark.parametrize("flushed", [False, True])
def test_a_finished_state_is_not_finished_again(ledger, recorder, flushed):
    begin_with_token(recorder)
    state_id = recorder.begin_node_state("run-1", "t", "parse", 0, {"a": 1})["state_id"]
    for status, fields in (("pending", {}), ("completed", {"output": None})):
        if flushed:
            recorder.flush()
        recorder.complete_node_state("run-1", state_id, status, duration_us=1, **fields)
    if flushed:
        recorder.flush()
    with pytest.raises(LandscapeRefused, match="is completed"):
        recorder.complete_node_state("run-1", state_id, "failed", duration_us=1)
    recorder.flush()
    [stored] = rows_of(ledger, "node_states")
    assert stored["status"] == "completed"


def test_two_recorders_cannot_both_finish_a_state(ledger, recorder):
    begin_with_token(recorder)
    state_id = recorder.begin_node_state("run-1", "t", "parse", 0, {"a": 1})["state_id"]
    recorder.flush()
    other = Recorder(ledger)
    for each in (recorder, other):
        each.complete_node_state("run-1", state_id, "failed", duration_us=1)
    recorder.flush()
    with pytest.raises(LandscapeRefused):
        other.flush()


@pytest.mark.spec("seed 003, Thread Safety")
def test_call_indices_are_counted_on_over_threads_and_recorders(ledger, recorder):
    begin_with_token(recorder)
    state_id = recorder.begin_node_state("run-1", "t", "classify", 0, {"a": 1})["state_id"]
    recorder.flush()

    def call(each):
        for number in range(10):
            each.record_call(
                "run-1", "llm", "success", {"n": number}, state_id=state_id, response=1
            )
            each.flush()

    threads = [
        threading.Thread(target=call, args=[each])
        for each in (recorder, recorder, Recorder(ledger))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = rows_of(ledger, "calls", state_id=state_id)
    assert sorted(call["call_index"] for call in calls) == [*range(30)]


@pytest.mark.spec("seed 003, XOR Constraint")
@pytest.mark.parametrize("parents", [{}, {"state_id": "s", "operation_id": "o"}])
def test_a_call_has_exactly_one_parent(recorder, parents):
    begin(recorder)
    with pytest.raises(RecordRefused, match="exactly one"):
        recorder.record_call("run-1", "http", "success", {}, response=1, **parents)


def test_nothing_is_added_to_a_run_that_is_over(ledger, recorder):
    begin(recorder)
    recorder.complete_run("run-1")
    recorder.create_row("run-1", "source", 0, {"a": 1})
    with pytest.raises(LandscapeRefused) as refused:
        recorder.flush()
    assert refused.value.code == "landscape_run_over"
    with pytest.raises(LandscapeRefused):
        recorder.complete_run("run-1", "failed")


@pytest.mark.spec("seed 003, No Silent Drops")
def test_a_run_is_not_completed_while_a_token_is_on_its_way(recorder):
    begin(recorder)
    row = recorder.create_row("run-1", "source", 0, {"a": 1})
    recorder.create_token("run-1", row["row_id"])
    with pytest.raises(LandscapeRefused) as refused:
        recorder.complete_run("run-1")
    assert refused.value.code == "landscape_incomplete"
    assert recorder.complete_run("run-1", "interrupted")["status"] == "interrupted"


@pytest.mark.parametrize("branches", [[], ["b"] * 10_001])
def test_a_fork_has_branches_and_not_too_many(recorder, branches):
    begin(recorder)
    token = {"token_id": "t", "row_id": "r", "run_id": "run-1"}
    with pytest.raises(LandscapeRefused, match="branches"):
        recorder.fork_token("run-1", token, branches)
    with pytest.raises(LandscapeRefused, match="branches"):
        recorder.coalesce_tokens("run-1", [token] * len(branches))


def test_a_group_is_written_when_it_is_full_and_what_waits_when_it_is_asked_for(ledger):
    recorder = Recorder(ledger, group_records=4)
    begin(recorder)
    for number in range(3):
        recorder.create_row("run-1", "source", number, {"n": number})
    assert len(rows_of(ledger, "nodes")) == 7
    recorder.flush()
    assert len(rows_of(ledger, "rows")) == 3


@pytest.mark.spec("seed 003, Database Schema")
def test_what_names_a_record_that_is_not_there_is_left_out_and_the_rest_is_written(
    ledger, recorder
):
    begin_with_token(recorder)
    recorder.flush()
    recorder.create_row("run-1", "nowhere", 0, {"a": 1})
    recorder.create_row("run-1", "source", 1, {"a": 1}, row_id="kept")
    with pytest.raises(LandscapeRefused, match="source_node_id names nowhere") as refused:
        recorder.flush()
    assert refused.value.code == "landscape_unknown"
    assert {row["row_id"] for row in rows_of(ledger, "rows")} == {"r", "kept"}
    # A token of another run is none of this one.
    begin(recorder, "run-2")
    recorder.begin_node_state("run-2", "t", "parse", 0, {})
    with pytest.raises(LandscapeRefused, match="token_id names t, which is not in"):
        recorder.flush()


def test_what_follows_from_a_refused_fork_is_refused_with_it(ledger, recorder):
    begin_with_token(recorder)
    recorder.record_token_outcome("run-1", "t", "routed", sink_name="sure")
    recorder.flush()
    [token] = rows_of(ledger, "tokens")
    for child in recorder.fork_token("run-1", token, ["a", "b"]):
        recorder.record_token_outcome("run-1", child["token_id"], "routed", sink_name="sure")
    with pytest.raises(LandscapeRefused):
        recorder.flush()
    assert len(rows_of(ledger, "tokens")) == len(rows_of(ledger, "token_outcomes")) == 1
    recorder.complete_run("run-1")


def test_what_is_recorded_as_a_whole_is_written_whole_or_not_at_all(ledger):
    recorder = Recorder(ledger, group_records=2)
    begin(recorder)
    recorder.flush()
    with recorder.whole("run-1"):
        row = recorder.create_row("run-1", "source", 0, {"a": 1}, row_id="r", keep_payload=True)
        token = recorder.create_token("run-1", row["row_id"], token_id="t")  # noqa: S106 - an id
        state = recorder.begin_node_state("run-1", "t", "parse", 1, {"a": 1})
        recorder.complete_node_state(
            "run-1", state["state_id"], "completed", output={"a": 2}, duration_us=1
        )
        recorder.fork_token("run-1", token, ["x", "y"], token_ids=["t.x", "t.y"])
        # More records than a group has, and none of them is written before the end.
        assert rows_of(ledger, "rows") == []
    recorder.flush()
    assert [row["status"] for row in rows_of(ledger, "node_states")] == ["completed"]
    with pytest.raises(LandscapeRefused):
        record_whole(recorder, {"a": 1}, token_id="t")  # noqa: S106 - an id
    with pytest.raises(DataRefused):
        record_whole(recorder, {"a": {1}}, token_id="t2")  # noqa: S106 - an id
    recorder.flush()
    assert [row["row_id"] for row in rows_of(ledger, "rows")] == ["r"]


def test_states_that_were_written_are_completed_as_any_other_and_only_once(ledger, recorder):
    begin(recorder)
    row = recorder.create_row("run-1", "source", 0, {"a": 1})
    token_id = recorder.create_token("run-1", row["row_id"])["token_id"]
    for place, (node, state_id) in enumerate((("parse", "s1"), ("classify", "s2"))):
        recorder.begin_node_state("run-1", token_id, node, place, {}, state_id=state_id)
    recorder.record_node_state(
        "run-1", token_id, "gate", 2, {"a": 1}, "completed", output={}, duration_us=5, state_id="s3"
    )
    recorder.flush()
    for state_id in ("s1", "s2"):
        recorder.complete_node_state("run-1", state_id, "completed", output={}, duration_us=1)
    with pytest.raises(LandscapeRefused):
        recorder.complete_node_state("run-1", "s3", "completed", output={}, duration_us=1)
    recorder.flush()
    states = {row["state_id"]: row for row in rows_of(ledger, "node_states")}
    assert {row["status"] for row in states.values()} == {"completed"}
    assert states["s3"]["completed_at_us"] - states["s3"]["started_at_us"] == 5
    # Somebody else finishes it between the look and the write.
    recorder.begin_node_state("run-1", token_id, "sure", 3, {}, state_id="s4")
    recorder.flush()
    other = Recorder(ledger)
    other.complete_node_state("run-1", "s4", "completed", output={"by": "other"}, duration_us=1)
    other.flush()
    recorder.complete_node_state("run-1", "s4", "completed", output={}, duration_us=1)
    with pytest.raises(LandscapeRefused):
        recorder.flush()


def test_what_another_recorder_made_of_a_state_meanwhile_is_not_overwritten(ledger, recorder):
    begin_with_token(recorder)
    recorder.begin_node_state("run-1", "t", "parse", 0, {}, state_id="s1")
    recorder.flush()
    other = Recorder(ledger)
    other.complete_node_state(
        "run-1", "s1", "pending", duration_us=1, context_after={"by": "other"}
    )
    other.flush()
    recorder.complete_node_state("run-1", "s1", "completed", output={}, duration_us=2)
    with pytest.raises(LandscapeRefused) as refused:
        recorder.flush()
    assert refused.value.code == "landscape_conflict"
    [state] = rows_of(ledger, "node_states")
    assert (state["status"], state["context_after_json"]) == ("pending", '{"by":"other"}')
    # Whoever has lost reads it anew.
    recorder.complete_node_state("run-1", "s1", "completed", output={}, duration_us=2)
    recorder.flush()
    [state] = rows_of(ledger, "node_states")
    assert state["status"] == "completed"


def test_times_whose_sum_readers_would_round_come_to_the_most_that_they_do_not(ledger, recorder):
    begin_with_token(recorder)
    for place, node in enumerate(("parse", "classify")):
        state = recorder.begin_node_state("run-1", "t", node, place, {"row": "r"})
        recorder.complete_node_state(
            "run-1", state["state_id"], "completed", duration_us=2**63 - 1, output={"row": "r"}
        )
    recorder.flush()
    with ledger.view() as view:
        performance = performance_of(view, "run-1")
    assert performance["total_processing_us"] == MAX_SAFE_INTEGER
    assert [each["share"] for each in performance["node_performance"]] == [0.5, 0.5]
    assert orjson.loads(orjson.dumps(performance)) == performance


NAMES_OF_THE_SPECIFICATION = {
    *("begin_run", "complete_run", "register_node", "register_edge"),
    *("create_row", "create_token", "fork_token", "coalesce_tokens", "expand_token"),
    *("begin_node_state", "complete_node_state", "record_call", "record_routing_event"),
    *("record_token_outcome", "create_batch", "add_batch_member", "complete_batch"),
    *("record_validation_error", "record_transform_error"),
}
"""Those of seed 003 that record, but for `allocate_call_index` (decision kernel/0422)."""


def test_the_recorders_methods_have_the_names_of_the_specification():
    assert {
        name for name, _ in inspect.getmembers(Recorder, callable)
    } >= NAMES_OF_THE_SPECIFICATION
