"""Counts once a second what charts show, and keeps it beside the record every fifteen seconds.

Theory of operation:

1. A commit adds to what this second has come to: which requests ended, and how long it took.
2. At the end of each second that is a sample. The gateway that leads also samples the queues.
3. A block of seconds that is full is written, and with it the blocks of minutes and of half hours
   that those belong to. Each gateway writes blocks of its own part, whose number is that of its
   first shard.
4. A second in which nobody counted stays a gap: a crash loses the block that was not full.

Nobody waits for any of this. Blocks go with the next commit; those that cannot be written are
dropped (decision workers/0530).
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import anyio
import anyio.to_thread
import structlog

from actors.commit.chart_units import ChartsKept, KeepChartsUnit
from actors.commit.group_committer import CommittedTransaction
from actors.errors import ActorError
from actors.sharding.held_shards import HeldShards, SessionLease
from actors.supervision import WakeSignal
from kernel.ledger.chart_blocks import (
    HALF_HOURS,
    MINUTES,
    SECONDS,
    ChartBlock,
    ChartResolution,
    blocks_between,
)
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.outbox import COMPLETED, DEAD_LETTER
from kernel.values.errors import KernelError, LedgerUnavailable
from queues.errors import QueueError
from queues.queue.queue_view import depths_by_name
from queues.queue.work_queue import WorkQueue
from workers.use_cases.authority_sweeps import FencedWrite
from workers.views.chart_samples import GAP, PackedBlock, SampleBlock, Series, combine

LEADER: Final = "charts"
"""The name whose shard says which gateway samples the queues."""

SAMPLED_AFTER_S: Final = 0.02
"""How long after the end of a second its sample is taken, so that no second is left out."""

UNWRITTEN_MAX: Final = 4
DURATIONS_MAX: Final = 1024
"""Commits of a second whose durations are compared."""

_US: Final = 1_000_000
_ENDED_AS: Final = {COMPLETED: "done", DEAD_LETTER: "failed"}

_log = structlog.get_logger(__name__)


class CommitSamples:
    """Counts what the commits of the present second have come to."""

    def __init__(self) -> None:
        self._ended: Counter[tuple[str, int]] = Counter()
        self._durations: list[float] = []
        self._commits = 0

    def note_transaction(self, batch: CommittedTransaction) -> None:
        """Take note of a transaction that has ended; those that keep charts do not count."""
        results = batch.results
        if not batch.durable or (len(results) == 1 and results[0] is ChartsKept.KEPT):
            return
        self._commits += 1
        if len(self._durations) < DURATIONS_MAX:
            self._durations.append(batch.seconds)
        if batch.ended:
            self._ended.update(batch.ended)

    def take(self, queues: Iterable[str]) -> dict[Series, int]:
        """Return the sample of the second, and begin with the next one."""
        values = {(measure, queue): 0 for queue in queues for measure in _ENDED_AS.values()}
        for (queue, state), count in self._ended.items():
            if (measure := _ENDED_AS.get(state)) is not None:
                values[measure, queue] = count
        values["commits", ""] = self._commits
        if durations := sorted(self._durations):
            for measure, share in (("commit_median", 0.5), ("commit_p95", 0.95)):
                place = min(int(len(durations) * share), len(durations) - 1)
                values[measure, ""] = round(durations[place] * _US)
        self._ended.clear()
        self._durations.clear()
        self._commits = 0
        return values


class ChartSampling:
    """Samples what this gateway commits, and the queues where it leads."""

    def __init__(
        self,
        ledger: Ledger,
        write: FencedWrite,
        commits: CommitSamples,
        queues: Mapping[str, WorkQueue],
        held_shards: HeldShards,
        version: str,
    ) -> None:
        """Sample from the start of `run` on."""
        self._ledger = ledger
        self._write = write
        self._commits = commits
        self._queues = queues
        self._held_shards = held_shards
        self._lead = SessionLease(held_shards, LEADER)
        self._version = version
        self._running_since_s = 0
        self._block: SampleBlock | None = None
        self._minute: list[SampleBlock] = []
        """The blocks of the minute whose last one is the newest that was full."""

        self._coarser: dict[ChartResolution, SampleBlock] = {}
        self._unwritten: deque[SampleBlock] = deque(maxlen=UNWRITTEN_MAX)
        self._full = WakeSignal()

    async def run(self) -> None:
        """Sample until cancelled."""
        self._running_since_s = self._ledger.host.now_us() // _US
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_full)
            while True:
                into_second_us = self._ledger.host.now_us() % _US
                await anyio.sleep(1 - into_second_us / _US + SAMPLED_AFTER_S)
                await self.sample(self._ledger.host.now_us() // _US - 1)

    async def sample(self, time_s: int) -> None:
        """Take the sample of a second that has just ended."""
        values = self._commits.take(self._queues)
        if self._lead.fence is not None:
            values |= await self._of_queues()
        block = self._block
        if block is None or time_s >= block.began_s + SECONDS.block_s:
            if block is not None:
                self._unwritten.append(block)
                self._full.set()
            block = self._block = self._new_block(SECONDS, time_s)
        # A clock that is put back waits for the time that was sampled already.
        if time_s >= block.began_s:
            block.put(time_s, values)

    async def _of_queues(self) -> dict[Series, int]:
        try:
            depths = await depths_by_name(self._queues)
        except QueueError:
            return {}
        values: dict[Series, int] = {}
        for name, depth in depths.items():
            values["ready", name] = sum(depth.ready.values())
            values["age", name] = max(depth.oldest_eligible_age_ms.values())
        return values

    async def keep(self) -> None:
        """Write the blocks that are full."""
        while self._unwritten:
            block, held = self._unwritten.popleft(), self._held_shards.held
            try:
                if held:
                    await self._keep_block(block, min(held))
            except (ActorError, KernelError, LedgerUnavailable) as error:
                _log.info("charts_not_kept", code=getattr(error, "code", "internal"))

    async def _keep_full(self) -> None:
        while True:
            await self._full.wait()
            await self.keep()

    async def _keep_block(self, block: SampleBlock, part: int) -> None:
        blocks = await anyio.to_thread.run_sync(
            self._ledger.read, lambda view: self._blocks(view, block, part)
        )
        await self._write(KeepChartsUnit(blocks))

    def _blocks(self, view: LedgerView, block: SampleBlock, part: int) -> list[ChartBlock]:
        """Return a block that is full, with what was open at its end, and its block of minutes."""
        if self._lead.fence is not None:
            seconds = block.series["commits", ""]
            for name in tuple(self._queues):
                count = view.count_open_requests(name)
                block.series["open", name] = [GAP if each == GAP else count for each in seconds]
        return [
            ChartBlock(each.resolution.sample_s, part, each.began_s, each.to_bytes())
            for each in (block, *self._take_in(view, block, part))
        ]

    def _take_in(self, view: LedgerView, block: SampleBlock, part: int) -> list[SampleBlock]:
        """Put a block into those of minutes and of half hours, as far as theirs are known."""
        minute_s = block.began_s - block.began_s % MINUTES.sample_s
        if not self._coarser:
            # The process may have begun within a minute that another one has counted in part.
            self._minute = _kept_blocks(view, SECONDS, part, minute_s, block.began_s)
        self._minute = [each for each in self._minute if each.began_s >= minute_s] + [block]
        of_minute = defaultdict[Series, list[int]](list)
        for each in self._minute:
            for key, samples in each.series.items():
                of_minute[key].extend(samples)
        minutes = self._combine_into(view, MINUTES, part, minute_s, of_minute)
        half_hour_s = minute_s - minute_s % HALF_HOURS.sample_s
        first = (half_hour_s - minutes.began_s) // MINUTES.sample_s
        count = HALF_HOURS.sample_s // MINUTES.sample_s
        of_half_hour = {
            key: samples[first : first + count] for key, samples in minutes.series.items()
        }
        return [minutes, self._combine_into(view, HALF_HOURS, part, half_hour_s, of_half_hour)]

    def _combine_into(
        self,
        view: LedgerView,
        resolution: ChartResolution,
        part: int,
        time_s: int,
        of_series: Mapping[Series, Sequence[int]],
    ) -> SampleBlock:
        """Make a sample of what is known of its time, and return the block that it lies in."""
        block = self._coarser.get(resolution)
        if block is None:
            kept = _kept_blocks(view, resolution, part, time_s, time_s + 1)
            block = kept[0] if kept else None
        if block is None or resolution.start_of(time_s) != block.began_s:
            block = self._new_block(resolution, time_s)
        self._coarser[resolution] = block
        block.running_since_s, block.version = self._running_since_s, self._version
        block.put(time_s, {key: combine(key[0], values) for key, values in of_series.items()})
        return block

    def _new_block(self, resolution: ChartResolution, time_s: int) -> SampleBlock:
        return SampleBlock(
            resolution, resolution.start_of(time_s), self._running_since_s, self._version
        )


def _kept_blocks(
    view: LedgerView, resolution: ChartResolution, part: int, first_s: int, end_s: int
) -> list[SampleBlock]:
    """Return the blocks of a part that are kept of a time."""
    return [
        PackedBlock(resolution, block.began_s, block.samples).to_block()
        for block in blocks_between(view, resolution, first_s, end_s)
        if block.part == part
    ]
