"""Runs drain slots in a worker process, kept running by arq (decision workers/0002).

This module is the only one that knows arq. Its keys lie in a room of our own behind the prefix of
the settings, under one hash tag (`ArqRoom`). A job is a slot (`drain_slots.py`), not an item, so
an item costs no arq job and is picked up in milliseconds. arq's own queue is private to the process
and holds slots alone; it may be lost with the rest of Redis, and missing slots are started again
within a second. It is looked at only while a slot is missing.

A stop lets every slot finish the batch that it holds. A batch that is not finished within 0.6 s is
given back, untried and due at once, so that others serve it before its visibility ends; only then
are the jobs that hold it ended, which may not listen.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import orjson
import structlog
from arq.connections import ArqRedis
from arq.utils import poll
from arq.worker import Worker, func
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from queues.errors import QueueError
from queues.fleet.worker_heartbeats import Heartbeats, WorkerBeat
from queues.leases.capacity_leases import CapacityLeases
from queues.redis.dropped import DROPPED, KINDS_MAX, count_dropped
from queues.redis.keys import prefix_of
from queues.redis.watch import RedisWatch
from workers.telemetry.http_metrics import SpanTally
from workers.worker.absence import Absence
from workers.worker.batches import BatchProcessor
from workers.worker.cron import CronRunner
from workers.worker.drain_slots import DrainSlots
from workers.worker.metrics import WorkerMetrics

BEAT_EVERY_S = 4.0
BEAT_TTL_MS = 12_000
SLOT_TURN_S = 600.0
ARQ_POLL_S = 0.2
"""Pause between looks for missing slots; a look sends nothing while every slot runs."""

KEEP_EVERY_S = 1.0
TICK_EVERY_S = 1.0
RECONNECT_PAUSE_S = 0.5
RECONNECT_PAUSE_MAX_S = 1.0
FINISH_S = 0.6
"""How long a stop waits for the batches in hand; a supervisor kills after one second."""

GIVE_BACK_S = 0.3
JOB = "drain_slot"
ROOM = "arq"
ARQ_KEYS = "arq:"
NO_SLOT = -1

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WorkerProcess:
    """The slots of one process; `run` returns after `stop`, when every batch is finished."""

    redis: Redis
    watch: RedisWatch
    processors: Mapping[str, BatchProcessor]
    """The drainers by the name of their queue."""

    leases: CapacityLeases
    heartbeats: Heartbeats
    slots: int
    lease_slots: int
    worker_id: str
    pid: int
    crons: CronRunner | None = None
    host: str = ""
    version: str = ""
    spans: SpanTally | None = None
    now_s: Callable[[], float] = time.time
    """Seconds since the epoch, by which the fleet parts the periods of its crons."""

    clock_s: Callable[[], float] = time.monotonic
    metrics: WorkerMetrics = field(init=False)
    _stopping: anyio.Event = field(default_factory=anyio.Event)
    _drained: anyio.Event = field(default_factory=anyio.Event)
    _running: set[int] = field(default_factory=set)
    _turn: int = 0
    _waits: bool = False
    """Whether the last try to work ended for Redis."""

    _begun: int = 0
    _started_at_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    _slots: DrainSlots = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = WorkerMetrics(
            self.processors, self.slots, self.spans, lambda: not (self.watch.problem or self._waits)
        )
        self._slots = DrainSlots(
            self.processors, self.leases, self.lease_slots, self._stopping, self.metrics
        )

    def stop(self) -> None:
        """Ask every slot to finish what it holds and end."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped; a Redis that goes away is waited for."""
        absence = Absence("worker_waits_for_redis", RECONNECT_PAUSE_S, RECONNECT_PAUSE_MAX_S)
        while not self._stopping.is_set():
            began_s, away = self.clock_s(), ""
            try:
                await self._run_arq()
            except* (RedisError, QueueError, OSError) as errors:
                away = repr(errors.exceptions[0])
            except* ArqStumbled as errors:
                _log.warning("worker_begins_anew", error=str(errors.exceptions[0]))
            except* Exception as errors:  # noqa: BLE001 - a worker goes on
                _log.exception("worker_begins_anew", error=repr(errors.exceptions[0]))
            now_s, self._waits = self.clock_s(), bool(away)
            if now_s - began_s > RECONNECT_PAUSE_MAX_S:
                absence.note_end()
            if away:
                absence.note_failure(now_s, away)
            else:
                absence.pause(now_s)
            with anyio.move_on_after(absence.try_at_s - now_s):
                await self._stopping.wait()

    async def _run_arq(self) -> None:
        # Another queue each time, so that nothing of the last one comes back.
        self._begun += 1
        queue_name = f"{prefix_of(self.redis, ROOM)}queue:{self.worker_id}:{self._begun}"
        worker = SlotWorker(
            functions=[
                func(cast("Any", self._slot), name=JOB, timeout=SLOT_TURN_S * 2, max_tries=1)
            ],
            queue_name=queue_name,
            redis_pool=RedisOfArq(
                prefix_of(self.redis, ROOM),
                self.redis.connection_pool,
                job_serializer=_write_job,
                job_deserializer=_read_job,
                default_queue_name=queue_name,
            ),
            handle_signals=False,
            max_jobs=self.slots + 1,
            poll_delay=ARQ_POLL_S,
            keep_result=0,
            job_serializer=_write_job,
            job_deserializer=_read_job,
            ctx={},
        )
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._beat)
                tasks.start_soon(self._keep_slots, worker)
                for bell, queue, least_urgent in self._slots.listeners():
                    tasks.start_soon(bell.listen, queue, least_urgent)
                tasks.start_soon(_run_until_it_stumbles, worker)
                tasks.start_soon(self._tick)
                tasks.start_soon(self._note_that_it_works)
                await self._stopping.wait()
                if self._running:
                    with anyio.move_on_after(FINISH_S):
                        await self._drained.wait()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(GIVE_BACK_S), contextlib.suppress(QueueError, RedisError):
                    await self._slots.give_back()
                    await self.heartbeats.leave(self.worker_id)
                await _end(worker.tasks.values())
                with anyio.move_on_after(GIVE_BACK_S), contextlib.suppress(QueueError, RedisError):
                    await self.redis.delete(queue_name)

    async def _keep_slots(self, worker: Worker) -> None:
        """Start the slots that do not run, again and again; the last serves critical work alone."""
        while True:
            missing = set(range(self.slots + 1)) - self._running
            worker.allow_pick_jobs = bool(missing)
            for slot in sorted(missing):
                self._turn += 1
                job_id = f"{self.worker_id}:{slot}:{self._turn}"
                await worker.pool.enqueue_job(JOB, slot, _job_id=job_id)
            await anyio.sleep(KEEP_EVERY_S)

    async def _note_that_it_works(self) -> None:
        await anyio.sleep(KEEP_EVERY_S)
        self._waits = False

    async def _beat(self) -> None:
        while True:
            tallies = [processor.tally for processor in self.processors.values()]
            beat = WorkerBeat(
                worker_id=self.worker_id,
                pid=self.pid,
                queues=tuple(self.processors),
                slots=self.slots,
                started_at_ms=self._started_at_ms,
                completed=sum(tally.completed for tally in tallies),
                failed=sum(tally.failed for tally in tallies),
                in_flight=sum(tally.in_flight for tally in tallies),
                version=self.version,
                host=self.host,
                last_error=next((tally.last_error for tally in tallies if tally.last_error), ""),
                dropped=dict(DROPPED.most_common(KINDS_MAX)),
            )
            await self.heartbeats.beat(beat, BEAT_TTL_MS)
            await anyio.sleep(BEAT_EVERY_S)

    async def _tick(self) -> None:
        """Run the crons that are due; every worker asks, and one of them runs each."""
        while self.crons is not None:
            try:
                await self.crons.tick(self.now_s())
            except Exception:  # noqa: BLE001 - a defect of one cron is not its worker's end
                _log.exception("cron_defect")
            await anyio.sleep(TICK_EVERY_S)

    async def _slot(self, _: dict[str, Any], slot: int) -> None:
        """Drain for a turn; what arq sees is a job that never fails."""
        # A job is read from Redis: it may name anything.
        if slot not in range(self.slots + 1) or slot in self._running:
            return
        self._running.add(slot)
        try:
            holder, last = f"{self.worker_id}/{slot}", slot == self.slots
            await self._slots.drain(holder, SLOT_TURN_S, critical_alone=last)
        except* (RedisError, QueueError, OSError) as errors:
            # It is `run` that waits for Redis, and `_keep_slots` that starts the slot again.
            _log.info("slot_ends", slot=slot, error=repr(errors.exceptions[0]))
        finally:
            self._running.discard(slot)
            if self._stopping.is_set() and not self._running:
                self._drained.set()


