"""From where a run goes on after its process ended: all of it is read from the record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.pipelines.batches import BatchMember, OpenBatch
from actors.pipelines.graph import PipelineGraph
from actors.pipelines.run_records import SinkWrite, row_name
from actors.pipelines.source_rows import SourceRow
from actors.pipelines.way_records import SinkArrival, state_name
from kernel.landscape.canonical_types import Canonical, restored
from kernel.landscape.checkpoints import newest_checkpoint
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.payloads import read_payload
from kernel.landscape.record_rules import TABLES, check_stored, key_text
from kernel.ledger.ledger import LedgerView
from kernel.ledger.tables import Row


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

    def stated(self, batches: Mapping[str, int]) -> dict[str, Any]:
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
        RecordDamaged: a record breaks a rule.
    """
    _, checkpoint = newest_checkpoint(view, run_id, graph.topology)
    if checkpoint is None:
        message = f"the run {run_id} has no checkpoint of a pipeline"
        raise LandscapeRefused(message, code="landscape_unknown")
    stated = restored(checkpoint["aggregation_state_json"].encode())
    batches = stated.pop("batches")
    state = RunState(run_id=run_id, commit_number=checkpoint["sequence_number"], **stated)
    state.waiting = _waiting(view, state)
    state.batches = [
        OpenBatch(node, number, run_id, _members(view, OpenBatch(node, number, run_id)))
        for node, number in batches.items()
    ]
    state.writes = _open_writes(view, run_id, graph)
    state.edge_ids = {
        (edge["from_node_id"], edge["label"]): edge["edge_id"]
        for edge in view.tables.select(TABLES["edges"], {"run_id": run_id})
    }
    return state


def _waiting(view: LedgerView, state: RunState) -> list[SourceRow]:
    after = row_name(state.run_id, state.rows_done - 1) if state.rows_done else None
    rows = view.tables.select(TABLES["rows"], {"run_id": state.run_id}, after=after)
    return [
        SourceRow(row["row_index"], row["row_id"], _kept(view, "rows", row, "source_data_ref"))
        for row in rows
    ]


def _members(view: LedgerView, batch: OpenBatch) -> list[BatchMember]:
    where = {"run_id": batch.run_id, "batch_id": batch.batch_id}
    members = []
    for row in view.tables.select(TABLES["batch_members"], where, order_by="ordinal"):
        token_id = row["token_id"]
        token = _named(view, "tokens", batch.run_id, token_id)
        state = _named(view, "node_states", batch.run_id, state_name(token_id, batch.node, 0))
        data = _kept(view, "node_states", state, "input_ref")
        members.append(BatchMember(token_id, token["row_id"], data))
    return members


def _open_writes(view: LedgerView, run_id: str, graph: PipelineGraph) -> list[SinkWrite]:
    writes = []
    for node in graph.nodes:
        where = {"run_id": run_id, "node_id": node.name, "status": "open"}
        if node.node_type != "sink":
            continue
        for row in view.tables.select(TABLES["operations"], where):
            stated = restored(_kept(view, "operations", row, "input_data_ref"))
            arrivals = [_arrival(view, run_id, node.name, *each) for each in stated["arrivals"]]
            write = SinkWrite(row["operation_id"], node.name, stated["position"], arrivals)
            writes.append(write)
    return writes


def _arrival(
    view: LedgerView, run_id: str, sink: str, token_id: str, how: str, error_hash: str | None
) -> SinkArrival:
    state = _named(view, "node_states", run_id, state_name(token_id, sink, 0))
    data = _kept(view, "node_states", state, "input_ref")
    return SinkArrival(token_id, state["state_id"], how, data, error_hash)


def _named(view: LedgerView, name: str, run_id: str, record_id: str) -> Row:
    row = view.tables.get(TABLES[name], run_id, record_id)
    if row is None:
        raise RecordDamaged(f"landscape_{name}", f"{run_id}/{record_id}", "it is not there")
    return check_stored(TABLES[name], row)


def _kept(view: LedgerView, name: str, row: Row, column: str) -> Canonical:
    check_stored(TABLES[name], row)
    ref = row[column]
    content = None if ref is None else read_payload(view, row["run_id"], ref)
    if content is None:
        message = f"the data of {key_text(TABLES[name], row)} is not kept"
        raise LandscapeRefused(message, code="landscape_payload_gone")
    return Canonical(content)
