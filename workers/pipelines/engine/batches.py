"""Gathers into batches what comes to aggregations, in the order of the rows, and closes them.

The result is a list of what happened, in order, from which the record is written; nothing is
written here. What a batch becomes is walked at once, and may come to another aggregation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kernel.landscape.canonical_types import Canonical, restore_value, typed_data
from workers.pipelines.engine.events import Arrived, CallMade, WalkEvent
from workers.pipelines.engine.graph import PipelineGraph
from workers.pipelines.engine.node import BATCH_ROWS_MAX, PipelineNode
from workers.pipelines.engine.node_attempts import token_name
from workers.pipelines.engine.step import NodeStep, WalkTools, error_content
from workers.pipelines.engine.walk import RowWalk

Trigger = Literal["count", "condition", "end_of_source"]


@dataclass(frozen=True, slots=True)
class WalkedWay:
    """What happened to a row, or to what a batch became; its ids begin with the prefix."""

    id_prefix: str
    row_id: str
    content: Canonical
    events: Sequence[WalkEvent]


@dataclass(frozen=True, slots=True)
class BatchMember:
    """A token that waits in a batch."""

    token_id: str
    row_id: str
    data: Canonical


@dataclass(slots=True)
class OpenBatch:
    """A batch that gathers."""

    node: str
    number: int
    run_id: str
    members: list[BatchMember] = field(default_factory=list)

    @property
    def batch_id(self) -> str:
        """The batch's id, with which the ids of what it becomes begin."""
        return f"{self.run_id}.{self.node}.{self.number:06d}"


@dataclass(frozen=True, slots=True)
class Gathered:
    """A token was taken into a batch."""

    batch_id: str
    node: str
    ordinal: int
    member: BatchMember


@dataclass(frozen=True, slots=True)
class BatchClosed:
    """A batch became something, or failed."""

    batch_id: str
    node: str
    members: Sequence[BatchMember]
    trigger: Trigger
    output: Canonical | None
    error: Canonical | None
    calls: Sequence[CallMade]
    duration_us: int


PlanItem = WalkedWay | Gathered | BatchClosed


class Batches:
    """The open batches of a run."""

    def __init__(
        self, graph: PipelineGraph, tools: WalkTools, run_id: str, open_batches: Sequence[OpenBatch]
    ) -> None:
        self._graph = graph
        self._tools = tools
        self._run_id = run_id
        self._open = {batch.node: batch for batch in open_batches}

    @property
    def numbers(self) -> dict[str, int]:
        """Of each aggregation that has gathered anything the number of its open batch."""
        return {node: batch.number for node, batch in self._open.items()}

    def take(self, walk: WalkedWay) -> Iterator[PlanItem]:
        """Yield a walk and what follows of it: what is gathered, and what batches become."""
        yield walk
        for event in walk.events:
            if isinstance(event, Arrived) and event.how == "buffered":
                token_id = token_name(walk.id_prefix, event.token)
                yield from self._gather(event.node, BatchMember(token_id, walk.row_id, event.data))

    def close_all(self) -> Iterator[PlanItem]:
        """Yield what becomes of the open batches, when the source has ended."""
        for node in self._graph.nodes:
            # What an earlier aggregation makes may come to this one.
            if node.name in self._open and self._open[node.name].members:
                yield from self._close(node, "end_of_source")

    def _gather(self, name: str, member: BatchMember) -> Iterator[PlanItem]:
        node = self._graph.by_name[name]
        batch = self._open.setdefault(name, OpenBatch(name, 0, self._run_id))
        yield Gathered(batch.batch_id, name, len(batch.members), member)
        batch.members.append(member)
        if len(batch.members) >= (node.count or BATCH_ROWS_MAX):
            yield from self._close(node, "count")
        elif node.when is not None:
            try:
                is_due = self._tools.call(_tells, node.when, _rows(batch.members))
            except Exception as error:  # noqa: BLE001 - the user's program
                yield from self._close(node, "condition", error)
            else:
                if is_due:
                    yield from self._close(node, "condition")

    def _close(
        self, node: PipelineNode, trigger: Trigger, failure: Exception | None = None
    ) -> Iterator[PlanItem]:
        """Yield what becomes of a batch; one whose condition has failed fails with it, uncalled."""
        batch = self._open[node.name]
        self._open[node.name] = OpenBatch(node.name, batch.number + 1, self._run_id)
        step = NodeStep(self._run_id, token_name(batch.batch_id, 0), 0, self._tools)
        output: Any = None
        content = error = None
        started_us = self._tools.now_us()
        try:
            if failure is not None:
                raise failure  # noqa: TRY301 - as if the node had raised it
            rows = _rows(batch.members)
            takes_step = node.name in self._graph.takes_step
            arguments = (rows, step) if takes_step else (rows,)
            output, content = self._tools.call(_call_and_canonicalize, node.function, arguments)
        except Exception as raised:  # noqa: BLE001 - a node is the user's program
            self._tools.note_failure(node.name, raised)
            error = error_content(raised)
        took_us = max(0, self._tools.now_us() - started_us)
        yield BatchClosed(
            batch.batch_id,
            node.name,
            tuple(batch.members),
            trigger,
            content,
            error,
            tuple(step.calls),
            took_us,
        )
        if content is not None:
            walk = RowWalk(self._graph, self._tools, self._run_id, batch.batch_id)
            events = walk.of_batch(node, output)
            yield from self.take(
                WalkedWay(batch.batch_id, batch.members[0].row_id, content, events)
            )


def _rows(members: Sequence[BatchMember]) -> list[Any]:
    return [restore_value(member.data) for member in members]


def _tells(when: Callable[[Sequence[Any]], bool], rows: Sequence[Any]) -> bool:
    return bool(when(rows))


def _call_and_canonicalize(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, Canonical]:
    output = function(*arguments)
    if output is None or (isinstance(output, list | tuple) and not output):
        raise ValueError("an aggregation returns a row, or several")
    return output, Canonical(typed_data(output))
