"""Checkpoints of a run, and from where it goes on after its process ended (seed 003).

A checkpoint holds the hash of the whole graph, nodes and edges; a run goes on only on the graph on
which it began, because one run has one configuration. What is still to be done is not read from the
checkpoint but from the outcomes: every row of which a token has none, or that has no token. A run
whose process was killed still says that it is running, and may go on.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kernel.landscape.canonical_types import (
    CANONICAL_VERSION,
    is_hash_of,
    restored,
    stable_hash,
    typed_data,
)
from kernel.landscape.digest import records_of
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.payloads import read_payload
from kernel.landscape.record_chain import RecordChain
from kernel.landscape.record_counts import hold_to_total
from kernel.landscape.record_rules import TABLES, check_stored, key_text
from kernel.landscape.recorder import Recorder
from kernel.landscape.reports import run_of_id
from kernel.landscape.run_rules import hold_together, stored_lineage_problems
from kernel.landscape.seals import seal_of
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.tables import Row

FORMAT_VERSION = 1
IDS_AT_ONCE = 200

_OF_NODE = ("node_id", "plugin_name", "plugin_version", "node_type", "determinism", "config_hash")
_OF_EDGE = ("from_node_id", "to_node_id", "label", "default_mode")
_DELEGATING = frozenset({"forked", "expanded"})
"""Outcomes of tokens whose children go on."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a run goes on: its newest checkpoint, if it has one, and the state of aggregations."""

    run: Row
    checkpoint: Row | None
    aggregation_state: Any
    row_ids: tuple[str, ...]
    """Rows that are not done, in the order of the source."""


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


def is_due(sequence: int, frequency: int) -> bool:
    """Tell whether a checkpoint follows the so-manieth row: every `frequency`, never for 0."""
    return frequency > 0 and sequence % frequency == 0


def record_checkpoint(
    recorder: Recorder,
    run_id: str,
    token_id: str,
    node_id: str,
    sequence_number: int,
    aggregation_state: Any = None,
) -> Row:
    """Record a checkpoint behind all that was recorded before; durable when this returns.

    Raises:
        LandscapeRefused: `landscape_unknown` of a node that the run has not.
    """
    recorder.flush()

    def read(view: LedgerView) -> tuple[str, str]:
        node = view.tables.get(TABLES["nodes"], run_id, node_id)
        if node is None:
            message = f"the run {run_id} has no node {node_id}"
            raise LandscapeRefused(message, code="landscape_unknown")
        return topology_of(view, run_id), check_stored(TABLES["nodes"], node)["config_hash"]

    topology, config_hash = recorder.ledger.read(read)
    checkpoint = recorder.record_of(
        run_id,
        "checkpoints",
        token_id=token_id,
        node_id=node_id,
        sequence_number=sequence_number,
        aggregation_state_json=(
            None if aggregation_state is None else typed_data(aggregation_state).decode()
        ),
        topology_hash=topology,
        node_config_hash=config_hash,
        format_version=FORMAT_VERSION,
    )
    recorder.flush()
    return checkpoint


def resume_point(view: LedgerView, run_id: str, current_topology: str) -> ResumePoint:
    """Return where a run goes on that has not been completed.

    Raises:
        LandscapeRefused: `landscape_unknown`; `landscape_run_over` of one that is completed or
            sealed; `landscape_topology_differs` where the graph is another now, or the checkpoint
            is of another program.
        RecordDamaged: what is on record of it does not fit together.
    """
    run, checkpoint = newest_checkpoint(view, run_id, current_topology)
    state = None if checkpoint is None else checkpoint["aggregation_state_json"]
    return ResumePoint(
        run,
        checkpoint,
        None if state is None else restored(state.encode()),
        tuple(row["row_id"] for row in rows_to_do(view, run_id)),
    )


