"""Defines sinks, where rows leave a pipeline: what one is given, and what it promises.

The writes of a run are on its record first, with the place in the sink; then the sink writes; then
the record says that it is written. A process that is killed in between leaves a write that is not
recorded as done, and the next one gives the sink the same items at the same place. So a sink writes
twice what it may have written before, and that is to change nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class SinkItem:
    """A row that came to a sink, and the token that it is there."""

    token_id: str
    row: Any


@dataclass(frozen=True, slots=True)
class SinkWritten:
    """Where a sink stands after a write, and what it has made, where that can be named."""

    position: int
    path: str | None = None
    content_hash: str | None = None
    """The SHA-256 of what this write wrote, in hex."""

    size_bytes: int = 0


class PipelineSink(Protocol):
    """Writes what comes to it; one process does, one write after another."""

    def write(self, items: Sequence[SinkItem], position: int) -> SinkWritten:
        """Write items behind a position, durably, in place of whatever is there.

        The position is 0 at first, then what the write before returned. The same items may be given
        for the same position again, with nothing recorded of what came of the first time.
        """


@dataclass(frozen=True, slots=True)
class FunctionSink:
    """A function of a row and its token's id, called for each item; known by the id, it repeats."""

    function: Callable[[Any, str], object]

    def write(self, items: Sequence[SinkItem], position: int) -> SinkWritten:
        """Call the function for each item."""
        for item in items:
            self.function(item.row, item.token_id)
        return SinkWritten(position + len(items))
