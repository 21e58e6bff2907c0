"""Calls a node of a user's pipeline, a function (seed 003, ruling L1)."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from actors.errors import PipelineInvalid
from kernel.values.canonical import sha256_hex

NodeType = Literal["source", "transform", "gate", "aggregation", "coalesce", "sink"]

ATTEMPTS_MAX = 20
PAUSE_S_MAX = 60.0
BATCH_ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class NodePort:
    """A way out of a node: of a gate by its label, of every other node without."""

    node: str
    label: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PipelineNode:
    """A function with its place in the graph; calling it calls the function.

    `gate["label"]` is the way out that a gate calls so.
    """

    name: str
    node_type: NodeType
    function: Any
    after: tuple[NodePort, ...] = ()
    attempts: int = 1
    """How often a transform or a gate is called for one token before the token fails."""

    pause_s: float = 0.1
    """Between the first two attempts; each further pause is twice as long, 60 s at most."""

    on_error: str | None = None
    """The sink for what fails here; without one it has no more than its outcome."""

    count: int | None = None
    """Tokens of which a batch consists; without it one batch takes all, up to 10,000."""

    when: Callable[[Sequence[Any]], bool] | None = None
    """Closes a batch earlier, by its rows."""

    schema: Any = None
    """A pydantic model by which the rows of a source are validated and typed."""

    needs_all: bool = True
    """Whether a join needs a token of each of its predecessors."""

    determinism: str = "deterministic"
    version: str = "1"
    config: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.function(*arguments)

    def __getitem__(self, label: str) -> NodePort:
        """Return the way out of a gate that has this label."""
        return NodePort(self.name, label)

    @property
    def takes_step(self) -> bool:
        """Tell whether the function takes a second argument, its `NodeStep`."""
        return parameters_of(self.function) > 1

    def configuration(self) -> dict[str, Any]:
        """Return what a run records of its configuration."""
        return {
            "attempts": self.attempts,
            "pause_s": self.pause_s,
            "on_error": self.on_error,
            "count": self.count,
            "when": None if self.when is None else version_of(self.when),
            "needs_all": self.needs_all,
            "after": [[port.node, port.label] for port in self.after],
            **self.config,
        }


def parameters_of(function: Any) -> int:
    """Return how many arguments a function takes by position, at most.

    Raises:
        PipelineInvalid: it cannot be called, or it is a coroutine function.
    """
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise PipelineInvalid(f"{function!r} is no plain function; nodes are called on threads")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in by_position for parameter in parameters)


def version_of(function: Any) -> str:
    """Return the version of a function: the hash of its text, 1 where there is none to be read."""
    try:
        text = inspect.getsource(function if inspect.isroutine(function) else type(function))
    except (OSError, TypeError):
        return "1"
    return sha256_hex(text.encode())[:16]
