"""Calls a node for tokens, again after a pause while it fails, up to its number of attempts.

Each attempt is noted among the events of the walk, with what it returned or why it failed. A row
that a node refuses (`RowRefused`) is not tried again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any, NoReturn

from kernel.landscape.canonical_types import Canonical, typed_data
from workers.pipelines.engine.events import Visited, WalkEvent
from workers.pipelines.engine.graph import PipelineGraph
from workers.pipelines.engine.node import PAUSE_S_MAX, PipelineNode
from workers.pipelines.engine.step import NodeStep, RowRefused, WalkTools, error_content

TOKENS_MAX = 10_000
"""Tokens that one row may become on its way."""


NodeResult = tuple[Any, Canonical, tuple[str, ...] | None]
"""The row as the next node gets it, its canonical form, and by which ways a gate sends it."""

ReadResult = Callable[[Mapping[str, str], Any, Any], NodeResult]
"""Checks what a function returned, by the ways out of its node and what it was handed in."""


class NodeFailed(Exception):
    """A node returned nothing usable in all of its attempts."""

    def __init__(self, error: Canonical) -> None:
        super().__init__()
        self.error = error


class NodeCalls:
    """The calls of nodes on one way through a graph; they add to the events of the way."""

    def __init__(
        self,
        graph: PipelineGraph,
        tools: WalkTools,
        run_id: str,
        id_prefix: str,
        events: list[WalkEvent],
    ) -> None:
        self._graph = graph
        self._tools = tools
        self._run_id = run_id
        self._id_prefix = id_prefix
        self._events = events

    def call(
        self, node: PipelineNode, tokens: Sequence[int], data: Any, read: ReadResult
    ) -> NodeResult:
        """Call a node until it returns something usable, and note each attempt.

        Raises:
            NodeFailed: it did not, in all of its attempts.
        """
        name = token_name(self._id_prefix, tokens[0])
        ways, takes_step = self._graph.successors[node.name], node.name in self._graph.takes_step
        for attempt in range(node.attempts):
            is_last = attempt + 1 == node.attempts
            step = NodeStep(self._run_id, name, attempt, self._tools)
            handed_in = data if is_last and attempt == 0 else deepcopy(data)
            started_us = self._tools.now_us()
            try:
                arguments = (handed_in, step) if takes_step else (handed_in,)
                result: NodeResult = self._tools.call(_call_node, node, arguments, ways, read)
            except Exception as error:  # noqa: BLE001 - a node is the user's program
                self._tools.note_failure(node.name, error)
                content = error_content(error)
                self._note(node, tokens, step, started_us, error=content)
                if is_last or isinstance(error, RowRefused):
                    raise NodeFailed(content) from None
                self._tools.sleep_s(min(PAUSE_S_MAX, node.pause_s * 2**attempt))
            else:
                labels = result[2] or self._fork_labels(node)
                self._note(node, tokens, step, started_us, output=result[1], labels=labels)
                return result
        raise AssertionError

    def refuse(self, node: PipelineNode, tokens: Sequence[int], problem: str) -> NoReturn:
        """Note that tokens are refused without a call of their node.

        Raises:
            NodeFailed: always.
        """
        error = error_content(RowRefused(problem))
        step = NodeStep(self._run_id, "", 0, self._tools)
        self._note(node, tokens, step, self._tools.now_us(), error=error)
        raise NodeFailed(error)

    def _note(
        self,
        node: PipelineNode,
        tokens: Sequence[int],
        step: NodeStep,
        started_us: int,
        *,
        output: Canonical | None = None,
        error: Canonical | None = None,
        labels: Iterable[str] = (),
    ) -> None:
        took_us = max(0, self._tools.now_us() - started_us)
        for place, token in enumerate(tokens):
            # Of tokens that are joined the first stands for all.
            calls = tuple(step.calls) if place == 0 else ()
            visited = Visited(
                token, node.name, step.attempt, output, error, took_us, calls, tuple(labels)
            )
            self._events.append(visited)

    def _fork_labels(self, node: PipelineNode) -> tuple[str, ...]:
        ways = self._graph.successors[node.name]
        return tuple(ways) if len(ways) > 1 and node.node_type == "transform" else ()


def token_name(id_prefix: str, token: int) -> str:
    """Return the id of a token by its number on its way."""
    return f"{id_prefix}.{token}"


def _call_node(
    node: PipelineNode, arguments: tuple[Any, ...], ways: Mapping[str, str], read: ReadResult
) -> NodeResult:
    """Call a node; reading what it returned may call it again, where that is a generator."""
    return read(ways, arguments[0], node(*arguments))


def read_of_transform(_: Mapping[str, str], __: Any, returned: Any) -> NodeResult:
    """Take the row of a transform, or its rows."""
    if returned is None:
        raise RowRefused("it returned no row; send what goes no further to a sink")
    if isinstance(returned, Iterable) and not isinstance(returned, Mapping | str | bytes):
        # One more than may be, so that what never ends is refused, too.
        returned = list(islice(returned, TOKENS_MAX + 1))
        if not 1 <= len(returned) <= TOKENS_MAX:
            raise RowRefused(f"{len(returned)} rows of one, from 1 to {TOKENS_MAX} are allowed")
    return returned, Canonical(typed_data(returned)), None


def read_of_join(_: Mapping[str, str], __: Any, returned: Any) -> NodeResult:
    """Take the row of a join."""
    if not isinstance(returned, Mapping):
        raise RowRefused(f"a join returns a row, not {type(returned).__name__}")
    return returned, Canonical(typed_data(returned)), None


def read_of_gate(ways: Mapping[str, str], handed_in: Any, returned: Any) -> NodeResult:
    """Take the ways that a gate chose of its own; its row is the one that it was handed."""
    labels = tuple(returned) if isinstance(returned, list | tuple) else (returned,)
    is_known = all(isinstance(each, str) and each in ways for each in labels)
    if not labels or not is_known or len(set(labels)) < len(labels):
        raise RowRefused(f"it returned {returned!r}; its ways are {', '.join(ways)}")
    return handed_in, Canonical(typed_data(handed_in)), labels