def newest_checkpoint(
    view: LedgerView, run_id: str, current_topology: str
) -> tuple[Row, Row | None]:
    """Return a run that may go on, and its newest checkpoint, if it has one.

    Raises:
        LandscapeRefused: as `resume_point`.
    """
    run = run_of_id(view, run_id)
    if run["status"] == "completed" or seal_of(view, run_id) is not None:
        raise LandscapeRefused(f"the run {run_id} is over", code="landscape_run_over")
    newest = view.tables.select(
        TABLES["checkpoints"],
        {"run_id": run_id},
        order_by="sequence_number",
        descending=True,
        limit=1,
    )
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
    return run, checkpoint


def rows_to_do(view: LedgerView, run_id: str) -> list[Row]:
    """Return the rows of which a token has no end, or that have no token, in their order."""
    to_do: list[Row] = []
    counted: Counter[str] = Counter()
    rows = (check_stored(TABLES["rows"], row) for row in records_of(view.tables, run_id, "rows"))
    while page := [*islice(rows, IDS_AT_ONCE)]:
        to_do += _to_do(view, run_id, page, counted)
    # A token of no row, or an outcome of no token, would let a row be done again that is done.
    for name in ("tokens", "token_outcomes"):
        hold_to_total(view, run_id, name, counted[name])
    return sorted(to_do, key=lambda row: row["row_index"])


def row_data(view: LedgerView, row: Row) -> Any:
    """Return the data of a row, as its payload says; the source's schema restores its types.

    Raises:
        LandscapeRefused: `landscape_payload_gone` where it was never kept, or purged.
        RecordDamaged: it is not what the row's hash says.
    """
    ref = row["source_data_ref"]
    content = None if ref is None else read_payload(view, row["run_id"], ref)
    if content is None:
        message = f"the data of row {row['row_id']} is not kept"
        raise LandscapeRefused(message, code="landscape_payload_gone")
    if not is_hash_of(content, row["source_data_hash"]):
        key = key_text(TABLES["rows"], row)
        raise RecordDamaged("landscape_rows", key, "source_data_hash is not that of the payload")
    return restored(content)


def reopen_run(ledger: Ledger, run_id: str) -> Row:
    """Let a run that failed or was interrupted go on, unless it is sealed.

    Raises:
        LandscapeRefused: `landscape_unknown`, `landscape_run_over`.
    """
    with ledger.store.transaction() as tables:
        view = LedgerView(tables)
        run = run_of_id(view, run_id)
        if run["status"] == "completed" or seal_of(view, run_id) is not None:
            raise LandscapeRefused(f"the run {run_id} is over", code="landscape_run_over")
        ended = ("completed_at_us", "reproducibility_grade")
        running = run | {"status": "running"} | dict.fromkeys(ended)
        chain = RecordChain(tables)
        chain.take_in(run_id)
        tables.put(TABLES["runs"], running)
        chain.append(run_id, {str(TABLES["runs"].name): [running]})
    return running


def _to_do(view: LedgerView, run_id: str, rows: list[Row], counted: Counter[str]) -> list[Row]:
    row_ids, of_run = [row["row_id"] for row in rows], {"run_id": run_id}
    tokens = [
        check_stored(TABLES["tokens"], row)
        for row in view.tables.select_any(TABLES["tokens"], "row_id", row_ids, of_run)
    ]
    counted["tokens"] += len(tokens)
    ends: dict[str, str] = {}
    for at in range(0, len(tokens), IDS_AT_ONCE):
        ids = [token["token_id"] for token in tokens[at : at + IDS_AT_ONCE]]
        stored = view.tables.select_any(TABLES["token_outcomes"], "token_id", ids, of_run)
        outcomes = [check_stored(TABLES["token_outcomes"], row) for row in stored]
        counted["token_outcomes"] += len(outcomes)
        ends |= {row["token_id"]: row["outcome"] for row in outcomes if row["is_terminal"]}
    # A fork's children are tokens of the row themselves, so the way of each is looked at.
    finished = {
        token["row_id"]
        for token in tokens
        if ends.get(token["token_id"], "forked") not in _DELEGATING
    }
    open_rows = {token["row_id"] for token in tokens if token["token_id"] not in ends}
    return [row for row in rows if row["row_id"] in open_rows or row["row_id"] not in finished]
