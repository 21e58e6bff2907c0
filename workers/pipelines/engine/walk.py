"""Walks a row through the nodes: calls the functions, and notes everything that happens.

Nothing is written and nothing is read here, so a row may be walked on any thread and in any
process, and again after a kill. The nodes are gone through in the order of the graph, each with all
tokens that wait there: when a join has its turn, whatever can come to it has come.

A walk ends where a row meets others: at sinks and at aggregations. A row arrives there in the
canonical form, so that it is the same whether it comes from this process, from a worker or from the
record.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

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
    Visited,
    WalkEvent,
)
from workers.pipelines.engine.graph import PipelineGraph
from workers.pipelines.engine.node import PAUSE_S_MAX, PipelineNode
from workers.pipelines.engine.step import NodeStep, RowRefused, WalkTools, error_content

TOKENS_MAX = 10_000
"""Tokens that one row may become on its way."""

Fork = tuple[str, int]
"""The node that forked, and the token that it forked."""


@dataclass(slots=True)
class _Traveller:
    token: int
    data: Any
    content: Canonical
    forks: tuple[Fork, ...]
    came_from: str | None


class _NodeFailed(Exception):
    def __init__(self, error: Canonical) -> None:
        super().__init__()
        self.error = error


class _TooManyTokens(Exception):
    """A row became more tokens than it may; what it became is given up as a whole."""


class RowWalk:
    """One way through a graph: of a row from its source, or of what a batch became."""

    def __init__(self, graph: PipelineGraph, tools: WalkTools, run_id: str, id_prefix: str) -> None:
        """`id_prefix` and a number make the ids of its tokens, see `token_name`."""
        self._graph = graph
        self._tools = tools
        self._run_id = run_id
        self._id_prefix = id_prefix
        self._waiting: dict[str, list[_Traveller]] = {}
        self._tokens = 1
        self.events: list[WalkEvent] = []

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
            read = _gate_result if node.node_type == "gate" else _transform_result
            output, content, labels = self._attempts(node, [traveller], traveller.data, read)
        except _NodeFailed as failed:
            self._fail(node, [traveller], failed.error)
            return
        made = _rows_of(output) if node.node_type == "transform" else None
        if made is None:
            self._leave(node, traveller, output, content, labels)
        else:
            self._expand(node, traveller, made)

    def _attempts(
        self, node: PipelineNode, travellers: Sequence[_Traveller], data: Any, read: "_Read"
    ) -> "_Result":
        """Call a node until it returns something usable, and note each attempt.

        Raises:
            _NodeFailed: it did not, in all of its attempts.
        """
        name = token_name(self._id_prefix, travellers[0].token)
        ways, takes_step = self._graph.successors[node.name], node.name in self._graph.takes_step
        for attempt in range(node.attempts):
            is_last = attempt + 1 == node.attempts
            step = NodeStep(self._run_id, name, attempt, self._tools)
            handed_in = data if is_last and attempt == 0 else deepcopy(data)
            started_us = self._tools.now_us()
            try:
                arguments = (handed_in, step) if takes_step else (handed_in,)
                result: _Result = self._tools.call(_call_node, node, arguments, ways, read)
            except Exception as error:  # noqa: BLE001 - a node is the user's program
                self._tools.note_failure(node.name, error)
                content = error_content(error)
                self._note(node, travellers, step, started_us, error=content)
                if is_last or isinstance(error, RowRefused):
                    raise _NodeFailed(content) from None
                self._tools.sleep_s(min(PAUSE_S_MAX, node.pause_s * 2**attempt))
            else:
                labels = result[2] or self._fork_labels(node)
                self._note(node, travellers, step, started_us, output=result[1], labels=labels)
                return result
        raise AssertionError

    def _note(
        self,
        node: PipelineNode,
        travellers: Sequence[_Traveller],
        step: NodeStep,
        started_us: int,
        *,
        output: Canonical | None = None,
        error: Canonical | None = None,
        labels: Iterable[str] = (),
    ) -> None:
        took_us = max(0, self._tools.now_us() - started_us)
        for place, traveller in enumerate(travellers):
            # Of tokens that are joined the first stands for all.
            calls = tuple(step.calls) if place == 0 else ()
            self.events.append(
                Visited(
                    traveller.token,
                    node.name,
                    step.attempt,
                    output,
                    error,
                    took_us,
                    calls,
                    tuple(labels),
                )
            )

    def _fork_labels(self, node: PipelineNode) -> tuple[str, ...]:
        ways = self._graph.successors[node.name]
        return tuple(ways) if len(ways) > 1 and node.node_type == "transform" else ()

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
        try:
            if missing and node.needs_all:
                self._refuse(
                    node, group, f"nothing came from {', '.join(sorted(map(str, missing)))}"
                )
            data = [traveller.data for traveller in group]
            output, content, _ = self._attempts(node, group, data, _join_result)
        except _NodeFailed as failed:
            self._fail(node, group, failed.error)
            return
        [child] = self._new_tokens(1)
        parents = tuple(traveller.token for traveller in group)
        self.events.append(Merged(node.name, parents, child, content))
        forks = group[0].forks
        if fork in forks:
            forks = forks[: forks.index(fork)]
        self._leave(node, _Traveller(child, output, content, forks, node.name), output, content)

    def _refuse(self, node: PipelineNode, group: Sequence[_Traveller], problem: str) -> NoReturn:
        error = error_content(RowRefused(problem))
        step = NodeStep(self._run_id, "", 0, self._tools)
        self._note(node, group, step, self._tools.now_us(), error=error)
        raise _NodeFailed(error)

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


def token_name(id_prefix: str, token: int) -> str:
    """Return the id of a token by its number on its way."""
    return f"{id_prefix}.{token}"


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


_Result = tuple[Any, Canonical, tuple[str, ...] | None]
"""The row as the next node gets it, its canonical form, and by which ways a gate sends it."""

_Read = Callable[[Mapping[str, str], Any, Any], _Result]
"""Checks what a function returned, by the ways out of its node and what it was handed in."""


def _call_node(
    node: PipelineNode, arguments: tuple[Any, ...], ways: Mapping[str, str], read: _Read
) -> _Result:
    """Call a node; reading what it returned may call it again, where that is a generator."""
    return read(ways, arguments[0], node(*arguments))


def _transform_result(_: Mapping[str, str], __: Any, returned: Any) -> _Result:
    if returned is None:
        raise RowRefused("it returned no row; send what goes no further to a sink")
    if isinstance(returned, Iterable) and not isinstance(returned, Mapping | str | bytes):
        # One more than may be, so that what never ends is refused, too.
        returned = list(islice(returned, TOKENS_MAX + 1))
        if not 1 <= len(returned) <= TOKENS_MAX:
            raise RowRefused(f"{len(returned)} rows of one, from 1 to {TOKENS_MAX} are allowed")
    return returned, Canonical(typed_data(returned)), None


def _join_result(_: Mapping[str, str], __: Any, returned: Any) -> _Result:
    if not isinstance(returned, Mapping):
        raise RowRefused(f"a join returns a row, not {type(returned).__name__}")
    return returned, Canonical(typed_data(returned)), None


def _gate_result(ways: Mapping[str, str], handed_in: Any, returned: Any) -> _Result:
    labels = tuple(returned) if isinstance(returned, list | tuple) else (returned,)
    is_known = all(isinstance(each, str) and each in ways for each in labels)
    if not labels or not is_known or len(set(labels)) < len(labels):
        raise RowRefused(f"it returned {returned!r}; its ways are {', '.join(ways)}")
    return handed_in, Canonical(typed_data(handed_in)), labels
