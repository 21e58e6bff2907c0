"""A worker process: drain slots that arq keeps running (architecture, section 5).

arq owns the life of the process's jobs and its crons; this module is the only one
that knows it. A job is a slot, not an item: it takes a capacity lease, claims batch after batch,
and sleeps on the queue's wake key when there is nothing, so an item costs no arq job and is picked
up in milliseconds. arq's own queue is private to the process and holds slots alone; it may be lost
with the rest of Redis, and the slots that are missing are started again within a second.

A stop lets every slot finish the batch that it holds.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Iterable, Sequence
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
from workers.recompute import AuthorityDrainer

CLAIM_ITEMS = 64
VISIBILITY_MS = 10_000
"""How long the claims of a worker that died stay hidden; a living one renews them."""

RENEW_EVERY_S = 3.0
LEASE_TTL_MS = 10_000
LEASE_RETRY_S = 0.25
IDLE_WAIT_S = 5.0
GATEWAY_RETRY_S = 0.5
BEAT_EVERY_S = 2.0
BEAT_TTL_MS = 10_000
SLOT_TURN_S = 600.0
ARQ_POLL_S = 0.1
RECONNECT_PAUSE_S = 0.5
FINISH_S = 1.0
"""How long a stop waits for the batches that are in hand."""

_EVERY_FIVE_SECONDS = set(range(0, 60, 5))

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WorkerProcess:
    """The slots of one process; `run` returns after `stop`, when every batch is finished."""

    redis: Redis
    queue: WorkQueue
    leases: CapacityLeases
    heartbeats: Heartbeats
    drainer: AuthorityDrainer
    slots: int
    lease_slots: int
    worker_id: str
    pid: int
    _stopping: anyio.Event = field(default_factory=anyio.Event)
    _drained: anyio.Event = field(default_factory=anyio.Event)
    _running: set[int] = field(default_factory=set)
    _turn: int = 0
    _started_at_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

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
                cron(cast("Any", self._reap), second=_EVERY_FIVE_SECONDS, name="reap", timeout=10)
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
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat)
            tasks.start_soon(self._keep_slots, worker)
            tasks.start_soon(worker.async_run)
            await self._stopping.wait()
            if self._running:
                with anyio.move_on_after(FINISH_S):
                    await self._drained.wait()
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await _end(worker.tasks.values())
            with anyio.move_on_after(0.5):
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
            tally = self.drainer.tally
            beat = WorkerBeat(
                worker_id=self.worker_id,
                pid=self.pid,
                queues=(self.queue.name,),
                slots=self.slots,
                started_at_ms=self._started_at_ms,
                completed=tally.completed,
                failed=tally.failed,
                in_flight=tally.in_flight,
            )
            await self.heartbeats.beat(beat, BEAT_TTL_MS)
            await anyio.sleep(BEAT_EVERY_S)

    async def _reap(self, _: dict[str, Any]) -> None:
        """Return expired claims to the queue; every worker does, and twice does no harm."""
        returned = 0
        with contextlib.suppress(QueueError):  # it is `run` that waits for Redis
            returned = await self.queue.reap()
        if returned:
            _log.info("claims_expired", items=returned)

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
        lease: Lease | None = None
        try:
            with anyio.move_on_after(SLOT_TURN_S):
                while not self._stopping.is_set():
                    lease = await self._hold(lease, holder)
                    if lease is None:
                        await self._rest(LEASE_RETRY_S)
                    else:
                        await self._drain_once()
        finally:
            if lease is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(0.5):
                    await self.leases.release(lease)

    async def _hold(self, lease: Lease | None, holder: str) -> Lease | None:
        if lease is not None and await self.leases.renew(lease, LEASE_TTL_MS):
            return lease
        return await self.leases.acquire(self.queue.name, self.lease_slots, holder, LEASE_TTL_MS)

    async def _drain_once(self) -> None:
        if not await self.drainer.ready():
            await self._rest(GATEWAY_RETRY_S)
            return
        claims = await self.queue.claim(CLAIM_ITEMS, VISIBILITY_MS)
        if claims:
            # A batch that was begun is finished: its values may be on the record already.
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._renew, claims)
                    await self.drainer.drain(claims)
                    tasks.cancel_scope.cancel()
        else:
            await self._until_stopped(self.queue.wait(IDLE_WAIT_S))

    async def _renew(self, claims: Sequence[Claim]) -> None:
        while True:
            await anyio.sleep(RENEW_EVERY_S)
            with contextlib.suppress(QueueError):  # whoever settles the claims will see
                await self.queue.renew(claims, VISIBILITY_MS)

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
