"""The tools of runs: they say what the views say (seed 003)."""

import pytest

from kernel.host import parse_time_us
from tests.workers.mcp.conftest import Asker
from tests.workers.mcp.driven import REPORTS
from workers.environment.ledger_access import open_record
from workers.environment.system_host import system_host
from workers.views import landscape

pytestmark = [pytest.mark.anyio, pytest.mark.spec("seed 003, MCP Analysis Server")]

VIEWS = {
    "get_run_summary": landscape.run_summary,
    "get_errors": landscape.errors,
    "get_dag_structure": landscape.dag_structure,
    "get_performance_report": landscape.performance_report,
    "get_error_analysis": landscape.error_analysis,
    "get_llm_usage_report": landscape.llm_usage_report,
    "get_outcome_analysis": landscape.outcome_analysis,
    "get_failure_context": landscape.failure_context,
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
        assert answer["summary"].endswith("run-1")
        assert answer["report"] == document


async def test_a_token_is_explained_whole_or_in_part(ask: Asker):
    [token] = await ask.values(
        "SELECT token_id FROM landscape_token_outcomes WHERE outcome = 'forked'"
    )
    whole = await ask("explain_token", token_id=token)
    [lineage] = whole["lineages"]
    assert lineage["outcome"]["outcome"] == "forked"
    part = await ask("explain_token", token_id=token, part="lineages.0.outcome")
    assert part["part"] == lineage["outcome"]


async def test_a_run_is_in_what_happened_lately_and_in_what_is_wrong(ask: Asker):
    [run] = (await ask("list_runs"))["runs"]
    age_us = system_host().now_us() - parse_time_us(run["started_at"])
    minutes = age_us // 60_000_000 + 2
    recent = await ask("get_recent_activity", minutes=minutes)
    assert [shown["run_id"] for shown in recent["runs"]["runs"]] == [run["run_id"]]
    diagnosis = await ask("diagnose")
    problems = diagnosis["record"]["runs"]["problems"]
    assert "run_not_sealed" in {problem["type"] for problem in problems}
