"""Runs a pipeline: rows are walked at once and recorded in their order (seed 003, ruling L1).

The run goes in commits. Each is one transaction, in which the record takes

1. what the sinks have written since the one before, and so the outcomes of those tokens;
2. what happened to the rows that were walked, in the order of the source, and what batches became;
3. the next rows of the source, before anybody begins with them;
4. what the sinks are going to write now, and where;
5. a checkpoint, whose number no other process can record.

When it is durable, the sinks write. A process that is killed leaves a whole number of commits: the
next one gives the sinks the writes of the last commit again, and walks its rows (decision
kernel/0470). So each row is recorded once, and outputs and lineage are those of a run that nobody
disturbed, as far as the functions return the same.

If checkpoints follow aggregations alone, the record takes the next rows by themselves, and what
happened to rows stays in memory until a batch closes (decision actors/0110).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import anyio.to_thread

from actors.errors import PipelineSourceDiffers, PipelineStopped
from kernel.landscape.canonical_types import restore_value
from kernel.landscape.open_work import count_failed_tokens
from kernel.landscape.recorder import Recorder
from kernel.landscape.run_checkpoints import reopen_run
from kernel.ledger.ledger import Ledger
from kernel.values.foreign_code import call_foreign, cause_of, message_of
from workers.pipelines.engine.batches import BatchClosed, Batches, PlanItem, WalkedWay
from workers.pipelines.engine.events import WalkEvent
from workers.pipelines.engine.graph import PipelineGraph
from workers.pipelines.engine.node_attempts import token_name
from workers.pipelines.engine.pipeline import COMMIT_ROWS_MAX, Pipeline
from workers.pipelines.engine.resume import RunState, recorded_state
from workers.pipelines.engine.run_records import RunRecords, SinkWrite, row_name
from workers.pipelines.engine.sinks import PipelineSink, SinkItem, SinkWritten
from workers.pipelines.engine.source_rows import SourceRow, SourceRows
from workers.pipelines.engine.step import WalkTools
from workers.pipelines.engine.walks import Walks

RunStatus = Literal["completed", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended, how many rows it did, and how many of its tokens failed."""

    run_id: str
    status: RunStatus
    rows: int
    failed: int = 0
    """Tokens that ended with an error and in no sink."""


@dataclass(frozen=True, slots=True)
class _Confirmed:
    write: SinkWrite
    written: SinkWritten
    duration_us: int


