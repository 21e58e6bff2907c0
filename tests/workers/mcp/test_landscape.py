"""The tools of runs: they say what the views say (seed 003)."""

import json
from contextlib import closing

import pytest

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.host import parse_time_us
from tests.workers.mcp.conftest import Asker, asking
from tests.workers.mcp.driven import REPORTS
from workers.environment.ledger_access import open_record
from workers.environment.system_host import system_host
from workers.views import landscape, run_records

pytestmark = [pytest.mark.anyio, pytest.mark.spec("seed 003, MCP Analysis Server")]

VIEWS = {
    "get_run": run_records.run_record,
    "get_run_contract": run_records.run_contract,
    "get_run_summary": landscape.run_summary,
    "get_errors": landscape.errors,
    "get_dag_structure": landscape.dag_structure,
    "get_performance_report": landscape.performance_report,
    "get_error_analysis": landscape.error_analysis,
    "get_llm_usage_report": landscape.llm_usage_report,
    "get_outcome_analysis": landscape.outcome_analysis,
    "get_failure_context": landscape.failure_context,
}

TOOLS_OF_THE_SEED = {
    *("diagnose", "get_failure_context", "get_recent_activity", "list_runs", "get_run"),
    *("get_run_summary", "list_nodes", "list_rows", "list_tokens", "list_operations"),
    *("get_operation_calls", "explain_token", "get_errors", "get_node_states", "get_calls"),
    *("query", "describe_schema", "get_dag_structure", "get_performance_report"),
    *("get_error_analysis", "get_llm_usage_report", "get_outcome_analysis"),
    *("get_run_contract", "explain_field", "list_contract_violations"),
}


@pytest.fixture(scope="module")
def stated(folder):
    """What each view says of the run."""
    with open_record(folder / "ledger.db") as view:
        return {tool: read(view, "run-1") for tool, read in VIEWS.items()}


async def test_a_report_is_what_its_view_says(ask: Asker, stated):
    assert stated.keys() == set(REPORTS)
    for tool, document in stated.items():
        answer = await ask(tool, run_id="run-1")
        assert "run-1" in answer["summary"]
        assert answer.get("content", {**answer, "summary": None}) == (
            document if "content" in answer else {**document, "summary": None}
        )


async def test_a_token_is_explained_whole_or_in_part(ask: Asker):
    [token] = await ask.values(
        "SELECT token_id FROM landscape_token_outcomes WHERE outcome = 'forked'"
    )
    whole = await ask("explain_token", token_id=token)
    [lineage] = whole["lineage"]["lineages"]
    assert lineage["outcome"]["outcome"] == "forked"
    part = await ask("explain_token", token_id=token, part="lineage.lineages.0.outcome")
    assert part["part"] == lineage["outcome"]


async def test_the_tools_of_the_seed_are_there_by_name(ask: Asker):
    listed = {tool.name for tool in (await ask.session.list_tools()).tools}
    assert len(TOOLS_OF_THE_SEED) == 25
    assert listed >= TOOLS_OF_THE_SEED


async def test_records_are_listed_in_pages_that_come_to_what_one_page_holds(ask: Asker):
    tables = {
        "list_nodes": "nodes",
        "list_rows": "rows",
        "list_tokens": "tokens",
        "list_operations": "operations",
        "get_node_states": "node_states",
        "list_contract_violations": "validation_errors",
    }
    for tool, table in tables.items():
        seen, following = [], {}
        while following is not None:
            answer = await ask(tool, run_id="run-1", **following, limit=2)
            [rows] = [name for name in answer if name not in ("summary", "next")]
            seen += [json.dumps(row) for row in answer[rows]]
            following = answer["next"]
        assert len(seen) == len(set(seen)) > 0
        [count] = await ask.values(f"SELECT count(*) AS n FROM landscape_{table}")  # noqa: S608
        assert len(seen) == count, tool


async def test_what_happened_is_listed_by_what_it_belongs_to(ask: Asker):
    failed = await ask("get_node_states", run_id="run-1", status="failed", node_id="classify")
    assert [state["error"] for state in failed["node_states"]] == [{"why": "no label"}]
    [row] = (await ask("list_rows", run_id="run-1"))["rows"]
    tokens = (await ask("list_tokens", run_id="run-1", row_id=row["row_id"]))["tokens"]
    assert {token["row_id"] for token in tokens} == {row["row_id"]}
    assert (await ask("list_tokens", run_id="run-1", row_id="x"))["tokens"] == []
    loads = await ask("list_operations", run_id="run-1", operation_type="source_load")
    [operation] = loads["operations"]
    calls = await ask("get_operation_calls", operation_id=operation["operation_id"])
    assert [call["call_type"] for call in calls["calls"]] == ["filesystem"]
    states = await ask("get_node_states", run_id="run-1", node_id="classify", status="completed")
    of_state = {"state_id": states["node_states"][0]["state_id"], "limit": 1}
    first = await ask("get_calls", **of_state)
    second = await ask("get_calls", **of_state, **first["next"])
    assert [call["call_index"] for call in first["calls"] + second["calls"]] == [0, 1]
    assert second["next"] is None
    error = await ask.refused("get_calls", state_id=operation["operation_id"])
    assert error["code"] == "landscape_unknown"


