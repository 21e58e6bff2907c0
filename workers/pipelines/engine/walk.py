"""Walks a row through the nodes, which `node_attempts.py` calls, and notes all that happens.

Nothing is written and nothing is read here, so a row may be walked on any thread and in any
process, and again after a kill. The nodes are gone through in the order of the graph, each with all
tokens that wait there: when a join has its turn, whatever can come to it has come.

A walk ends where a row meets others: at sinks and at aggregations. A row arrives there in the
canonical form, so that it is the same whether it comes from this process, from a worker or from the
record.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kernel.landscape.canonical_types import (
    UNREADABLE,
    Canonical,
    restore_value,
    stable_hash,
    typed_data,
)
from kernel.values.foreign_code import call_foreign
from workers.pipelines.engine.events import (
    Arrived,
    Arriving,
    Expanded,
    Failed,
    Forked,
    Merged,
    WalkEvent,
)
from workers.pipelines.engine.graph import PipelineGraph
from workers.pipelines.engine.node import PipelineNode
from workers.pipelines.engine.node_attempts import (
    TOKENS_MAX,
    NodeCalls,
    NodeFailed,
    read_of_gate,
    read_of_join,
    read_of_transform,
)
from workers.pipelines.engine.step import RowRefused, WalkTools, error_content

Fork = tuple[str, int]
"""The node that forked, and the token that it forked."""


@dataclass(slots=True)
class _Traveller:
    token: int
    data: Any
    content: Canonical
    forks: tuple[Fork, ...]
    came_from: str | None


class _TooManyTokens(Exception):
    """A row became more tokens than it may; what it became is given up as a whole."""


class RowWalk:
    """One way through a graph: of a row from its source, or of what a batch became."""

    def __init__(self, graph: PipelineGraph, tools: WalkTools, run_id: str, id_prefix: str) -> None:
        """`id_prefix` and a number make the ids of its tokens, see `token_name`."""
        self._graph = graph
        self._tools = tools
        self._waiting: dict[str, list[_Traveller]] = {}
        self._tokens = 1
        self.events: list[WalkEvent] = []
        self._node_calls = NodeCalls(graph, tools, run_id, id_prefix, self.events)

    def of_row(self, content: Canonical) -> list[WalkEvent]:
        """Walk a row of the source, and return what happened."""
        source = self._graph.source
        try:
            # What has no schema calls nobody.
            call = call_foreign if source.schema is None else self._tools.call
            data = call(typed_row, source, content)
        except Exception as error:  # noqa: BLE001 - a schema is the user's program
            self._tools.note_failure(source.name, error)
            self._fail(source, [_Traveller(0, None, content, (), None)], error_content(error))
            return self.events
        return self._walk_from(source, _Traveller(0, data, content, (), None))

    def of_batch(self, node: PipelineNode, output: Any) -> list[WalkEvent]:
        """Walk what an aggregation made of a batch, and return what happened."""
        content = Canonical(typed_data(output))
        return self._walk_from(node, _Traveller(0, output, content, (), None))

    def _walk_from(self, begin: PipelineNode, first: _Traveller) -> list[WalkEvent]:
        node = begin
        try:
            if begin.node_type == "aggregation" and (made := _rows_of(first.data)) is not None:
                self._expand(begin, first, made)
            else:
                self._leave(begin, first, first.data, first.content)
            for node in self._graph.nodes[self._graph.place[begin.name] + 1 :]:
                travellers = self._waiting.pop(node.name, [])
                if node.node_type == "coalesce":
                    self._join(node, travellers)
                    continue
                act = self._arrive if node.node_type in ("sink", "aggregation") else self._visit
                for traveller in travellers:
                    act(node, traveller)
        except _TooManyTokens:
            self.events.clear()
            refused = RowRefused(f"one row became more than {TOKENS_MAX} tokens")
            self._fail(node, [first], error_content(refused))
        return self.events

    def _visit(self, node: PipelineNode, traveller: _Traveller) -> None:
        try:
            read = read_of_gate if node.node_type == "gate" else read_of_transform
            tokens = (traveller.token,)
            output, content, labels = self._node_calls.call(node, tokens, traveller.data, read)
        except NodeFailed as failed:
            self._fail(node, [traveller], failed.error)
            return
        made = _rows_of(output) if node.node_type == "transform" else None
        if made is None:
            self._leave(node, traveller, output, content, labels)
        else:
            self._expand(node, traveller, made)

    def _leave(
        self,
        node: PipelineNode,
        traveller: _Traveller,
        data: Any,
        content: Canonical,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Send a token on: along the ways that a gate has chosen, else along all."""
        ways = self._graph.successors[node.name]
        chosen = tuple(ways) if labels is None else tuple(labels)
        if len(chosen) == 1:
            sent = _Traveller(traveller.token, data, content, traveller.forks, node.name)
            self._waiting.setdefault(ways[chosen[0]], []).append(sent)
            return
        children = self._new_tokens(len(chosen))
        self.events.append(Forked(traveller.token, node.name, children, chosen))
        forks = (*traveller.forks, (node.name, traveller.token))
        for child, label in zip(children, chosen, strict=True):
            # No branch sees what another does to the row.
            sent = _Traveller(child, deepcopy(data), content, forks, node.name)
            self._waiting.setdefault(ways[label], []).append(sent)

    def _expand(self, node: PipelineNode, traveller: _Traveller, made: Sequence[Any]) -> None:
        contents = tuple(Canonical(typed_data(each)) for each in made)
        children = self._new_tokens(len(made))
        self.events.append(Expanded(traveller.token, node.name, children, contents))
        for child, data, content in zip(children, made, contents, strict=True):
            sent = _Traveller(child, data, content, traveller.forks, node.name)
            self._leave(node, sent, data, content)

    def _join(self, node: PipelineNode, travellers: Sequence[_Traveller]) -> None:
        fork_node = self._graph.forks[node.name]
        groups: dict[Fork, list[_Traveller]] = {}
        for traveller in travellers:
            apart = [fork for fork in traveller.forks if fork[0] == fork_node]
            # What no fork has sent apart is alone in its group.
            groups.setdefault(apart[-1] if apart else ("", traveller.token), []).append(traveller)
        for fork, group in groups.items():
            self._merge(node, fork, group)

    def _merge(self, node: PipelineNode, fork: Fork, group: list[_Traveller]) -> None:
        order = [port.node for port in node.after]
        group.sort(key=lambda traveller: order.index(str(traveller.came_from)))
        missing = set(order) - {traveller.came_from for traveller in group}
        parents = tuple(traveller.token for traveller in group)
        try:
            if missing and node.needs_all:
                names = ", ".join(sorted(map(str, missing)))
                self._node_calls.refuse(node, parents, f"nothing came from {names}")
            data = [traveller.data for traveller in group]
            output, content, _ = self._node_calls.call(node, parents, data, read_of_join)
        except NodeFailed as failed:
            self._fail(node, group, failed.error)
            return
        [child] = self._new_tokens(1)
        self.events.append(Merged(node.name, parents, child, content))
        forks = group[0].forks
        if fork in forks:
            forks = forks[: forks.index(fork)]
        self._leave(node, _Traveller(child, output, content, forks, node.name), output, content)

    def _arrive(self, node: PipelineNode, traveller: _Traveller) -> None:
        how: Arriving = "buffered" if node.node_type == "aggregation" else "completed"
        came_from = self._graph.by_name[str(traveller.came_from)]
        if how == "completed" and came_from.node_type == "gate":
            how = "routed"
        self.events.append(Arrived(traveller.token, node.name, how, traveller.content))

    def _fail(self, node: PipelineNode, travellers: Sequence[_Traveller], error: Canonical) -> None:
        for traveller in travellers:
            self.events.append(Failed(traveller.token, node.name, error, node.on_error))
            if node.on_error is not None:
                data = failure_row(node.name, traveller.content, error)
                arrived = Arrived(
                    traveller.token, node.on_error, "quarantined", data, stable_hash(error)
                )
                self.events.append(arrived)

    def _new_tokens(self, count: int) -> tuple[int, ...]:
        first = self._tokens
        self._tokens += count
        if self._tokens > TOKENS_MAX:
            raise _TooManyTokens
        return tuple(range(first, self._tokens))


def failure_row(node: str, content: Canonical, error: Canonical) -> Canonical:
    """Return what a sink is given of a token that failed: its row, where and why."""
    stated = {"node": node, "row": restore_value(content), "error": restore_value(error)}
    return Canonical(typed_data(stated))


def typed_row(source: PipelineNode, content: Canonical) -> Any:
    """Return a row of the source as nodes get it: by its schema, from its recorded form.

    Raises:
        Exception: what the schema raises of a row that is not valid.
    """
    data = restore_value(content)
    if isinstance(data, Mapping) and UNREADABLE in data:
        raise RowRefused(str(data[UNREADABLE]))
    return data if source.schema is None else source.schema.model_validate(data).model_dump()


def _rows_of(output: Any) -> list[Any] | None:
    """Return the rows of an output that is several, None of one that is a row."""
    return list(output) if isinstance(output, list | tuple) else None
