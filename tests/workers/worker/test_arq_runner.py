"""A worker process on a real server: slots, leases, heartbeats, and what a stop leaves behind."""

import gc
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from arq.connections import ArqRedis
from arq.worker import Worker
from redis.asyncio import Redis
from redis.asyncio.connection import Connection
from structlog.testing import capture_logs

from kernel.values.priorities import CapacityPriority
from queues.embedded.server import EmbeddedRedis, find_server
from queues.fleet.worker_heartbeats import Heartbeats
from queues.leases.capacity_leases import CapacityLeases
from queues.queue.items import Claim, NewItem
from queues.queue.work_queue import WorkQueue
from queues.redis.dropped import DROPPED
from queues.redis.watch import RedisWatch
from tests.workers.api.door import eventually
from workers.worker import arq_runner, batch_progress
from workers.worker import drain_slots as slots
from workers.worker.arq_runner import FINISH_S, WorkerProcess, new_worker_id
from workers.worker.batches import BatchCounters

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    # A stop cancels arq's loop where it stands, which may be inside a pipeline of its own; `swept`
    # has it collected here, not in the middle of another file's tests.
    pytest.mark.filterwarnings(
        "ignore:.*function Redis.__del__:pytest.PytestUnraisableExceptionWarning"
    ),
]

QUEUE = "authority-recompute"
CLAIM_ITEMS = 64
OTHERS = ("binding-evaluation", "extraction-transition")

STOPPED_S = 40.0


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """Collect what a stop left of arq's pipelines while its warning is still expected."""
    yield
    gc.collect()


class Drainer:
    """Acknowledges what it is given, when the test lets it."""

    claim_items = CLAIM_ITEMS

    def __init__(self, queue: WorkQueue) -> None:
        self.queue = queue
        self.tally = BatchCounters()
        self.gateway_is_there = True
        self.batches: list[list[str]] = []
        self.at_once = self.most_at_once = 0
        self.takes_s = 0.0
        self.open: anyio.Event | None = None
        """When set, a batch waits for it."""

        self.renewed: list[bool] = []
        self.acknowledged: list[bool] = []

    async def ready(self) -> bool:
        return self.gateway_is_there

    async def least_capacity(self) -> CapacityPriority:
        return "background"

    async def renew(self, claims: Sequence[Claim], visibility_ms: int) -> None:
        self.renewed += await self.queue.renew(claims, visibility_ms)

    async def drain(self, claims: Sequence[Claim]) -> bool:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.batches.append([claim.key for claim in claims])
        self.tally.in_flight += len(claims)
        try:
            await anyio.sleep(self.takes_s)
            if self.open is not None:
                await self.open.wait()
            self.acknowledged += await self.queue.acknowledge(claims)
            self.tally.completed += len(claims)
            return True
        finally:
            self.at_once -= 1
            self.tally.in_flight -= len(claims)


class ArqWorkerProcess:
    """One worker process and what it works with."""

    def __init__(
        self, redis: Redis, slots: int, lease_slots: int, others: Sequence[str] = ()
    ) -> None:
        self.redis = redis
        self.queue = WorkQueue(redis, QUEUE)
        self.leases = CapacityLeases(redis)
        self.heartbeats = Heartbeats(redis)
        self.processor = Drainer(self.queue)
        self.others = {name: Drainer(WorkQueue(redis, name)) for name in others}
        self.returned = anyio.Event()
        self.process = WorkerProcess(
            redis=redis,
            watch=RedisWatch(redis),
            processors={QUEUE: self.processor, **self.others},  # type: ignore[dict-item]
            leases=self.leases,
            heartbeats=self.heartbeats,
            slots=slots,
            lease_slots=lease_slots,
            worker_id=new_worker_id(),
            pid=4321,
            host="a-host",
            version="1.2.3",
        )

    async def run(self) -> None:
        await self.process.run()
        self.returned.set()

    async def enqueue(self, *keys: str, priority: str = "background_normal") -> None:
        items = [NewItem(key, priority, f"cause-of-{key}", b"{}") for key in keys]
        await self.queue.enqueue_many(items)

    async def empty(self) -> bool:
        depth = await self.queue.depth()
        return not (sum(depth.ready.values()) or depth.delayed or depth.in_flight)

    async def stop(self) -> float:
        """Stop it and return how long it took."""
        began_s = time.monotonic()
        self.process.stop()
        with anyio.fail_after(STOPPED_S):
            await self.returned.wait()
        return time.monotonic() - began_s


