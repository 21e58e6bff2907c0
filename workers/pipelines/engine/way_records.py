"""Writes what happens on a way through the nodes to the records of seed 003.

Ids of tokens and states follow from the run and the place of the row in the source, so what is done
again after a kill has the same ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kernel.landscape.canonical_types import Canonical, restore_value, stable_hash
from kernel.landscape.recorder import MISSING, Recorder
from kernel.ledger.store.tables import Row
from workers.pipelines.engine.batches import WalkedWay
from workers.pipelines.engine.events import (
    Arrived,
    CallMade,
    Expanded,
    Failed,
    Forked,
    Merged,
    Visited,
)
from workers.pipelines.engine.graph import ERROR, PipelineGraph
from workers.pipelines.engine.node_attempts import token_name

DISCARD = "discard"
"""Where what failed goes that no sink takes: nowhere, but on the record."""


def state_name(token_id: str, node: str, attempt: int) -> str:
    """Return the id of a state by its token, its node and its attempt."""
    return f"{token_id}.{node}.{attempt}"


@dataclass(frozen=True, slots=True)
class SinkArrival:
    """A token whose row waits to be written by a sink; its state there is open."""

    token_id: str
    state_id: str
    how: str
    data: Canonical
    error_hash: str | None


@dataclass(slots=True)
class _Way:
    """The tokens of a walk, as far as they are recorded."""

    id_prefix: str
    row_id: str
    data: dict[int, Canonical]
    states: dict[int, str] = field(default_factory=dict)
    """The last state of each token, where routing and failures belong to."""

    def name(self, token: int) -> str:
        return token_name(self.id_prefix, token)

    def row(self, token: int) -> Row:
        return {"token_id": self.name(token), "row_id": self.row_id}


class WayRecords:
    """Records the ways of one run, and collects what has arrived at sinks."""

    def __init__(self, recorder: Recorder, graph: PipelineGraph, run_id: str) -> None:
        self._recorder = recorder
        self._graph = graph
        self._run_id = run_id
        self.edge_ids: Mapping[tuple[str, str], str] = {}
        """By node and label; known once the run has begun."""

        self._arrived: dict[str, list[SinkArrival]] = {}

    def record_walk(self, walk: WalkedWay) -> None:
        """Record what happened on a way, in its order."""
        way = _Way(walk.id_prefix, walk.row_id, {0: walk.content})
        for event in walk.events:
            _WRITERS[type(event)](self, way, event)

    def _record_visit(self, way: _Way, event: Visited) -> None:
        recorder, run_id, token_id = self._recorder, self._run_id, way.name(event.token)
        state_id = state_name(token_id, event.node, event.attempt)
        recorder.record_node_state(
            run_id,
            token_id,
            event.node,
            self._graph.place[event.node],
            way.data[event.token],
            "failed" if event.output is None else "completed",
            output=MISSING if event.output is None else event.output,
            error=event.error,
            duration_us=event.duration_us,
            attempt=event.attempt,
            state_id=state_id,
        )
        self.record_calls(state_id, event.calls)
        way.states[event.token] = state_id
        if event.output is not None:
            way.data[event.token] = event.output
        if event.labels:
            mode = "copy" if len(event.labels) > 1 else "move"
            routes = [(self.edge_ids[event.node, label], mode) for label in event.labels]
            recorder.record_routing_events(run_id, state_id, routes)

    def _record_fork(self, way: _Way, event: Forked) -> None:
        self._recorder.fork_token(
            self._run_id,
            way.row(event.token),
            event.labels,
            step=self._graph.place[event.node],
            token_ids=[way.name(child) for child in event.children],
        )
        way.data |= dict.fromkeys(event.children, way.data[event.token])

    def _record_expansion(self, way: _Way, event: Expanded) -> None:
        self._recorder.expand_token(
            self._run_id,
            way.row(event.token),
            len(event.children),
            step=self._graph.place[event.node],
            token_ids=[way.name(child) for child in event.children],
        )
        way.data |= dict(zip(event.children, event.outputs, strict=True))

    def _record_merge(self, way: _Way, event: Merged) -> None:
        self._recorder.coalesce_tokens(
            self._run_id,
            [way.row(parent) for parent in event.parents],
            step=self._graph.place[event.node],
            token_id=way.name(event.child),
        )
        way.data[event.child] = event.output

    def _record_arrival(self, way: _Way, event: Arrived) -> None:
        token_id = way.name(event.token)
        self.enter(token_id, event.node, event.data)
        if event.how != "buffered":
            self.to_sink(token_id, event.node, event.how, event.data, event.error_hash)

    def _record_failure(self, way: _Way, event: Failed) -> None:
        token_id, data = way.name(event.token), way.data[event.token]
        destination = event.destination or DISCARD
        details = restore_value(event.error)
        is_source = event.node == self._graph.source.name
        if is_source:
            self._recorder.record_validation_error(
                self._run_id,
                data,
                f"{details['type']}: {details['message']}",
                node_id=event.node,
                destination=destination,
            )
        else:
            self._recorder.record_transform_error(
                self._run_id, token_id, event.node, data, details, destination=destination
            )
        if event.destination is None:
            outcome, error_hash = "quarantined" if is_source else "failed", stable_hash(event.error)
            self._recorder.record_token_outcome(
                self._run_id, token_id, outcome, error_hash=error_hash
            )
        elif event.token in way.states:
            edge_id = self.edge_ids[event.node, ERROR]
            self._recorder.record_routing_event(
                self._run_id, way.states[event.token], edge_id, "move", details
            )

    def enter(self, token_id: str, node: str, data: Canonical) -> None:
        """Record that a token came to where it waits, with its data."""
        self._recorder.begin_node_state(
            self._run_id,
            token_id,
            node,
            self._graph.place[node],
            data,
            state_id=state_name(token_id, node, 0),
            keep_payload=True,
        )

    def to_sink(
        self, token_id: str, sink: str, how: str, data: Canonical, error_hash: str | None
    ) -> None:
        """Take note that a sink is to write a token."""
        arrival = SinkArrival(token_id, state_name(token_id, sink, 0), how, data, error_hash)
        self._arrived.setdefault(sink, []).append(arrival)

    def record_calls(self, state_id: str, calls: Sequence[CallMade]) -> None:
        """Record the calls that a node made, with what was asked and answered."""
        for call in calls:
            self._recorder.record_call(
                self._run_id,
                call.call_type,
                "error" if call.response is None else "success",
                call.request,
                state_id=state_id,
                error=call.error,
                latency_us=call.latency_us,
                keep_payloads=True,
                response=MISSING if call.response is None else call.response,
            )


_WRITERS: Mapping[type[Any], Callable[[WayRecords, _Way, Any], None]] = MappingProxyType(
    {
        Visited: WayRecords._record_visit,  # noqa: SLF001 - this file's own table
        Forked: WayRecords._record_fork,  # noqa: SLF001
        Expanded: WayRecords._record_expansion,  # noqa: SLF001
        Merged: WayRecords._record_merge,  # noqa: SLF001
        Arrived: WayRecords._record_arrival,  # noqa: SLF001
        Failed: WayRecords._record_failure,  # noqa: SLF001
    }
)
"""How each thing that happens on a way is written."""
