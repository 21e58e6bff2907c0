"""Writes what happens in a run: from what was noted to the records of seed 003.

Between `commit` and its end everything is one transaction (decision kernel/0470).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from kernel.landscape.canonical_types import Canonical, restore_value, stable_hash, typed_data
from kernel.landscape.recorder import MISSING
from kernel.landscape.run_checkpoints import FORMAT_VERSION
from workers.pipelines.engine.batches import BatchClosed, BatchMember, Gathered, PlanItem, WalkedWay
from workers.pipelines.engine.graph import ERROR
from workers.pipelines.engine.node_attempts import token_name
from workers.pipelines.engine.sinks import SinkWritten
from workers.pipelines.engine.walk import failure_row
from workers.pipelines.engine.way_records import DISCARD, SinkArrival, WayRecords, state_name


def row_name(run_id: str, index: int) -> str:
    """Return the id of a row by its place in the source."""
    return f"{run_id}.{index:08d}"


@dataclass(frozen=True, slots=True)
class SinkWrite:
    """What a sink is to write, and where; its operation is open."""

    operation_id: str
    sink: str
    position: int
    arrivals: Sequence[SinkArrival]


class RunRecords(WayRecords):
    """Records one run of a pipeline."""

    def commit(self) -> AbstractContextManager[None]:
        """Make one transaction of what the block records; `flush` makes it durable."""
        return self._recorder.whole(self._run_id)

    def flush(self) -> None:
        """Write it.

        Raises:
            LandscapeRefused: another process records the same run.
        """
        self._recorder.flush()

    def begin(self, config: Mapping[str, Any]) -> str:
        """Record that the run begins, with its graph; return the operation that loads the rows."""
        source = self._graph.source
        schema = source.schema
        self._recorder.begin_run(
            config,
            run_id=self._run_id,
            source_schema=None if schema is None else schema.model_json_schema(),
        )
        for place, node in enumerate(self._graph.nodes):
            record = self._graph.records[0][place]
            self._recorder.register_node(
                self._run_id,
                node.name,
                record["plugin_name"],
                node.node_type,
                node.configuration(),
                plugin_version=node.version,
                determinism=node.determinism,
                sequence=place,
            )
        self.edge_ids = {
            (edge.from_node, edge.label): self._recorder.register_edge(
                self._run_id, edge.from_node, edge.to_node, edge.label, edge.mode
            )["edge_id"]
            for edge in self._graph.edges
        }
        operation = self._recorder.begin_operation(self._run_id, source.name, "source_load")
        return str(operation["operation_id"])

    def row(self, index: int, content: Canonical) -> None:
        """Record a row of the source and its token."""
        row_id = row_name(self._run_id, index)
        self._recorder.create_row(
            self._run_id,
            self._graph.source.name,
            index,
            content,
            row_id=row_id,
            keep_payload=True,
        )
        self._recorder.create_token(self._run_id, row_id, token_id=token_name(row_id, 0), step=0)

    def end_source(self, operation_id: str, rows: int, duration_us: int) -> None:
        """Record that the source has given its last row."""
        self._recorder.complete_operation(
            self._run_id,
            operation_id,
            "completed",
            duration_us=duration_us,
            output_data={"rows": rows},
        )

    def plan(self, items: Iterable[PlanItem]) -> None:
        """Record what happened, in its order."""
        for item in items:
            if isinstance(item, WalkedWay):
                self.record_walk(item)
            elif isinstance(item, Gathered):
                self._record_buffered(item)
            else:
                self._record_closed_batch(item)

    def sink_writes(self, positions: Mapping[str, int]) -> list[SinkWrite]:
        """Record what the sinks are going to write of all that has arrived, and return it."""
        writes = []
        for sink, arrivals in self._arrived.items():
            position = positions.get(sink, 0)
            stated = {
                "position": position,
                "arrivals": [[a.token_id, a.how, a.error_hash] for a in arrivals],
            }
            operation = self._recorder.begin_operation(
                self._run_id, sink, "sink_write", input_data=stated
            )
            writes.append(SinkWrite(operation["operation_id"], sink, position, tuple(arrivals)))
        self._arrived = {}
        return writes

    def record_write(self, write: SinkWrite, written: SinkWritten, duration_us: int) -> None:
        """Record that a sink has written, and that so the ways of its tokens have ended."""
        recorder, run_id = self._recorder, self._run_id
        for arrival in write.arrivals:
            recorder.complete_node_state(
                run_id,
                arrival.state_id,
                "completed",
                output=arrival.data,
                duration_us=duration_us // len(write.arrivals),
            )
            error = {} if arrival.error_hash is None else {"error_hash": arrival.error_hash}
            recorder.record_token_outcome(
                run_id, arrival.token_id, arrival.how, sink_name=write.sink, **error
            )
        if written.path is not None and written.content_hash is not None:
            recorder.register_artifact(
                run_id,
                write.arrivals[0].state_id,
                write.sink,
                "file",
                written.path,
                written.content_hash,
                written.size_bytes,
                idempotency_key=f"{write.sink}.{write.position}",
            )
        recorder.complete_operation(
            run_id,
            write.operation_id,
            "completed",
            duration_us=duration_us,
            output_data={"position": written.position},
        )

    def checkpoint(self, number: int, token_id: str, state: Mapping[str, Any]) -> None:
        """Record how far the run is; two processes cannot both record the same number."""
        nodes, _ = self._graph.records
        self._recorder.record_of(
            self._run_id,
            "checkpoints",
            token_id=token_id,
            node_id=self._graph.source.name,
            sequence_number=number,
            aggregation_state_json=typed_data(state).decode(),
            topology_hash=self._graph.topology,
            node_config_hash=nodes[0]["config_hash"],
            format_version=FORMAT_VERSION,
        )

    def _record_buffered(self, item: Gathered) -> None:
        if item.ordinal == 0:
            self._recorder.create_batch(self._run_id, item.node, batch_id=item.batch_id)
        token_id = item.member.token_id
        self._recorder.add_batch_member(self._run_id, item.batch_id, token_id, item.ordinal)
        self._recorder.record_token_outcome(
            self._run_id, token_id, "buffered", batch_id=item.batch_id
        )

    def _record_closed_batch(self, item: BatchClosed) -> None:
        recorder, run_id = self._recorder, self._run_id
        states = [state_name(member.token_id, item.node, 0) for member in item.members]
        is_done = item.output is not None
        for state_id in states:
            recorder.complete_node_state(
                run_id,
                state_id,
                "completed" if is_done else "failed",
                output=item.output if is_done else MISSING,
                error=item.error,
                duration_us=item.duration_us,
            )
        self.record_calls(states[-1], item.calls)
        recorder.complete_batch(
            run_id,
            item.batch_id,
            "completed" if is_done else "failed",
            trigger_type=item.trigger,
            trigger_reason=f"{len(item.members)} rows",
            state_id=states[-1],
        )
        if is_done:
            recorder.consume_batch(
                run_id,
                item.batch_id,
                [{"token_id": m.token_id, "row_id": m.row_id} for m in item.members],
                step=self._graph.place[item.node],
                token_id=token_name(item.batch_id, 0),
            )
            return
        assert item.error is not None  # noqa: S101 - for the types
        for member in item.members:
            self._fail_batch_member(item.node, member, item.error)

    def _fail_batch_member(self, node: str, member: BatchMember, error: Canonical) -> None:
        recorder, run_id, token_id = self._recorder, self._run_id, member.token_id
        sink = self._graph.by_name[node].on_error
        recorder.record_transform_error(
            run_id, token_id, node, member.data, restore_value(error), destination=sink or DISCARD
        )
        if sink is None:
            recorder.record_token_outcome(run_id, token_id, "failed", error_hash=stable_hash(error))
            return
        data = failure_row(node, member.data, error)
        state_id, edge_id = state_name(token_id, node, 0), self.edge_ids[node, ERROR]
        recorder.record_routing_event(run_id, state_id, edge_id, "move", restore_value(error))
        self.enter(token_id, sink, data)
        self.to_sink(token_id, sink, "quarantined", data, stable_hash(error))
