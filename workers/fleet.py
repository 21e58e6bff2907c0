"""A worker process: drain slots that arq keeps running (architecture, section 5).

arq owns the life of the process's jobs and its crons; this module is the only one
that knows it. A job is a slot, not an item: it takes a capacity lease for a queue, claims a batch,
and sleeps until one of its queues has something, so an item costs no arq job and is picked up in
milliseconds. arq's own queue is private to the process and holds slots alone; it may be lost with
the rest of Redis, and the slots that are missing are started again within a second.

A stop lets every slot finish the batch that it holds; what is not finished in time is given back.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import orjson
import structlog
from arq import cron
from arq.connections import ArqRedis
from arq.worker import Worker, func
from redis.asyncio import Redis
from redis.exceptions import RedisError

from queues.errors import QueueError
from queues.heartbeats import Heartbeats, WorkerBeat
from queues.items import Claim
from queues.leases import CapacityLeases, Lease
from queues.queue import WorkQueue
from workers.crons import CronRunner
from workers.drainer import Drainer
from workers.idling import Idling
from workers.turns import turn_order
from workers.worker_metrics import WorkerMetrics

CLAIM_ITEMS = 64
VISIBILITY_MS = 10_000
"""How long the claims of a worker that died stay hidden; a living one renews them."""

RENEW_EVERY_S = 3.0
LEASE_TTL_MS = 10_000
LEASE_RETRY_S = 0.25
IDLE_WAIT_S = 5.0
GATEWAY_RETRY_S = 0.5
STUCK_PAUSE_S = 0.02
"""After a batch of which nothing left the queue: others have to move first."""

BEAT_EVERY_S = 2.0
BEAT_TTL_MS = 10_000
SLOT_TURN_S = 600.0
ARQ_POLL_S = 0.1
RECONNECT_PAUSE_S = 0.5
FINISH_S = 0.6
"""How long a stop waits for the batches that are in hand; a supervisor kills after one second."""

GIVE_BACK_S = 0.3

_EVERY_FIVE_SECONDS = set(range(0, 60, 5))

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Held:
    """The one lease that a slot has, and for which queue."""

    lease: Lease | None = None


@dataclass(slots=True)
class WorkerProcess:
    """The slots of one process; `run` returns after `stop`, when every batch is finished."""

    redis: Redis
    drainers: Mapping[str, Drainer]
    """By the name of their queue."""

    leases: CapacityLeases
    heartbeats: Heartbeats
    slots: int
    lease_slots: int
    worker_id: str
    pid: int
    crons: CronRunner | None = None
    host: str = ""
    version: str = ""
    metrics: WorkerMetrics = field(init=False)
    _stopping: anyio.Event = field(default_factory=anyio.Event)
    _drained: anyio.Event = field(default_factory=anyio.Event)
    _running: set[int] = field(default_factory=set)
    _turn: int = 0
    _started_at_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    _served: dict[str, int] = field(default_factory=dict)
    _serving: int = 0
    _in_hand: dict[str, tuple[WorkQueue, Sequence[Claim]]] = field(default_factory=dict)
    """By holder: the batch that its slot has begun."""

    _idling: Idling = field(default_factory=Idling)

    def __post_init__(self) -> None:
        self.metrics = WorkerMetrics(self.drainers, self.slots)

    def stop(self) -> None:
        """Ask every slot to finish what it holds and end."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped; a Redis that goes away is waited for."""
        while not self._stopping.is_set():
            try:
                await self._run_arq()
            except* (RedisError, QueueError, OSError) as errors:
                _log.warning("worker_waits_for_redis", error=repr(errors.exceptions[0]))
                await self._rest(RECONNECT_PAUSE_S)

    async def _run_arq(self) -> None:
        worker = Worker(
            functions=[
                func(
                    cast("Any", self._slot), name="drain_slot", timeout=SLOT_TURN_S * 2, max_tries=1
                )
            ],
            cron_jobs=[
                cron(cast("Any", self._tick), second=_EVERY_FIVE_SECONDS, name="tick", timeout=60)
            ],
            queue_name=f"rotulus:arq:{self.worker_id}",
            redis_pool=ArqRedis(
                self.redis.connection_pool,
                job_serializer=orjson.dumps,
                job_deserializer=orjson.loads,
                default_queue_name=f"rotulus:arq:{self.worker_id}",
            ),
            handle_signals=False,
            max_jobs=self.slots + 2,
            poll_delay=ARQ_POLL_S,
            keep_result=0,
            job_serializer=orjson.dumps,
            job_deserializer=orjson.loads,
            ctx={},
        )
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._beat)
                tasks.start_soon(self._keep_slots, worker)
                for drainer in self.drainers.values():
                    tasks.start_soon(self._idling.listen, drainer.queue, IDLE_WAIT_S)
                tasks.start_soon(worker.async_run)
                await self._stopping.wait()
                if self._running:
                    with anyio.move_on_after(FINISH_S):
                        await self._drained.wait()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(worker.tasks.values())
                with anyio.move_on_after(GIVE_BACK_S), contextlib.suppress(QueueError):
                    await self._give_back()
                    await self.heartbeats.leave(self.worker_id)

    async def _keep_slots(self, worker: Worker) -> None:
        """Start the slots that do not run, again and again."""
        while True:
            missing = set(range(self.slots)) - self._running
            for slot in sorted(missing):
                self._turn += 1
                job_id = f"{self.worker_id}:{slot}:{self._turn}"
                await worker.pool.enqueue_job("drain_slot", slot, _job_id=job_id)
            await anyio.sleep(1.0)

    async def _beat(self) -> None:
        while True:
            tallies = [drainer.tally for drainer in self.drainers.values()]
            beat = WorkerBeat(
                worker_id=self.worker_id,
                pid=self.pid,
                queues=tuple(self.drainers),
                slots=self.slots,
                started_at_ms=self._started_at_ms,
                completed=sum(tally.completed for tally in tallies),
                failed=sum(tally.failed for tally in tallies),
                in_flight=sum(tally.in_flight for tally in tallies),
                version=self.version,
                host=self.host,
                last_error=next((one.last_error for one in tallies if one.last_error), ""),
            )
            await self.heartbeats.beat(beat, BEAT_TTL_MS)
            await anyio.sleep(BEAT_EVERY_S)

    async def _tick(self, _: dict[str, Any]) -> None:
        """Run the crons that are due; every worker asks, and one of them runs each."""
        if self.crons is not None:
            await self.crons.tick(time.time())

    async def _slot(self, _: dict[str, Any], slot: int) -> None:
        """Drain for a turn; what arq sees is a job that never fails."""
        if slot in self._running:
            return
        self._running.add(slot)
        try:
            await self._drain_for_a_turn(f"{self.worker_id}/{slot}")
        except* (RedisError, QueueError, OSError) as errors:
            # It is `run` that waits for Redis, and `_keep_slots` that starts the slot again.
            _log.info("slot_ends", slot=slot, error=repr(errors.exceptions[0]))
        finally:
            self._running.discard(slot)
            if self._stopping.is_set() and not self._running:
                self._drained.set()

    async def _drain_for_a_turn(self, holder: str) -> None:
        """Drain under a lease until the turn is over or the process stops."""
        held = _Held()
        try:
            with anyio.move_on_after(SLOT_TURN_S):
                while not self._stopping.is_set():
                    await self._drain_once(held, holder)
        finally:
            await self._release(held)

    async def _drain_once(self, held: _Held, holder: str) -> None:
        """Serve a batch of the queue whose turn it is, or rest until there may be one."""
        kept_from, gateway_away = False, False
        for drainer in await self._in_turn():
            if not await drainer.ready():
                gateway_away = True
            elif not await self._hold(held, drainer.queue.name, holder):
                kept_from = True
            elif claims := await drainer.queue.claim(CLAIM_ITEMS, VISIBILITY_MS):
                self._served[drainer.queue.name] = self._serving
                if not await self._finish(drainer, claims, holder):
                    await self._rest(STUCK_PAUSE_S)
                return
        await self._release(held)
        if gateway_away:
            await self._rest(GATEWAY_RETRY_S)
        elif kept_from:
            await self._rest(LEASE_RETRY_S)
        else:
            async with self._idling.being_idle() as work:
                with anyio.move_on_after(IDLE_WAIT_S):
                    await self._until_stopped(work.wait())

    async def _in_turn(self) -> list[Drainer]:
        self._serving += 1
        if len(self.drainers) == 1:
            return list(self.drainers.values())
        deadlines: dict[str, int | None] = {}
        for name, drainer in self.drainers.items():
            heads = await drainer.queue.peek(1)
            deadlines[name] = heads[0].deadline_ms if heads else None
        order = turn_order(deadlines, self._served, self._serving)
        return [self.drainers[name] for name in order]

    async def _hold(self, held: _Held, queue: str, holder: str) -> bool:
        """Have the slot's lease be one of this queue; False when there is none to have."""
        lease = held.lease
        if lease is not None and lease.resource != queue:
            await self._release(held)
        elif lease is not None and await self.leases.renew(lease, LEASE_TTL_MS):
            return True
        held.lease = await self.leases.acquire(queue, self.lease_slots, holder, LEASE_TTL_MS)
        return held.lease is not None

    async def _release(self, held: _Held) -> None:
        lease, held.lease = held.lease, None
        if lease is not None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(0.5):
                await self.leases.release(lease)

    async def _finish(self, drainer: Drainer, claims: Sequence[Claim], holder: str) -> bool:
        """Drain a batch; one that was begun is finished: it may be on the record already."""
        moved, began_s = False, time.perf_counter()
        self.metrics.claimed(drainer.queue.name, claims)
        self._in_hand[holder] = (drainer.queue, claims)
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew, drainer.queue, claims)
                moved = await drainer.drain(claims)
                tasks.cancel_scope.cancel()
        # Not where it was cut off: then the batch is still in hand, and is given back.
        del self._in_hand[holder]
        self.metrics.drained(drainer.queue.name, time.perf_counter() - began_s)
        return moved

    async def _renew(self, queue: WorkQueue, claims: Sequence[Claim]) -> None:
        while True:
            await anyio.sleep(RENEW_EVERY_S)
            with contextlib.suppress(QueueError):  # whoever settles the claims will see
                await queue.renew(claims, VISIBILITY_MS)

    async def _give_back(self) -> None:
        """Return the batches that were cut off to their queues, at once and untried."""
        while self._in_hand:
            _, (queue, claims) = self._in_hand.popitem()
            await queue.put_off(claims, [0] * len(claims), "worker_stopped")

    async def _rest(self, seconds: float) -> None:
        await self._until_stopped(anyio.sleep(seconds))

    async def _until_stopped(self, waiting: Awaitable[Any]) -> None:
        """Await something that a stop cuts short."""

        async def stop_early() -> None:
            await self._stopping.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_early)
            await waiting
            tasks.cancel_scope.cancel()


async def _end(jobs: Iterable[asyncio.Task[Any]]) -> None:
    """Let arq's part of the jobs, which goes on after ours, come to its end.

    Cancelled once, arq writes down that a job did not finish; cancelled again while it does, which
    a scope would do, it leaves the write alone, to fail when Redis closes.
    """
    ended = asyncio.gather(*jobs, return_exceptions=True)
    _, unfinished = await asyncio.wait([ended], timeout=0.2)
    if unfinished:
        ended.cancel()
        await asyncio.wait([ended], timeout=0.5)


def new_worker_id() -> str:
    """Return a name that no other worker has."""
    return f"worker-{secrets.token_hex(4)}"
