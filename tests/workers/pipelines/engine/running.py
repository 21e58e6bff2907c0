"""Runs a pipeline in this process, and compares what two runs of it have recorded."""

from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import anyio

from kernel.landscape.digest import digest_of
from kernel.landscape.export import export_run, import_run
from kernel.landscape.lineage import lineage_of
from kernel.landscape.record_rules import TABLES
from kernel.ledger.ledger import Ledger
from kernel.values.foreign_code import call_foreign
from tests.kernel.build import memory_ledger
from tests.workers.pipelines.engine.essence import essence
from workers.pipelines.engine import pipeline as pipeline_module
from workers.pipelines.engine.runner import PipelineRun
from workers.pipelines.engine.step import WalkTools
from workers.pipelines.engine.walk import RowWalk

RUN = "run-1"
ENDS_IN = {"forked", "expanded", "coalesced", "consumed_in_batch"}


class InPlace:
    """Walks rows where they are."""

    def __init__(self, graph: Any, tools: WalkTools) -> None:
        self._graph, self._tools = graph, tools

    async def walk(self, run_id: str, rows: Any) -> Any:
        return [
            RowWalk(self._graph, self._tools, run_id, row.row_id).of_row(row.content)
            for row in rows
        ]


@patch.object(pipeline_module, "COMMIT_ROWS", 2)
def go_on(
    ledger: Ledger, made: Any, *, resume: bool, call: Callable[..., Any] = call_foreign
) -> None:
    tools = WalkTools(ledger.host.now_us, lambda _: None, None, call=call)  # type: ignore[arg-type]
    run = PipelineRun(made, ledger, tools, InPlace(made.graph, tools))
    (run.resume if resume else run.begin)(RUN)
    assert anyio.run(run.run).status == "completed"


def status(view: Any) -> str | None:
    run = view.tables.get(TABLES["runs"], RUN)
    return None if run is None else run["status"]


def check_records(expected_ledger: Ledger, ledger: Ledger) -> None:
    """The same records but for times and ids, whole, and an export that verifies."""
    with ledger.view() as view, expected_ledger.view() as expected_view:
        records, expected = essence(view, RUN), essence(expected_view, RUN)
        assert {name for name in records if records[name] != expected[name]} == set()
        check_whole(view, records)
        lines = [*export_run(view, RUN)]
        digest = digest_of(view, RUN)
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