async def test_a_field_is_explained_and_a_row_that_does_not_fit_says_how(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(Ledger.create(SqliteStore(path), system_host())) as ledger:
        recorder = Recorder(ledger)
        renamed = {"resolution_mapping": {"Case No.": "case_no"}, "normalization_version": "1"}
        schema = {"case_no": "str", "title": "str"}
        recorder.begin_run(
            {}, run_id="run-1", source_schema=schema, source_field_resolution=renamed
        )
        listed = {"fields": [{"name": "case_no", "type": "string"}]}
        json_schema = {"type": "object", "properties": {"label": {"type": "string"}}}
        recorder.register_node("run-1", "csv", "csv", "source", schema=listed)
        recorder.register_node("run-1", "label", "label", "transform", schema=json_schema)
        recorder.record_validation_error("run-1", {"Case No.": "1", "x": 2}, "no title")
        recorder.record_validation_error("run-1", {1, 2}, "no object")
        recorder.flush()
    async with asking(path) as ask:
        for name in ("Case No.", "case_no"):
            field = await ask("explain_field", run_id="run-1", field_name=name)
            assert (field["original_name"], field["normalized_name"]) == ("Case No.", "case_no")
            assert field["in_source_schema"] == "str"
            assert [each["node_id"] for each in field["in_node_schemas"]] == ["csv"]
        label = await ask("explain_field", run_id="run-1", field_name="label")
        assert label["in_node_schemas"][0]["declared"] == {"type": "string"}
        error = await ask.refused("explain_field", run_id="run-1", field_name="nothing")
        assert error["code"] == "landscape_unknown"
        violations = (await ask("list_contract_violations", run_id="run-1"))["violations"]
        first, second = sorted(violations, key=lambda row: row["error"], reverse=True)
        assert (first["missing"], first["undeclared"]) == (["title"], ["x"])
        assert (second["missing"], second["undeclared"]) == ([], [])


async def test_a_query_sees_a_run_of_the_runtime_by_its_name(ask: Asker):
    runs = (await ask("list_runs"))["runs"]
    [run_id] = [run["run_id"] for run in runs if run["run_id"].startswith("runtime:")]
    [count] = await ask.values("SELECT count(*) AS n FROM landscape_runs")
    assert count == 1  # none of the runtime's
    counted = "SELECT count(*) AS n, min(run_id) AS run FROM landscape_tokens"
    answer = await ask("query", sql=counted, run_id=run_id)
    summed = await ask("get_run_summary", run_id=run_id)
    assert answer["rows"] == [[summed["counts"]["tokens"], run_id]]
    by_node = (
        "SELECT n.node_id, count(*) AS states FROM landscape_nodes AS n"
        " JOIN landscape_node_states AS s ON s.run_id = n.run_id AND s.node_id = n.node_id"
        " GROUP BY n.node_id ORDER BY n.node_id"
    )
    states = {row[0]: row[1] for row in (await ask("query", sql=by_node, run_id=run_id))["rows"]}
    performance = (await ask("get_performance_report", run_id=run_id))["content"]
    assert states == {
        node["node_id"]: node["executions"] for node in performance["node_performance"]
    }
    for sql, named, code in (
        ("SELECT 1 AS n FROM outbox", run_id, "query_failed"),
        ("DELETE FROM landscape_runs", run_id, "query_refused"),
        (counted, "run-1", "landscape_unknown"),
        (counted, f"{run_id}x", "landscape_unknown"),
    ):
        assert (await ask.refused("query", sql=sql, run_id=named))["code"] == code


async def test_a_run_is_in_what_happened_lately_and_in_what_is_wrong(ask: Asker):
    runs = (await ask("list_runs"))["runs"]
    [run] = [run for run in runs if run["run_id"] == "run-1"]
    age_us = system_host().now_us() - parse_time_us(run["started_at"])
    minutes = age_us // 60_000_000 + 2
    recent = await ask("get_recent_activity", minutes=minutes)
    shown = {each["run_id"]: each for each in recent["runs"]["runs"]}
    assert shown.keys() == {each["run_id"] for each in runs}
    [runtime] = shown.keys() - {"run-1"}
    summed = await ask("get_run_summary", run_id=runtime)
    assert summed["counts"]["tokens"] == shown[runtime]["tokens"] > 0
    diagnosis = await ask("diagnose")
    problems = diagnosis["record"]["runs"]["problems"]
    assert "run_not_sealed" in {problem["type"] for problem in problems}