class ArqStumbled(Exception):
    """Raised when arq cannot go on with what it read under its keys, where anybody may write."""


class SlotWorker(Worker):
    """A worker of arq that asks the server nothing about itself: few users may (INFO)."""

    async def main(self) -> None:
        """Look for slots until cancelled."""
        self.ctx["redis"] = self.pool
        async for _ in poll(self.poll_delay_s):
            await self._poll_iteration()


class ArqRoom:
    """A part of a client: the keys of arq are in a room, and not at the top of the database.

    All of them begin with `arq:`, and nothing else that arq sends does.
    """

    room = ""

    def execute_command(self, *arguments: Any, **options: Any) -> Any:
        """Send a command of arq's."""
        placed = (
            self.room + word.removeprefix(ARQ_KEYS)
            if isinstance(word, str) and word.startswith(ARQ_KEYS)
            else word
            for word in arguments
        )
        return super().execute_command(*placed, **options)  # type: ignore[misc]


class PipelineOfArq(ArqRoom, Pipeline):  # type: ignore[misc]  # as redis-py has it
    """The commands that arq sends at once."""


class RedisOfArq(ArqRoom, ArqRedis):  # type: ignore[misc]  # as redis-py has it
    """The client of arq."""

    def __init__(self, room: str, *arguments: Any, **options: Any) -> None:
        self.room = room
        super().__init__(*arguments, **options)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:  # noqa: FBT001, FBT002 - redis-py's
        """Return what gathers commands."""
        pipe = PipelineOfArq(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipe.room = self.room
        return pipe


async def _run_until_it_stumbles(worker: Worker) -> None:
    try:
        await worker.async_run()
    except (RedisError, QueueError, OSError):
        raise
    except Exception as error:
        raise ArqStumbled(repr(error)) from error


async def _end(jobs: Iterable[asyncio.Task[Any]]) -> None:
    """Let arq's part of the jobs, which goes on after ours, come to its end.

    Cancelled once, arq writes down that a job did not finish; cancelled again while it does, which
    a scope would do, it leaves the write alone, to fail when Redis closes.
    """
    ended = asyncio.gather(*jobs, return_exceptions=True)
    ended.add_done_callback(lambda done: done.cancelled() or done.exception())
    _, unfinished = await asyncio.wait([ended], timeout=0.2)
    if unfinished:
        ended.cancel()
        await asyncio.wait([ended], timeout=0.5)


def _write_job(job: dict[str, Any]) -> bytes:
    """Return what arq keeps of a job; an error that ended it is kept as its text."""
    return orjson.dumps(job, default=repr)


def _read_job(value: bytes) -> dict[str, Any]:
    """Return the job that a key of arq holds; where no worker wrote it, a job of no slot."""
    try:
        job = orjson.loads(value)
    except orjson.JSONDecodeError:
        job = None
    match job:
        case {"f": str() as name, "a": [int() as slot], "et": int() as asked_at_ms} if name == JOB:
            pass
        case _:
            count_dropped("job")
            slot, asked_at_ms = NO_SLOT, 0
    return {"f": JOB, "a": [slot], "k": {}, "t": None, "et": asked_at_ms}


def new_worker_id() -> str:
    """Return a name that no other worker has."""
    return f"worker-{secrets.token_hex(4)}"
