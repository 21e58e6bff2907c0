"""Faults that a recorder of runs can have, and this one has not; README.md lists all of them."""

import ast
import json
import math
import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from kernel.landscape.canonical_types import DataRefused, restore_value
from kernel.landscape.errors import LandscapeRefused, RecordDamaged, RecordRefused
from kernel.landscape.export import export_csv, export_run
from kernel.landscape.lineage import explain, lineage_of
from kernel.landscape.lineage_text import explanation_text
from kernel.landscape.payloads import purge_payloads, read_payload
from kernel.landscape.recent_runs import STUCK_AFTER_US, problems_now
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.landscape.recorder import Recorder
from kernel.landscape.reports import (
    error_causes_of,
    errors_of,
    failure_of,
    graph_of,
    llm_usage_of,
    outcomes_of,
)
from kernel.landscape.run_checkpoints import newest_checkpoint, topology_of
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from tests.kernel.build import FakeHost, memory_ledger
from tests.kernel.landscape.runs import begin, begin_with_token, checkpoint, whole_run

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
NOT_FINITE = (math.nan, math.inf, -math.inf)

pytestmark = pytest.mark.spec("seed 003")


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    yield ledger
    ledger.close()


def read(ledger, question, *arguments, **options):
    return ledger.read(lambda view: question(view, *arguments, **options))


def records(ledger, name):
    return ledger.read(lambda view: view.tables.scan(TableQuery(TABLES[name])))


def test_every_line_of_the_tables_names_a_test_that_there_is():
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    lines = [line for line in readme.splitlines() if line.startswith("| ")]
    headings = [number for number, line in enumerate(lines) if line.endswith("| Test |")]
    assert len(headings) == 2
    faults = [line.split(" | ")[0] for line in lines[1 : headings[1]]]
    assert faults == [f"| {number}" for number in range(1, len(faults) + 1)]
    assert len(faults) >= 38
    for line in (line for number, line in enumerate(lines) if number not in headings):
        tests = re.findall(r"`([^`\s]+?)::(test_\w+)`", line)
        assert tests, line
        for path, test in tests:
            assert test in _tests_of(ROOT / path if "/" in path else HERE / path), (path, test)


@cache
def _tests_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


@pytest.mark.parametrize(
    ("determinism", "grade"),
    [
        *((each, "full_reproducible") for each in ("deterministic", "seeded")),
        *((each, "replay_reproducible") for each in ("io_read", "io_write", "external_call")),
        ("non_deterministic", "replay_reproducible"),
    ],
)
def test_a_grade_follows_from_what_every_node_says(recorder, determinism, grade):
    recorder.begin_run({}, run_id="run-1")
    recorder.register_node("run-1", "a", "a", "source")
    recorder.register_node("run-1", "b", "b", "sink", determinism=determinism)
    assert recorder.complete_run("run-1")["reproducibility_grade"] == grade


def test_no_grade_follows_from_a_node_that_says_what_there_is_not(tmp_path):
    with closing(Ledger.create(SqliteStore(tmp_path / "l.db"), FakeHost().host)) as ledger:
        recorder = Recorder(ledger)
        begin(recorder)
        recorder.flush()
        with closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None)) as db:
            db.execute("UPDATE landscape_nodes SET determinism = 'Deterministic'")
        with pytest.raises(RecordDamaged, match="determinism is none of"):
            recorder.complete_run("run-1")
        [run] = records(ledger, "runs")
        assert (run["status"], run["reproducibility_grade"]) == ("running", None)


