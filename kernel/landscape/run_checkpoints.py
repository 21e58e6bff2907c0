"""Reads a run's checkpoints, and from where it goes on after its process ended (seed 003).

A checkpoint holds the hash of the whole graph, nodes and edges; a run goes on only on the graph on
which it began, because one run has one configuration. The rest of the work follows from the newest
checkpoint and the records behind it (`open_work.py`). A run whose process was killed still says
that it is running, and may go on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.landscape.canonical_types import CANONICAL_VERSION, stable_hash
from kernel.landscape.digest import records_of
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_chain import RecordChain
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.landscape.reports import run_of_id
from kernel.landscape.run_rules import hold_together, stored_lineage_problems
from kernel.landscape.seals import seal_of
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.tables import Row, TableQuery

FORMAT_VERSION = 1

_OF_NODE = ("node_id", "plugin_name", "plugin_version", "node_type", "determinism", "config_hash")
_OF_EDGE = ("from_node_id", "to_node_id", "label", "default_mode")


def topology_hash(nodes: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]) -> str:
    """Return the hash of a graph: of all that its nodes and edges are, in no order."""
    stated = (
        sorted([node[name] for name in _OF_NODE] for node in nodes),
        sorted([edge[name] for name in _OF_EDGE] for edge in edges),
    )
    return stable_hash(stated)


def topology_of(view: LedgerView, run_id: str) -> str:
    """Return the hash of a run's own graph."""
    nodes, edges = (
        [check_stored(TABLES[name], row) for row in records_of(view.tables, run_id, name)]
        for name in ("nodes", "edges")
    )
    return topology_hash(nodes, edges)


def changed_nodes(
    view: LedgerView, run_id: str, nodes: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the names of nodes that are others now than when a run began, or only in one graph."""
    recorded, now = (
        {node["node_id"]: [node[name] for name in _OF_NODE] for node in each}
        for each in (records_of(view.tables, run_id, "nodes"), nodes)
    )
    return tuple(sorted(name for name in {*recorded, *now} if recorded.get(name) != now.get(name)))


def newest_checkpoint(view: LedgerView, run_id: str, current_topology: str) -> Row | None:
    """Return the newest checkpoint of a run that may go on, None where it has none.

    Raises:
        LandscapeRefused: `landscape_unknown`; `landscape_run_over` of one that is completed or
            sealed; `landscape_topology_differs` where the graph is another now, or the checkpoint
            is of another program.
        RecordDamaged: what is on record of it does not fit together.
    """
    run = _open_run(view, run_id)
    query = TableQuery(
        TABLES["checkpoints"],
        {"run_id": run_id},
        order_by="sequence_number",
        descending=True,
        limit=1,
    )
    newest = view.tables.scan(query)
    checkpoint = check_stored(TABLES["checkpoints"], newest[0]) if newest else None
    recorded = topology_of(view, run_id) if checkpoint is None else checkpoint["topology_hash"]
    if recorded != current_topology:
        message = f"the run {run_id} began on another graph; begin another run"
        raise LandscapeRefused(message, code="landscape_topology_differs")
    if checkpoint is not None and checkpoint["format_version"] != FORMAT_VERSION:
        message = f"the checkpoint has format {checkpoint['format_version']}"
        raise LandscapeRefused(message, code="landscape_topology_differs")
    if run["canonical_version"] != CANONICAL_VERSION:
        message = f"hashes of the run {run_id} are taken by {run['canonical_version']}"
        raise LandscapeRefused(f"{message}; begin another run", code="landscape_topology_differs")
    hold_together(stored_lineage_problems(view.tables, run_id))
    return checkpoint


def reopen_run(ledger: Ledger, run_id: str) -> Row:
    """Let a run that failed or was interrupted go on, unless it is sealed.

    Raises:
        LandscapeRefused: `landscape_unknown`, `landscape_run_over`.
    """
    with ledger.store.transaction() as tables:
        run = _open_run(LedgerView(tables), run_id)
        ended = ("completed_at_us", "reproducibility_grade")
        running = run | {"status": "running"} | dict.fromkeys(ended)
        chain = RecordChain(tables)
        chain.take_in(run_id)
        tables.put(TABLES["runs"], running)
        chain.append(run_id, {str(TABLES["runs"].name): [running]})
    return running


def _open_run(view: LedgerView, run_id: str) -> Row:
    run = run_of_id(view, run_id)
    if run["status"] == "completed" or seal_of(view, run_id) is not None:
        raise LandscapeRefused(f"the run {run_id} is over", code="landscape_run_over")
    return run
