"""Runs over HTTP and as views: reports, lineage, and the seal on the log (seed 003)."""

import anyio.to_thread
import pytest

from kernel.landscape.recorder import Recorder
from tests.workers.api.door import Door, error_of
from workers.questions.runs import REPORTS
from workers.views import landscape

pytestmark = [pytest.mark.anyio, pytest.mark.spec("seed 003, MCP Analysis Server")]

RUNS = "/v1/landscape/runs"


async def get(door, path, **query):
    answer = await door.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def report(door, name):
    return (await get(door, f"{RUNS}/run-1/{name}"))["content"]


async def test_a_run_is_listed_summed_up_and_reported_on(door: Door, run):
    [listed] = (await get(door, RUNS))["runs"]
    assert (listed["run_id"], listed["status"]) == ("run-1", "completed")
    assert (await get(door, RUNS, status="failed"))["runs"] == []
    summary = await get(door, f"{RUNS}/run-1")
    assert summary["counts"]["tokens"] == 8
    assert summary["counts"]["source_load"] == 1
    assert summary["errors"] == {"validation": 1, "transform": 1, "total": 2}
    assert summary["outcome_distribution"]["consumed_in_batch"] == 2
    performance = await report(door, "performance_report")
    assert performance["node_performance"][0]["node_id"] == "classify"
    assert performance["total_processing_ms"] == pytest.approx(3 * 1.5 + 5.0 + 0.01)
    usage = await report(door, "llm_usage_report")
    assert usage["by_node"]["classify"]["successful"] == 2
    assert usage["by_node"]["classify"]["failed"] == 0
    outcomes = await report(door, "outcome_analysis")
    assert outcomes["summary"] == {
        "terminal_tokens": 8,
        "non_terminal_tokens": 0,
        "fork_operations": 1,
        "join_operations": 1,
    }
    failure = await report(door, "failure_context")
    assert failure["failed_node_states"][0]["error"] == {"why": "no label"}
    for kind in REPORTS:
        assert (await report(door, kind.report))["run_id"] == "run-1"


async def test_an_id_is_explained(door: Door, run):
    query = {"record_id": run["token"]["token_id"]}
    explained = await get(door, "/v1/landscape/explain", **query)
    [lineage] = explained["lineages"]
    assert lineage["source_row"]["source_data"] == {"text": "Motion GRANTED"}
    assert lineage["outcome"]["expected_branches"] == ["sure", "unsure"]
    error_of(
        await door.http.get("/v1/landscape/explain", params={"record_id": "nobody"}),
        404,
        "landscape_unknown",
    )


@pytest.mark.spec("L4")
async def test_a_run_that_has_ended_is_sealed_once_and_then_nothing_waits(door: Door, run):
    activity = await get(door, "/v1/landscape/activity", minutes=60)
    assert activity["total_runs"] == 1
    problems = (await get(door, "/v1/landscape/diagnose"))["problems"]
    assert [problem["type"] for problem in problems] == ["run_not_sealed"]
    path = f"{RUNS}/run-1/seal"
    sealed = (await door.send(path, {})).json()
    assert (await door.send(path, {})).json() == sealed
    assert (await get(door, f"{RUNS}/run-1"))["run_digest"] == sealed["run_digest"]
    assert (await get(door, "/v1/landscape/diagnose"))["status"] == "OK"
    error_of(await door.send(f"{RUNS}/run-2/seal", {}), 404, "landscape_unknown")


async def test_a_run_that_is_running_is_not_sealed(door: Door):
    def begin():
        recorder = Recorder(door.ledger)
        recorder.begin_run({}, run_id="run-1")
        recorder.flush()

    await anyio.to_thread.run_sync(begin)
    error_of(await door.send(f"{RUNS}/run-1/seal", {}), 409, "landscape_incomplete")


async def test_the_views_have_the_names_that_every_door_uses():
    for name in ("list_runs", "run_summary", "explain_token", "errors", "dag_structure"):
        assert callable(getattr(landscape, name))