def test_of_a_key_the_database_takes_one_record(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(Ledger.create(SqliteStore(path), FakeHost().host)) as ledger:
        whole_run(recorder := Recorder(ledger))
        recorder.flush()
    with closing(sqlite3.connect(path)) as db:
        for table in map(str, (table.name for table in TABLES.values())):
            with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
                db.execute(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")  # noqa: S608


@pytest.mark.parametrize(
    ("status", "required", "forbidden"),
    [
        ("open", ["input_hash", "started_at_us"], ["output_hash", "completed_at_us"]),
        ("open", [], ["duration_us"]),
        ("pending", ["completed_at_us", "duration_us"], ["output_hash"]),
        ("completed", ["output_hash", "completed_at_us", "duration_us"], ["error_json"]),
        ("failed", ["completed_at_us", "duration_us"], []),
    ],
)
def test_a_state_with_a_field_too_many_or_too_few_is_not_read(
    ledger, recorder, status, required, forbidden
):
    begin_with_token(recorder)
    state = recorder.begin_node_state("run-1", "t", "parse", 0, {"a": 1})
    if status != "open":
        output = {"output": {"a": 1}} if status == "completed" else {}
        state = recorder.complete_node_state(
            "run-1", state["state_id"], status, duration_us=1, **output
        )
    check_stored(TABLES["node_states"], state)
    values = {"output_hash": "ab" * 32, "error_json": "{}"}
    for change in (
        *({name: None} for name in required),
        *({name: values.get(name, 1)} for name in forbidden),
    ):
        with pytest.raises(RecordDamaged):
            check_stored(TABLES["node_states"], state | change)


@pytest.mark.parametrize("number", ["NaN", "[NaN]", '{"a":[Infinity]}', "-Infinity"])
def test_a_number_that_is_not_finite_goes_into_no_export(ledger, recorder, tmp_path, number):
    whole_run(recorder)
    recorder.complete_run("run-1")
    with ledger.store.transaction() as tables:
        tables.update(TABLES["runs"], ("run-1",), {"settings_json": number})
    for export in (
        lambda view: [*export_run(view, "run-1")],
        lambda view: export_csv(view, "run-1", tmp_path),
        lambda view: explanation_text(explain(view, "run-1")),
    ):
        with pytest.raises(RecordDamaged, match="settings_json"):
            ledger.read(export)


def test_an_export_says_how_the_run_was_configured(ledger, recorder):
    whole_run(recorder)
    recorder.complete_run("run-1")
    lines = [json.loads(line) for line in read(ledger, export_run, "run-1")]
    run, node = (
        next(line for line in lines if line["record_type"] == kind) for kind in ("runs", "nodes")
    )
    assert json.loads(run["settings_json"]) == {"threshold": 0.5}
    assert json.loads(node["config_json"]) == {"node": node["node_id"]}
    assert node["determinism"] in ("deterministic", "io_read", "io_write", "external_call")
    outcomes = [line for line in lines if line["record_type"] == "token_outcomes"]
    assert all(type(line["outcome"]) is str for line in outcomes)


def test_why_a_gate_decided_is_kept_and_comes_back(ledger, recorder):
    whole_run(recorder)
    recorder.flush()
    [event] = records(ledger, "routing_events")
    assert event["reason_ref"] == event["reason_hash"]
    content = read(ledger, read_payload, "run-1", event["reason_ref"])
    assert restore_value(content) == {"because": 0.75}


def test_the_context_of_an_outcome_is_canonical(ledger, recorder):
    begin_with_token(recorder)
    for number in NOT_FINITE:
        with pytest.raises(DataRefused, match="finite"):
            recorder.record_token_outcome(
                "run-1", "t", "completed", sink_name="sure", context={"n": number}
            )
    context = {"b": Decimal("1.50"), "a": [1.0, b"x"]}
    recorder.record_token_outcome("run-1", "t", "completed", sink_name="sure", context=context)
    recorder.flush()
    [outcome] = records(ledger, "token_outcomes")
    assert outcome["context_json"].startswith('{"a":[')
    assert restore_value(outcome["context_json"].encode())["a"] == [1.0, b"x"]


def test_a_checkpoint_of_another_format_is_refused_by_its_code(ledger, recorder):
    begin_with_token(recorder)
    checkpoint(recorder, "run-1", "t", 1)
    for version in (0, 2):
        with ledger.store.transaction() as tables:
            [stored] = tables.scan(TableQuery(TABLES["checkpoints"]))
            key = ("run-1", stored["checkpoint_id"])
            tables.update(TABLES["checkpoints"], key, {"format_version": version})
        with pytest.raises(LandscapeRefused, match=f"format {version}") as refused:
            ledger.read(lambda view: newest_checkpoint(view, "run-1", topology_of(view, "run-1")))
        assert refused.value.code == "landscape_topology_differs"


def test_a_report_counts_the_records_of_its_own_run(ledger, recorder):
    for run_id in ("run-1", "run-2"):
        whole_run(recorder, run_id)
    recorder.flush()
    for run_id in ("run-1", "run-2"):
        summary = read(ledger, outcomes_of, run_id)["summary"]
        assert (summary["fork_operations"], summary["join_operations"]) == (1, 1)
        assert read(ledger, llm_usage_of, run_id)["llm_summary"]["total_calls"] == 2
        assert read(ledger, graph_of, run_id)["node_count"] == 7


def test_calls_that_failed_are_counted_apart_from_those_that_did_not(ledger, recorder):
    begin_with_token(recorder)
    state_id = recorder.begin_node_state("run-1", "t", "classify", 0, {})["state_id"]
    for status, said in (
        ("success", {"response": 1}),
        ("error", {"error": {"why": "late"}}),
        ("error", {"error": {"why": "late"}}),
    ):
        recorder.record_call("run-1", "llm", status, {}, state_id=state_id, **said)
    recorder.flush()
    usage = read(ledger, llm_usage_of, "run-1")
    for counts in (usage["llm_summary"], usage["by_node"]["classify"]):
        assert (counts["total_calls"], counts["successful"], counts["failed"]) == (3, 1, 2)
        assert counts["mean_latency_us"] is None


def test_every_node_has_a_box_of_its_own_however_alike_their_names_are(ledger, recorder):
    recorder.begin_run({}, run_id="run-1")
    for name in ("transform_a", "transform_b", "transform_c"):
        recorder.register_node("run-1", name, "plugin", "transform")
    recorder.register_edge("run-1", "transform_a", "transform_b", "continue")
    recorder.flush()
    graph = read(ledger, graph_of, "run-1")["mermaid"]
    boxes = re.findall(r"^  (N\d+)\[", graph, re.MULTILINE)
    assert len(set(boxes)) == 3
    assert len(re.findall("-->", graph)) == 1


def test_what_failed_in_its_second_try_has_been_tried_again(ledger, recorder):
    begin_with_token(recorder)
    patterns = []
    for attempt in range(2):
        state = recorder.begin_node_state("run-1", "t", "parse", 0, {}, attempt=attempt)
        recorder.complete_node_state(
            "run-1", state["state_id"], "failed", duration_us=1, error={"why": attempt}
        )
        recorder.flush()
        patterns.append(read(ledger, failure_of, "run-1", limit=9)["patterns"]["has_retries"])
    assert patterns == [False, True]


def test_an_error_of_validation_says_what_was_wrong(ledger, recorder):
    whole_run(recorder)
    recorder.flush()
    [error] = read(ledger, errors_of, "run-1", kind="validation", limit=9)["validation_errors"]
    assert (error["error"], error["row_data"]) == ("text is no string", {"text": 7})
    causes = read(ledger, error_causes_of, "run-1")["validation_errors"]
    assert causes["by_source"] == [
        {"node_id": "source", "error": "text is no string", "count": 1},
    ]


@pytest.mark.parametrize("data", [{1, 2}, object(), {"n": math.nan}])
def test_a_row_that_has_no_canonical_form_is_on_record_with_its_error(ledger, recorder, data):
    begin_with_token(recorder)
    recorder.record_validation_error("run-1", data, "no object", node_id="source")
    recorder.record_transform_error("run-1", "t", "parse", data, {"why": {1}})
    recorder.flush()
    for name in ("validation_errors", "transform_errors"):
        [error] = records(ledger, name)
        assert type(data).__name__ in error["row_data_json"]


def test_a_run_is_stuck_only_after_its_hour(ledger, recorder):
    begin(recorder)
    recorder.flush()
    [run] = records(ledger, "runs")
    for age_us, kinds in ((STUCK_AFTER_US, []), (STUCK_AFTER_US + 1, ["stuck_run"])):
        problems = read(ledger, problems_now, run["started_at_us"] + age_us)["problems"]
        assert [problem["type"] for problem in problems] == kinds


def test_what_is_completed_wrongly_is_refused_before_anything_is_written(ledger, recorder):
    begin_with_token(recorder)
    state_id = recorder.begin_node_state("run-1", "t", "parse", 0, {"a": 1})["state_id"]
    with pytest.raises(RecordRefused, match="requires output_hash"):
        recorder.complete_node_state("run-1", state_id, "completed", duration_us=1)
    recorder.flush()
    assert read(ledger, lineage_of, "run-1", "t").states[0]["status"] == "open"


def test_what_a_batch_said_before_stays_when_it_is_completed(ledger, recorder):
    whole_run(recorder)
    recorder.flush()
    [batch] = records(ledger, "batches")
    assert (batch["trigger_type"], batch["trigger_reason"]) == ("count", "2 of 2")
    with pytest.raises(LandscapeRefused, match="is completed"):
        recorder.update_batch("run-1", batch["batch_id"], "executing")


def test_a_purge_takes_what_operations_kept_and_no_other_runs(ledger, recorder):
    for run_id in ("run-1", "run-2"):
        whole_run(recorder, run_id)
    recorder.complete_run("run-1")
    recorder.flush()
    kept = [row["input_data_ref"] for row in records(ledger, "operations")]
    assert purge_payloads(ledger, before_us=1 << 60).bytes_freed > 0
    assert [read(ledger, read_payload, "run-1", ref) for ref in set(kept)] == [None]
    assert all(read(ledger, read_payload, "run-2", ref) for ref in set(kept))


@pytest.mark.parametrize("ref", ["../../etc/passwd", "", "AB" * 32, "ab" * 31])
def test_a_name_that_is_no_hash_names_no_payload(ledger, recorder, ref):
    whole_run(recorder)
    recorder.flush()
    assert read(ledger, read_payload, "run-1", ref) is None


def test_a_latency_that_nobody_measured_is_no_number(ledger, recorder):
    begin_with_token(recorder)
    state_id = recorder.begin_node_state("run-1", "t", "parse", 0, {})["state_id"]
    recorder.record_call("run-1", "http", "success", {}, state_id=state_id, response=1)
    recorder.flush()
    text = explanation_text(read(ledger, explain, "t", run_id="run-1"))
    assert "http 0: success, N/A" in text
    assert "0.0 ms" not in text
