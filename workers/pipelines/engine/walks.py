"""Walks rows on threads of this process; a fleet does the same over a queue."""

import threading
from collections.abc import Sequence
from typing import Protocol

import anyio
import anyio.to_thread

from workers.pipelines.engine.events import WalkEvent
from workers.pipelines.engine.graph import PipelineGraph
from workers.pipelines.engine.source_rows import SourceRow
from workers.pipelines.engine.step import WalkTools
from workers.pipelines.engine.walk import RowWalk


class Walks(Protocol):
    """Walks rows, several at once."""

    async def walk(self, run_id: str, rows: Sequence[SourceRow]) -> list[Sequence[WalkEvent]]:
        """Return what happened to each row, in their order."""


class LocalWalks:
    """Walks rows on threads of this process."""

    def __init__(self, graph: PipelineGraph, tools: WalkTools, concurrency: int) -> None:
        self._graph = graph
        self._tools = tools
        self._limiter = anyio.CapacityLimiter(concurrency)
        self._concurrency = concurrency

    async def walk(self, run_id: str, rows: Sequence[SourceRow]) -> list[Sequence[WalkEvent]]:
        """Return what happened to each row; each thread takes the next row when it has done one."""
        walked: dict[int, Sequence[WalkEvent]] = {}
        waiting, lock = iter(rows), threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    row = next(waiting, None)
                if row is None:
                    return
                walk = RowWalk(self._graph, self._tools, run_id, row.row_id)
                walked[row.index] = walk.of_row(row.content)

        async with anyio.create_task_group() as tasks:
            for _ in range(min(self._concurrency, len(rows))):
                tasks.start_soon(lambda: anyio.to_thread.run_sync(work, limiter=self._limiter))
        return [walked[row.index] for row in rows]
