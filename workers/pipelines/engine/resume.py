"""Reads from the record from where a run goes on after its process ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel.landscape.canonical_types import restore_value
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.open_work import (
    edge_ids,
    load_without_rows,
    members_of,
    open_operations,
    record,
    rows_behind,
    state_input,
)
from kernel.landscape.run_checkpoints import changed_nodes, newest_checkpoint, topology_of
from kernel.ledger.ledger import LedgerView
from workers.pipelines.engine.batches import BatchMember, OpenBatch
from workers.pipelines.engine.graph import PipelineGraph
from workers.pipelines.engine.run_records import SinkWrite, row_name
from workers.pipelines.engine.source_rows import SourceRow
from workers.pipelines.engine.way_records import SinkArrival, state_name

NODES_NAMED_MAX = 10


@dataclass(slots=True)
class RunState:
    """How far a run is."""

    run_id: str
    commit_number: int = 0
    rows_done: int = 0
    rows_read: int = 0
    source_ended: bool = False
    is_settled: bool = False
    """Whether all that is left to do is to say that the run is over."""

    source_operation: str = ""
    positions: dict[str, int] = field(default_factory=dict)
    """Of each sink that has written, where it stands."""

    waiting: list[SourceRow] = field(default_factory=list)
    """Rows that are on record and not done."""

    batches: list[OpenBatch] = field(default_factory=list)
    writes: list[SinkWrite] = field(default_factory=list)
    """What sinks may have written and have not confirmed."""

    edge_ids: dict[tuple[str, str], str] = field(default_factory=dict)

    def checkpoint_body(self, batches: Mapping[str, int]) -> dict[str, Any]:
        """Return what a checkpoint holds of it, with the numbers of the open batches."""
        return {
            "rows_done": self.rows_done,
            "rows_read": self.rows_read,
            "source_ended": self.source_ended,
            "is_settled": self.is_settled,
            "source_operation": self.source_operation,
            "positions": self.positions,
            "batches": dict(batches),
        }


def recorded_state(view: LedgerView, run_id: str, graph: PipelineGraph) -> RunState:
    """Return how far a run is by its record.

    Raises:
        LandscapeRefused: `landscape_unknown`, `landscape_run_over`, `landscape_topology_differs`,
            `landscape_payload_gone`.
        RecordDamaged: a record breaks a rule, or data is not what its hash says.
    """
    try:
        checkpoint = newest_checkpoint(view, run_id, graph.topology)
    except LandscapeRefused as refused:
        is_graph = refused.code == "landscape_topology_differs"
        if not is_graph or topology_of(view, run_id) == graph.topology:
            raise
        changed = changed_nodes(view, run_id, graph.records[0])
        which = ", ".join(changed[:NODES_NAMED_MAX]) or "its edges"
        message = f"{refused}: {which} changed since"
        raise LandscapeRefused(message, code=refused.code) from None
    if checkpoint is None:
        return _state_without_rows(view, run_id, graph)
    stated = restore_value(checkpoint["aggregation_state_json"].encode())
    batches = stated.pop("batches")
    state = RunState(run_id=run_id, commit_number=checkpoint["sequence_number"], **stated)
    state.waiting = _waiting(view, state)
    if state.waiting:
        # Rows may be on record behind the checkpoint.
        state.rows_read = state.waiting[-1].index + 1
    load = record(view, "operations", run_id, state.source_operation)
    state.source_ended = load["status"] != "open"
    state.batches = [
        OpenBatch(node, number, run_id, _members(view, OpenBatch(node, number, run_id)))
        for node, number in batches.items()
    ]
    sinks = [node.name for node in graph.nodes if node.node_type == "sink"]
    state.writes = [write for sink in sinks for write in _open_writes(view, run_id, sink)]
    state.edge_ids = edge_ids(view, run_id)
    return state


def _state_without_rows(view: LedgerView, run_id: str, graph: PipelineGraph) -> RunState:
    """Return how far a run is that has read no row, and has no checkpoint therefore."""
    load = load_without_rows(view, run_id, graph.source.name)
    if load is None:
        message = f"the run {run_id} has no checkpoint of a pipeline"
        raise LandscapeRefused(message, code="landscape_unknown")
    return RunState(
        run_id,
        source_ended=load["status"] != "open",
        source_operation=load["operation_id"],
        edge_ids=edge_ids(view, run_id),
    )


def _waiting(view: LedgerView, state: RunState) -> list[SourceRow]:
    done = row_name(state.run_id, state.rows_done - 1) if state.rows_done else None
    return [
        SourceRow(row["row_index"], row["row_id"], content)
        for row, content in rows_behind(view, state.run_id, done)
    ]


def _members(view: LedgerView, batch: OpenBatch) -> list[BatchMember]:
    members = []
    for token in members_of(view, batch.run_id, batch.batch_id):
        state_id = state_name(token["token_id"], batch.node, 0)
        data = state_input(view, batch.run_id, state_id)
        members.append(BatchMember(token["token_id"], token["row_id"], data))
    return members


def _open_writes(view: LedgerView, run_id: str, sink: str) -> list[SinkWrite]:
    writes = []
    for operation, content in open_operations(view, run_id, sink):
        stated = restore_value(content)
        arrivals = []
        for token_id, how, error_hash in stated["arrivals"]:
            state_id = state_name(token_id, sink, 0)
            data = state_input(view, run_id, state_id)
            arrivals.append(SinkArrival(token_id, state_id, how, data, error_hash))
        writes.append(SinkWrite(operation["operation_id"], sink, stated["position"], arrivals))
    return writes