class PipelineRun:
    """One run of a pipeline; `begin` or `resume` it, then `run` it."""

    def __init__(self, pipeline: Pipeline, ledger: Ledger, tools: WalkTools, walks: Walks) -> None:
        self._pipeline = pipeline
        self._graph: PipelineGraph = pipeline.graph
        self._ledger = ledger
        self._tools = tools
        self._walks = walks
        self._recorder = Recorder(ledger)
        self._planned: list[PlanItem] = []
        self._planned_rows = 0
        self._confirmed: list[_Confirmed] = []
        self._failure: BaseException | None = None

    def begin(self, run_id: str, config: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Record that a run begins under a configuration, with its first rows.

        Raises:
            LandscapeRefused: `landscape_conflict` where there is a run of this id.
            PipelineStopped: the source raised; nothing was recorded.
        """
        self._state = RunState(run_id)
        self._open()
        rows = self._read()
        if self._failure is not None:
            raise self._stop_error("nothing was recorded")
        with self._records.commit():
            stated = {"pipeline": self._pipeline.name, **config}
            self._state.source_operation = self._records.begin(stated)
            self._record_rows(rows)
            self._checkpoint()
        self._records.flush()
        self._state.waiting = rows

    def resume(self, run_id: str) -> None:
        """Go on with a run where its record ends.

        Raises:
            LandscapeRefused: see `recorded_state`.
            PipelineSourceDiffers: the source gives other rows than are on record.
        """
        self._state = self._ledger.read(partial(recorded_state, run_id=run_id, graph=self._graph))
        self._open()
        reopen_run(self._ledger, run_id)
        self._records.edge_ids = self._state.edge_ids
        self._write(self._state.writes)

    async def run(self, is_stopped: Callable[[], bool] = lambda: False) -> RunEnd:
        """Run to the end, or until a stop is asked for, which is looked for between commits.

        Raises:
            PipelineStopped: the source or a sink raised; what was done is recorded, and the run
                has failed, from where it may be resumed.
            LandscapeRefused: `landscape_conflict` where another process goes on with the run.
        """
        while not self._state.is_settled and self._failure is None and not is_stopped():
            rows = self._state.waiting[: self._pipeline.rows_at_once]
            walked = await self._walks.walk(self._state.run_id, rows)
            await anyio.to_thread.run_sync(self._advance, rows, walked)
        return await anyio.to_thread.run_sync(self._end)

    def _open(self) -> None:
        state = self._state
        self._records = RunRecords(self._recorder, self._graph, state.run_id)
        self._batches = Batches(self._graph, self._tools, state.run_id, state.batches)
        self._source = SourceRows(
            self._graph.source, state.run_id, state.rows_read, self._tools.call
        )
        self._source.has_ended = state.source_ended
        self._began_us = self._tools.now_us()
        try:
            call_foreign(self._source.open, self._ledger)
        except PipelineSourceDiffers:
            raise
        except Exception as error:  # noqa: BLE001 - a source is the user's program
            self._failure = error

    def _advance(self, rows: Sequence[SourceRow], walked: Sequence[Sequence[WalkEvent]]) -> None:
        """Plan what happened to rows, record it if a commit is due, and leave the next rows."""
        state, is_last = self._state, not rows and self._source.has_ended
        plan = [
            item
            for row, events in zip(rows, walked, strict=True)
            for item in self._batches.take(WalkedWay(row.row_id, row.row_id, row.content, events))
        ]
        if is_last:
            plan += self._batches.close_all()
        self._planned += plan
        self._planned_rows += len(rows)
        waiting = state.waiting[len(rows) :]
        next_rows = [] if waiting else self._read()
        if is_last or self._is_due(plan):
            self._commit(next_rows, is_last=is_last)
        elif next_rows:
            with self._records.commit():
                self._record_rows(next_rows)
            self._records.flush()
        state.waiting = waiting or next_rows

    def _is_due(self, plan: Sequence[PlanItem]) -> bool:
        """Tell whether a checkpoint follows what was planned last."""
        return (
            self._pipeline.commit_rows > 0
            or self._planned_rows >= COMMIT_ROWS_MAX
            or any(isinstance(item, BatchClosed) for item in plan)
        )

    def _commit(self, next_rows: Sequence[SourceRow], *, is_last: bool) -> None:
        """Record what is planned with a checkpoint, and let the sinks write."""
        state = self._state
        with self._records.commit():
            self._record_confirmed()
            self._records.plan(self._planned)
            state.rows_done += self._planned_rows
            self._record_rows(next_rows)
            writes = self._records.sink_writes(state.positions)
            state.is_settled = is_last and not writes
            self._checkpoint()
        self._records.flush()
        self._confirmed, self._planned, self._planned_rows = [], [], 0
        self._write(writes)

    def _read(self) -> list[SourceRow]:
        if self._failure is not None:
            return []
        try:
            return call_foreign(self._source.read, self._pipeline.rows_at_once)
        except Exception as error:  # noqa: BLE001 - a source is the user's program
            self._failure = error
            return []

    def _record_rows(self, rows: Sequence[SourceRow]) -> None:
        state = self._state
        for row in rows:
            self._records.row(row.index, row.content)
        state.rows_read += len(rows)
        if self._source.has_ended and not state.source_ended:
            state.source_ended = True
            took_us = max(0, self._tools.now_us() - self._began_us)
            self._records.end_source(state.source_operation, state.rows_read, took_us)

    def _record_confirmed(self) -> None:
        for each in self._confirmed:
            self._records.record_write(each.write, each.written, each.duration_us)

    def _checkpoint(self) -> None:
        state = self._state
        if not state.rows_read:
            # A checkpoint names a token, and there is none (decision actors/0105).
            return
        state.commit_number += 1
        newest = token_name(row_name(state.run_id, state.rows_read - 1), 0)
        stated = state.checkpoint_body(self._batches.numbers)
        self._records.checkpoint(state.commit_number, newest, stated)

    def _write(self, writes: Sequence[SinkWrite]) -> None:
        """Let the sinks write; what one has not written stays open on the record."""
        for write in writes:
            sink = self._graph.by_name[write.sink].function
            items = [SinkItem(each.token_id, restore_value(each.data)) for each in write.arrivals]
            started_us = self._tools.now_us()
            try:
                written = self._tools.call(_write_sink, sink, items, write.position)
            except Exception as error:  # noqa: BLE001 - a sink is the user's program
                self._failure = self._failure or error
                return
            took_us = max(0, self._tools.now_us() - started_us)
            self._confirmed.append(_Confirmed(write, written, took_us))
            self._state.positions[write.sink] = written.position

    def _end(self) -> RunEnd:
        if self._confirmed:
            with self._records.commit():
                self._record_confirmed()
                self._checkpoint()
            self._records.flush()
        status: RunStatus = "interrupted"
        if self._failure is not None:
            status = "failed"
        elif self._state.is_settled:
            status = "completed"
        self._recorder.complete_run(self._state.run_id, status)
        if self._failure is not None:
            raise self._stop_error(f"`rotulus pipeline resume {self._state.run_id}` goes on")
        failed = self._ledger.read(partial(count_failed_tokens, run_id=self._state.run_id))
        return RunEnd(self._state.run_id, status, self._state.rows_done, failed)

    def _stop_error(self, what_now: str) -> PipelineStopped:
        assert self._failure is not None  # noqa: S101 - for the types
        error = cause_of(self._failure)
        problem = f"{type(error).__name__}: {message_of(error)}"
        stopped = PipelineStopped(f"{problem}; {what_now}")
        stopped.__cause__ = error
        return stopped


def _write_sink(sink: PipelineSink, items: Sequence[SinkItem], position: int) -> SinkWritten:
    """Let a sink write, and return what it says of that once it is of the right form."""
    written: object = sink.write(items, position)
    if not isinstance(written, SinkWritten) or not _is_place(written.position):
        raise TypeError(f"a sink returns a SinkWritten with a position, not {written!r}")
    return written


def _is_place(position: object) -> bool:
    return isinstance(position, int) and not isinstance(position, bool) and position >= 0
