"""Every tool that reads, called with ids that other tools gave: the same over every transport."""

from collections.abc import Awaitable, Callable
from typing import Any

from mcp import ClientSession

from tests.workers.mcp.conftest import Asker

EVENT = "SELECT source_event_id FROM binding_evaluation_manifests LIMIT 1"
RUN = (
    "SELECT CAST(record AS TEXT) ->> '$.extraction_run_id' AS run FROM extraction_attempts LIMIT 1"
)
RUN_OF_POSTGRES = (
    "SELECT convert_from(record, 'UTF8')::jsonb ->> 'extraction_run_id' AS run"
    " FROM extraction_attempts LIMIT 1"
)
UNDERSTANDING = (
    "SELECT node_id FROM nodes WHERE node_kind = 'ConsolidatedUnderstanding'"
    " ORDER BY node_id LIMIT 1"
)
SEALED = "SELECT session_id FROM audit_sessions WHERE seal_sequence IS NOT NULL LIMIT 1"
REQUEST = "SELECT request_id FROM outbox WHERE queue = 'binding-evaluation' LIMIT 1"


REPORTS = (
    "get_run",
    "get_run_contract",
    "get_run_summary",
    "get_errors",
    "get_dag_structure",
    "get_performance_report",
    "get_error_analysis",
    "get_llm_usage_report",
    "get_outcome_analysis",
    "get_failure_context",
)

LISTINGS = (*("list_nodes", "list_rows", "list_tokens", "list_contract_violations"),)


async def drive(session: ClientSession, run_sql: str = RUN) -> dict[str, Any]:
    """Call every tool once and return the answers by name."""
    ask = Asker(session)
    answers: dict[str, Any] = {}

    async def call(tool: str, /, **arguments: Any) -> Any:
        answers[tool] = await ask(tool, **arguments)
        return answers[tool]

    await call("diagnose")
    await call("get_recent_activity", minutes=60)
    await call("get_queues")
    [request_id] = await ask.values(REQUEST)
    await call("get_request", request_id=request_id)
    await call("list_dead_letters", queue="binding-evaluation")
    await call("list_failures", queue="binding-evaluation")
    operations = (await call("find_operations", limit=50))["operations"]
    operation_id = operations[-1]["operation_id"]
    for tool in ("get_ancestors", "preview_rollback", "get_operation"):
        await call(tool, operation_id=operation_id)
    [node_id] = await ask.values(UNDERSTANDING)
    await call("explain_authority", node_id=node_id)
    await call("get_node", node_id=node_id)
    await call("search", text=node_id)
    await call("get_source_fields", source_ref=node_id)
    await call("list_adjudications")
    await call("list_reviews", kind="outcome")
    await call("list_costs")
    await call("sum_costs")
    await call("list_log", order="newest")
    await call("list_migration_reviews")
    await call("list_extractions", state="blocked")
    [run] = await ask.values(run_sql)
    await call("get_extraction", extraction_run_id=run)
    session_id = (await call("list_sessions"))["sessions"][0]["session_id"]
    await call("get_session", session_id=session_id)
    await call("list_session_events", session_id=session_id)
    binding_id = (await call("list_bindings"))["bindings"][0]["binding_id"]
    await call("get_binding", binding_id=binding_id)
    [event] = await ask.values(EVENT)
    cycle = (await call("list_manifests", source_event_id=event))["manifests"][0]["cycle"]
    await call("get_manifest", source_event_id=event, cycle=cycle)
    await call("get_implications")
    size = int((await call("get_tree_head"))["tree_size"])
    await call("prove_inclusion", ec_sequence_number=size)
    await call("prove_consistency", old_tree_size=size // 2)
    [thoughts] = await ask.values(SEALED)
    await call("list_thoughts", session_id=thoughts)
    await call("audit_verify_chain", session_id=thoughts)
    await call("merkle_root", session_id=thoughts)
    await call("merkle_verify", session_id=thoughts, sequence=1)
    await call("list_rounds")
    await _drive_runs(ask, call)
    await call("describe_schema")
    await call("query", sql="SELECT count(*) AS n FROM kernel_event_log")
    return answers


async def _drive_runs(ask: Asker, call: Callable[..., Awaitable[Any]]) -> None:
    runs = [run["run_id"] for run in (await call("list_runs"))["runs"]]
    [runtime] = [run_id for run_id in runs if run_id.startswith("runtime:")]
    counted = "SELECT count(*) AS n FROM landscape_tokens"
    assert (await ask("query", sql=counted, run_id=runtime))["rows"][0][0] > 0
    run_id = runs[0]
    for tool in REPORTS:
        await call(tool, run_id=run_id)
    [token] = await ask.values("SELECT token_id FROM landscape_tokens ORDER BY token_id LIMIT 1")
    await call("explain_token", token_id=token, run_id=run_id)
    await call("explain_field", run_id=run_id, field_name="text")
    for tool in LISTINGS:
        await call(tool, run_id=run_id)
    operation = (await call("list_operations", run_id=run_id))["operations"][0]["operation_id"]
    await call("get_operation_calls", operation_id=operation, run_id=run_id)
    state = (await call("get_node_states", run_id=run_id))["node_states"][0]["state_id"]
    await call("get_calls", state_id=state, run_id=run_id)