@asynccontextmanager
async def running(
    url: str, slots: int = 2, lease_slots: int = 4, others: Sequence[str] = ()
) -> AsyncIterator[ArqWorkerProcess]:
    async with Redis.from_url(url) as redis:
        process = ArqWorkerProcess(redis, slots, lease_slots, others)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run)
            yield process
            if not process.returned.is_set():
                await process.stop()


@pytest.fixture
async def url(valkey_url: str, anyio_backend: str) -> AsyncIterator[str]:
    redis: Redis = Redis.from_url(valkey_url)
    await redis.flushall()
    yield valkey_url
    await redis.aclose()


@pytest.fixture
def long_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an idle slot rest for longer than any test waits, unless something wakes it."""
    monkeypatch.setattr(slots, "IDLE_WAIT_S", 3600.0)


def names(count: int, prefix: str = "u") -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


async def test_its_slots_drain_what_is_enqueued_and_what_comes_later(url: str):
    async with running(url) as worker:
        await worker.enqueue(*names(200))
        await eventually(worker.empty)
        await worker.enqueue(*names(20, "later"))
        await eventually(worker.empty)
        done = [key for batch in worker.processor.batches for key in batch]
        assert sorted(done) == sorted([*names(200), *names(20, "later")])
        assert all(worker.processor.acknowledged)


async def test_an_idle_slot_picks_an_item_up_at_once(url: str, long_rests: None):
    async with running(url) as worker:
        await worker.enqueue("warm-up")
        await eventually(worker.empty)
        await worker.enqueue("u-1")
        await eventually(lambda: ["u-1"] in worker.processor.batches)


@pytest.mark.parametrize(("lease_slots", "most"), [(1, 1), (2, 2)])
async def test_no_more_drains_run_at_once_than_there_are_leases(url: str, lease_slots, most):
    async with running(url, slots=2, lease_slots=lease_slots) as worker:
        worker.processor.takes_s = 0.05
        await worker.enqueue(*names(600))
        await eventually(lambda: worker.processor.most_at_once == most)
        await eventually(worker.empty)
        assert worker.processor.most_at_once == most


async def test_two_processes_share_the_leases(url: str):
    async with running(url, lease_slots=1) as first, running(url, lease_slots=1) as other:
        for worker in (first, other):
            worker.processor.takes_s = 0.02
        together: list[int] = []
        await first.enqueue(*names(600))

        async def done() -> bool:
            together.append(first.processor.at_once + other.processor.at_once)
            return await first.empty()

        await eventually(done)
        assert max(together) == 1


FASTER = 4
INTERVALS = (
    (slots, "IDLE_WAIT_S"),
    *((arq_runner, name) for name in ("BEAT_EVERY_S", "KEEP_EVERY_S", "ARQ_POLL_S")),
)
"""What a process that is idle waits for."""


async def test_an_idle_process_sends_hardly_anything(url: str, monkeypatch):
    seconds = 2 * slots.IDLE_WAIT_S
    for module, name in INTERVALS:
        monkeypatch.setattr(module, name, getattr(module, name) / FASTER)
    sent: list[str] = []
    send = Connection.send_packed_command

    async def count(self: Connection, command: Any, *rest: Any, **options: Any) -> None:
        text = b"".join(command) if isinstance(command, list) else command
        sent.extend(re.findall(r"\*\d+\r\n\$\d+\r\n(\w+)", text.decode(errors="replace")))
        await send(self, command, *rest, **options)

    async with running(url, others=OTHERS) as worker:
        await worker.enqueue("warm-up")
        await eventually(lambda: worker.processor.tally.completed == 1)
        await anyio.sleep(2)
        monkeypatch.setattr(Connection, "send_packed_command", count)
        await anyio.sleep(seconds / FASTER)
        # Two for each queue to which a slot listens in IDLE_WAIT_S, and the heartbeats.
        assert 0 < len(sent) <= 1.2 * seconds, Counter(sent)


async def all_slots_busy(worker: ArqWorkerProcess, lease_slots: int) -> None:
    """A batch of the background in hand for each lease that it can have."""
    worker.processor.open = anyio.Event()
    for number in range(lease_slots):
        await worker.enqueue(*names(CLAIM_ITEMS, f"b{number}"))
    await eventually(lambda: worker.processor.at_once == lease_slots)


@pytest.mark.spec("§8.3")
async def test_critical_work_is_kept_out_neither_by_slots_nor_by_leases(url: str):
    async with running(url, slots=2, lease_slots=2) as worker:
        await all_slots_busy(worker, 2)
        await worker.enqueue("now", priority="user_initiated_critical")
        await eventually(lambda: ["now"] in worker.processor.batches)
        held = await worker.leases.active_leases(QUEUE)
        assert sorted(lease.capacity_priority for lease in held) == [
            *2 * ["background"],
            "critical",
        ]
        await worker.enqueue("later")
        await anyio.sleep(0.5)
        assert ["later"] not in worker.processor.batches
        worker.processor.open.set()
        await eventually(worker.empty)


@pytest.mark.spec("§8.3", "§14.2")
@pytest.mark.parametrize("slots", [2, 3])
async def test_without_a_lease_a_user_is_throttled_and_the_background_waits(url: str, slots: int):
    async with running(url, slots=slots, lease_slots=1) as worker:
        await all_slots_busy(worker, 1)
        await worker.enqueue("waits")
        await worker.enqueue("user", priority="user_active_session")
        await eventually(lambda: ["user"] in worker.processor.batches)
        assert ["waits"] not in worker.processor.batches
        worker.processor.open.set()
        await eventually(worker.empty)


async def test_what_a_handler_would_suspend_is_not_claimed(url: str, monkeypatch):
    async with running(url, slots=1) as worker:

        async def least_capacity() -> CapacityPriority:
            return "user_initiated"

        monkeypatch.setattr(worker.processor, "least_capacity", least_capacity)
        await worker.enqueue("waits")
        await worker.enqueue("user", priority="user_active_session")
        await eventually(lambda: worker.processor.tally.completed == 1)
        await anyio.sleep(0.5)
        assert worker.processor.batches == [["user"]]
        monkeypatch.undo()
        await eventually(worker.empty)


async def test_after_a_flush_its_slots_come_back_and_work_on(url: str):
    async with running(url) as worker:
        await worker.enqueue(*names(10))
        await eventually(worker.empty)
        await worker.redis.flushall()
        await worker.enqueue(*names(10, "after"))
        await eventually(worker.empty)
        await eventually(lambda: worker.processor.tally.completed == 20)
        await worker.redis.flushall()
        await eventually(worker.heartbeats.alive)


async def test_a_flush_in_the_middle_of_a_batch_leaves_nobody_stuck(url: str):
    async with running(url) as worker:
        worker.processor.open = anyio.Event()
        await worker.enqueue("u-1")
        await eventually(lambda: worker.processor.batches)
        await worker.redis.flushall()
        worker.processor.open.set()
        await eventually(lambda: worker.processor.acknowledged == [False])
        await worker.enqueue("u-1")
        await eventually(lambda: worker.processor.acknowledged == [False, True])


@pytest.mark.parametrize(
    "value",
    [
        b"\xff",
        b"{}x",
        b"[]",
        b'{"f":"other","a":[0],"et":0}',
        b'{"f":"drain_slot","a":[{}],"et":0}',
    ],
)
async def test_a_job_that_no_worker_wrote_is_counted_and_its_slot_starts_again(
    url: str, monkeypatch, caplog, value: bytes
):
    enqueue_job = ArqRedis.enqueue_job
    hostile = iter([value])

    async def overwritten(pool: ArqRedis, *args: Any, _job_id: str, **kwargs: Any) -> Any:
        job = await enqueue_job(pool, *args, _job_id=_job_id, **kwargs)
        if (malformed := next(hostile, None)) is not None:
            await pool.set(f"arq:job:{_job_id}", malformed)
        return job

    monkeypatch.setattr(ArqRedis, "enqueue_job", overwritten)
    before = DROPPED["job"]
    with caplog.at_level(logging.WARNING, "arq"):
        async with running(url, slots=1) as worker:
            await worker.enqueue(*names(20))
            await eventually(worker.empty)
    assert DROPPED["job"] == before + 1
    assert not [record for record in caplog.records if record.name.startswith("arq")]


async def test_a_job_that_was_taken_away_is_no_traceback(url: str, monkeypatch, caplog):
    enqueue_job = ArqRedis.enqueue_job
    taken = iter([True])

    async def without_its_key(pool: ArqRedis, *args: Any, _job_id: str, **kwargs: Any) -> Any:
        job = await enqueue_job(pool, *args, _job_id=_job_id, **kwargs)
        if next(taken, False):
            await pool.delete(f"arq:job:{_job_id}")
        return job

    monkeypatch.setattr(ArqRedis, "enqueue_job", without_its_key)
    with caplog.at_level(logging.WARNING, "arq"):
        async with running(url, slots=1) as worker:
            await worker.enqueue(*names(20))
            await eventually(worker.empty)
    assert not [record for record in caplog.records if record.exc_info]


async def test_after_a_time_that_is_no_number_the_worker_begins_anew_without_a_traceback(
    url: str, monkeypatch
):
    enqueue_job = ArqRedis.enqueue_job
    hostile = iter([True])

    async def at_infinity(pool: ArqRedis, *args: Any, _job_id: str, **kwargs: Any) -> Any:
        job = await enqueue_job(pool, *args, _job_id=_job_id, **kwargs)
        if next(hostile, False):
            await pool.zadd(pool.default_queue_name, {_job_id: "-inf"})
        return job

    monkeypatch.setattr(ArqRedis, "enqueue_job", at_infinity)
    with capture_logs() as logs:
        async with running(url, slots=1) as worker:
            await worker.enqueue(*names(20))
            await eventually(worker.empty)
    [line] = [line for line in logs if line["event"] == "worker_begins_anew"]
    assert line["log_level"] == "warning"
    assert "infinity" in line["error"]
    assert not [line for line in logs if "exc_info" in line]


async def test_it_tells_that_it_is_alive_and_is_forgotten_when_it_ends(url: str):
    async with running(url, slots=3) as worker:
        await eventually(worker.heartbeats.alive)
        [beat] = await worker.heartbeats.alive()
        assert (beat.worker_id, beat.pid) == (worker.process.worker_id, 4321)
        assert (beat.queues, beat.slots) == ((QUEUE,), 3)
        assert beat.seen_at_ms >= beat.started_at_ms
        assert (beat.host, beat.version, beat.last_error) == ("a-host", "1.2.3", "")
        await worker.stop()
        assert await worker.heartbeats.alive() == []


async def test_a_stop_of_an_idle_process_is_short_and_it_holds_no_lease(url: str, long_rests: None):
    async with running(url) as worker:
        await worker.enqueue("u-1")
        await eventually(worker.empty)

        async def none_held() -> bool:
            return not await worker.leases.active_leases(QUEUE)

        # Who has nothing to do keeps nobody else from a slot.
        await eventually(none_held)
        await worker.stop()


async def test_a_stop_lets_the_batch_in_hand_be_finished_and_takes_no_other(url: str):
    async with running(url, slots=1) as worker:
        worker.processor.takes_s = 0.3
        await worker.enqueue(*names(3 * CLAIM_ITEMS))
        await eventually(lambda: worker.processor.at_once)
        begun = len(worker.processor.batches)
        await worker.stop()
        assert len(worker.processor.batches) == begun
        assert worker.processor.tally.completed == begun * CLAIM_ITEMS
        assert all(worker.processor.acknowledged)


async def test_a_stop_gives_a_batch_back_that_does_not_end(url: str):
    async with running(url, slots=1) as worker:
        worker.processor.open = anyio.Event()
        await worker.enqueue("u-1")
        await eventually(lambda: worker.processor.at_once)
        took_s = await worker.stop()
        assert took_s >= FINISH_S
        depth = await worker.queue.depth()
        assert (depth.in_flight, depth.delayed + sum(depth.ready.values())) == (0, 1)
        [claim] = await worker.queue.claim(1, 1000)
        assert claim.attempt == 1, "it was not tried to its end"
        worker.processor.open.set()


async def test_a_stop_lets_arq_write_down_that_a_job_did_not_finish(url: str, monkeypatch):
    ended: list[str] = []
    write = Worker.finish_job

    async def slowly(self: Worker, job_id: str, *rest: Any) -> None:
        await anyio.sleep(0.2)
        await write(self, job_id, *rest)
        ended.append(job_id)

    monkeypatch.setattr(Worker, "finish_job", slowly)
    async with running(url, slots=1) as worker:
        worker.processor.open = anyio.Event()
        await worker.enqueue("u-1")
        await eventually(lambda: worker.processor.at_once)
        await worker.stop()
        assert f"{worker.process.worker_id}:0:1" in ended


async def test_claims_are_renewed_while_a_batch_takes_its_time(url: str, monkeypatch):
    monkeypatch.setattr(slots, "RENEW_EVERY_S", 0.02)
    async with running(url, slots=1) as worker:
        worker.processor.open = anyio.Event()
        await worker.enqueue("u-1")
        await eventually(lambda: len(worker.processor.renewed) >= 3)
        worker.processor.open.set()
        await eventually(lambda: worker.processor.acknowledged)
        assert {*worker.processor.renewed} == {True}
        assert worker.processor.acknowledged == [True]


async def test_claims_are_not_renewed_for_a_batch_that_makes_no_progress(url: str, monkeypatch):
    monkeypatch.setattr(slots, "VISIBILITY_MS", 300)
    monkeypatch.setattr(slots, "RENEW_EVERY_S", 0.05)
    monkeypatch.setattr(batch_progress, "PROGRESS_S_MAX", 0.2)
    async with running(url, slots=1) as worker:
        worker.processor.open = anyio.Event()
        await worker.enqueue("u-1")
        await eventually(lambda: worker.processor.at_once)

        async def reaped() -> bool:
            return await worker.queue.reap() > 0

        await eventually(reaped)
        [freed] = await worker.queue.claim(1, 60_000)
        assert freed.key == "u-1"
        worker.processor.open.set()
        await eventually(lambda: worker.processor.acknowledged)
        assert worker.processor.acknowledged == [False]


async def test_while_there_is_no_gateway_nothing_is_claimed(url: str, monkeypatch):
    monkeypatch.setattr(slots, "GATEWAY_RETRY_S", 0.02)
    async with running(url) as worker:
        worker.processor.gateway_is_there = False
        await eventually(worker.heartbeats.alive)
        await anyio.sleep(0.1)
        await worker.enqueue(*names(5))
        await anyio.sleep(0.2)
        assert worker.processor.batches == []
        worker.processor.gateway_is_there = True
        await eventually(worker.empty)
        await eventually(lambda: worker.processor.tally.completed == 5)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path, find_server())
    server.start()
    yield server
    server.stop()


async def test_a_server_that_goes_away_is_waited_for(own_server: EmbeddedRedis):
    async with running(own_server.url) as worker:
        await worker.enqueue("u-1")
        await eventually(worker.empty)
        await anyio.to_thread.run_sync(own_server.stop)
        await anyio.sleep(0.2)
        assert not worker.returned.is_set()
        await anyio.to_thread.run_sync(own_server.start)
        await eventually(lambda: _enqueued(worker, "u-2"))
        await eventually(lambda: worker.processor.tally.completed == 2)


async def _enqueued(worker: ArqWorkerProcess, key: str) -> bool:
    try:
        await worker.enqueue(key)
    except Exception:  # noqa: BLE001 - it has only just come back
        return False
    return True


async def test_its_slots_serve_every_queue_that_it_was_given(url: str):
    async with running(url, slots=1, others=OTHERS) as worker:
        for queue in (worker.queue, *(other.queue for other in worker.others.values())):
            items = [NewItem(key, queue.priorities[-1].name, "c", b"") for key in names(130)]
            await queue.enqueue_many(items)
        processors = (worker.processor, *worker.others.values())
        await eventually(lambda: all(processor.tally.completed == 130 for processor in processors))
        [beat] = await worker.heartbeats.alive()
        assert beat.queues == (QUEUE, *OTHERS)


@pytest.mark.parametrize("name", OTHERS)
async def test_an_idle_slot_is_woken_by_any_of_its_queues(url: str, name: str, long_rests: None):
    async with running(url, others=OTHERS) as worker:
        other = worker.others[name]
        for number in range(5):
            await anyio.sleep(0.05)
            await other.queue.enqueue_many([NewItem(f"u-{number}", "background", "c", b"")])
            await eventually(lambda done=number: other.tally.completed == done + 1)


async def test_a_queue_that_is_never_empty_does_not_starve_the_others(url: str, monkeypatch):
    async with running(url, slots=1, others=OTHERS) as worker:
        worker.processor.takes_s = 0.01
        worker.processor.open = anyio.Event()
        urgent = [NewItem(key, "user_initiated_critical", "c", b"") for key in names(1000)]
        await worker.queue.enqueue_many(urgent)
        [other, _] = worker.others.values()
        late = NewItem("late", "background", "c", b"")
        await other.queue.enqueue_many([late])
        done_before: list[int] = []
        drain = other.drain

        async def noting(claims: Sequence[Claim]) -> bool:
            done_before.append(worker.processor.tally.completed)
            return await drain(claims)

        monkeypatch.setattr(other, "drain", noting)
        worker.processor.open.set()
        await eventually(lambda: done_before)
        # Those with deadlines a day earlier were not all done before.
        assert done_before[0] < 1000
