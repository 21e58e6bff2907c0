"""Declares a user's pipeline: functions with a place in a graph."""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, overload

from actors.errors import PipelineInvalid
from kernel.ledger.landscape_tables import DETERMINISMS
from workers.pipelines.engine.graph import ERROR, PipelineGraph, ports_of
from workers.pipelines.engine.node import (
    ATTEMPTS_MAX,
    BATCH_ROWS_MAX,
    NodePort,
    NodeType,
    PipelineNode,
    parameters_of,
    version_of,
)
from workers.pipelines.engine.sinks import FunctionSink

COMMIT_ROWS = 64
COMMIT_ROWS_MAX = 1000
CONCURRENCY_MAX = 64

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_PIPELINE_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

_Declare = Callable[[Any], PipelineNode]


class Pipeline:
    """Collects the nodes of a pipeline, each as a decorator or as a call with a function or object.

    `after` names what a node follows; without it, it follows the node declared before. Functions
    are plain ones and are called on threads: with a row (a sink's also with the token's id, a
    gate's returns a label, an aggregation's and a join's get a list of rows), and a `NodeStep` if
    they take a further argument.
    """

    def __init__(
        self,
        name: str,
        *,
        config: Mapping[str, Any] | None = None,
        concurrency: int = 4,
        commit_rows: int = COMMIT_ROWS,
    ) -> None:
        """Declare an empty pipeline.

        Args:
            name: lower-case words with hyphens; also that of the queue on which a fleet walks rows.
            config: recorded with every run.
            concurrency: rows that are walked at once, each on a thread.
            commit_rows: rows of which the record is written together, with a checkpoint; 0: as
                many as come until an aggregation closes a batch, `COMMIT_ROWS_MAX` at most.
        """
        if not _PIPELINE_NAME.fullmatch(name) or len(name) > 64:
            raise PipelineInvalid(f"a pipeline is called by lower-case words, not {name!r}")
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise PipelineInvalid(f"concurrency is 1 to {CONCURRENCY_MAX}")
        if not 0 <= commit_rows <= COMMIT_ROWS_MAX:
            raise PipelineInvalid(f"commit_rows is 0 to {COMMIT_ROWS_MAX}")
        self.name = name
        self.config = dict(config or {})
        self.concurrency = concurrency
        self.commit_rows = commit_rows
        self.nodes: list[PipelineNode] = []
        """In the order in which they were declared."""

    @property
    def rows_at_once(self) -> int:
        """How many rows are read and walked together."""
        return self.commit_rows or COMMIT_ROWS

    @cached_property
    def graph(self) -> PipelineGraph:
        """The graph of all that was declared.

        Raises:
            PipelineInvalid: it cannot run so.
        """
        return PipelineGraph(self.nodes)

    @overload
    def source(self, function: None = None, /, **options: Any) -> _Declare: ...
    @overload
    def source(self, function: object, /, **options: Any) -> PipelineNode: ...
    def source(self, function: Any = None, /, **options: Any) -> _Declare | PipelineNode:
        """Declare where rows come from: a function that returns an iterable, the same each time.

        One that takes an argument is called with the number of rows that are on record, and begins
        behind them. Options: `schema`, `on_error`, `name`, `determinism`, `version`, `config`.
        """
        return self._declare("source", function, {"determinism": "io_read", **options})

    @overload
    def transform(self, function: None = None, /, **options: Any) -> _Declare: ...
    @overload
    def transform(self, function: object, /, **options: Any) -> PipelineNode: ...
    def transform(self, function: Any = None, /, **options: Any) -> _Declare | PipelineNode:
        """Declare what makes of a row another one, or of one several, by returning a list.

        Options: `after`, `attempts`, `pause_s`, `on_error`, `name`, `determinism`, `version`.
        """
        return self._declare("transform", function, options)

    @overload
    def gate(self, function: None = None, /, **options: Any) -> _Declare: ...
    @overload
    def gate(self, function: object, /, **options: Any) -> PipelineNode: ...
    def gate(self, function: Any = None, /, **options: Any) -> _Declare | PipelineNode:
        """Declare what returns the label of the way on which a row goes on, or a list of labels.

        Options: those of a transform.
        """
        return self._declare("gate", function, options)

    @overload
    def aggregation(self, function: None = None, /, **options: Any) -> _Declare: ...
    @overload
    def aggregation(self, function: object, /, **options: Any) -> PipelineNode: ...
    def aggregation(self, function: Any = None, /, **options: Any) -> _Declare | PipelineNode:
        """Declare what makes of a batch of rows one, or several.

        A batch closes at `count` rows, when `when(rows)` says so, and at the end of the source.
        Options: `after`, `count`, `when`, `on_error`, `name`, `determinism`, `version`, `config`.
        """
        return self._declare("aggregation", function, options)

    @overload
    def join(self, function: None = None, /, **options: Any) -> _Declare: ...
    @overload
    def join(self, function: object, /, **options: Any) -> PipelineNode: ...
    def join(self, function: Any = None, /, **options: Any) -> _Declare | PipelineNode:
        """Declare what makes one row of those that a fork sent apart.

        Options: those of a transform, and `needs_all=False` to join what came.
        """
        return self._declare("coalesce", function, options)

    @overload
    def sink(self, function: None = None, /, **options: Any) -> _Declare: ...
    @overload
    def sink(self, function: object, /, **options: Any) -> PipelineNode: ...
    def sink(self, function: Any = None, /, **options: Any) -> _Declare | PipelineNode:
        """Declare where rows go: a `PipelineSink`, or a function of a row and its token's id.

        Options: `after` (none where it only takes what failed), `name`, `determinism`, `version`.
        """
        return self._declare("sink", function, {"determinism": "io_write", **options})

    def _declare(
        self, node_type: NodeType, function: Any, options: dict[str, Any]
    ) -> _Declare | PipelineNode:
        if function is None:
            return lambda declared: self._add(node_type, declared, options)
        return self._add(node_type, function, options)

    def _add(self, node_type: NodeType, function: Any, options: dict[str, Any]) -> PipelineNode:
        options = dict(options)
        name = options.pop("name", None) or getattr(function, "__name__", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == ERROR:
            raise PipelineInvalid(f"a node is called by a name such as parse, not {name!r}")
        after = self._after(name, node_type, options.pop("after", None))
        options.setdefault("version", getattr(function, "version", None) or version_of(function))
        options.setdefault("config", dict(getattr(function, "config", {})))
        if node_type == "sink" and not hasattr(function, "write"):
            if parameters_of(function) != 2:
                raise PipelineInvalid(f"{name}: a sink takes a row and the id of its token")
            function = FunctionSink(function)
        try:
            node = PipelineNode(name, node_type, function, after, **options)
        except TypeError as error:
            raise PipelineInvalid(f"{name}: {error}") from None
        _check(node)
        self.nodes.append(node)
        self.__dict__.pop("graph", None)
        return node

    def _after(self, name: str, node_type: NodeType, after: Any) -> tuple[NodePort, ...]:
        """Return what a node follows: what is stated, else the node declared before.

        Nothing where there is none, where that is a sink or a gate, and where the node is the sink
        for what fails at a node above.
        """
        if after is not None:
            return ports_of(after)
        if not self.nodes or node_type == "source" or name in {n.on_error for n in self.nodes}:
            return ()
        before = self.nodes[-1]
        return () if before.node_type in ("sink", "gate") else (NodePort(before.name),)


def _check(node: PipelineNode) -> None:
    problems = {
        "after": node.node_type == "source" and node.after,
        "determinism": node.determinism not in DETERMINISMS,
        "attempts": not 1 <= node.attempts <= ATTEMPTS_MAX,
        "pause_s": not node.pause_s >= 0,
        "count": not 1 <= (node.count or 1) <= BATCH_ROWS_MAX,
        "when": node.when is not None and not callable(node.when),
        "schema": node.schema is not None and not hasattr(node.schema, "model_validate"),
    }
    for option, is_wrong in problems.items():
        if is_wrong:
            raise PipelineInvalid(f"{node.name}: {option} is {getattr(node, option)!r}")
    if node.node_type != "sink":
        parameters_of(node.function)
