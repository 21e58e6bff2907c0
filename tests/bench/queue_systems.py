"""The queues that are measured beside each other: this project's, a raw limit, and peers.

Each knows how to enqueue one request and, where it can, many, and how a worker process runs. A
peer is imported by the interpreter that has it installed, so nothing here imports the project at
the top. All of them run the same no-op for the same payload of about 300 bytes.
"""

# ruff: noqa: PLC0415  # a system is imported where it is measured, if it is there at all

import asyncio
import itertools
import signal
import uuid
from collections.abc import Callable, Sequence
from typing import Any

Payload = dict[str, Any]
Hit = Callable[[Payload], None]
"""What a job does: it counts itself."""

_LANES = 2
_BATCH = 64
"""Slots of a worker process, and what each takes in hand at once."""


def payload(number: int, sent_at: float = 0.0, work_s: float = 0.0) -> Payload:
    return {
        "number": number,
        "sent_at": sent_at,
        "work_s": work_s,
        "session_id": f"docket-{number % 5000:06d}",
        "queue": "authority-recompute",
        "target_cu_id": f"understanding-{number:012d}",
        "trigger": {"kind": "input_cu_update", "source": "operation-0f3c1b9a7d", "depth": 3},
        "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "note": "x" * 30,
    }


class System:
    """One queue on one Redis; methods that are None are not offered."""

    blocking = False
    """True where enqueuing is not a coroutine."""
    works = True
    """False where enqueuing alone is measured."""
    bulk: Any = None
    gateway_pid: int | None = None
    """The process that enqueuing goes through, where there is one."""

    def __init__(self, port: int, password: str) -> None:
        self.port = port
        self.password = password
        self.url = f"redis://:{password}@127.0.0.1:{port}/0"

    async def open(self) -> None: ...

    async def put(self, item: Payload) -> None:
        raise NotImplementedError

    def work(self, hit: Hit) -> None:
        """Run a worker process until it is killed."""
        raise NotImplementedError

    async def close(self) -> None: ...


class Rotulus(System):
    """This project's queue under the least loop: claim, do, acknowledge, sleep."""

    async def open(self) -> None:
        import orjson

        from queues.queue.items import NewItem
        from queues.queue.work_queue import WorkQueue
        from queues.redis.connection import connect_redis

        self.dumps, self.loads, self.new_item = orjson.dumps, orjson.loads, NewItem
        self.redis = connect_redis(self.url)
        self.queue = WorkQueue(self.redis, "authority-recompute")
        self.numbers = itertools.count()

    def _item(self, item: Payload) -> Any:
        name = f"understanding-{next(self.numbers)}"
        return self.new_item(name, "background_normal", f"op-{name}", self.dumps(item), name)

    async def put(self, item: Payload) -> None:
        await self.queue.enqueue(self._item(item))

    async def bulk(self, items: Sequence[Payload]) -> None:
        await self.queue.enqueue_many([self._item(item) for item in items])

    async def lane(self, hit: Hit) -> None:
        while True:
            while claims := await self.queue.claim(_BATCH, 60_000):
                for claim in claims:
                    hit(self.loads(claim.payload))
                await self.queue.acknowledge(claims)
            while not await self.queue.wait(5):
                pass

    def work(self, hit: Hit) -> None:
        async def run() -> None:
            await self.open()
            await asyncio.gather(*[self.lane(hit) for _ in range(_LANES)])

        asyncio.run(run())

    async def close(self) -> None:
        await self.redis.aclose()


class RotulusFleet(Rotulus):
    """A worker process of this project with its leases, heartbeats and crons."""

    def work(self, hit: Hit) -> None:
        import random

        from queues.fleet.worker_heartbeats import Heartbeats
        from queues.leases.capacity_leases import CapacityLeases
        from queues.redis.watch import RedisWatch
        from workers.client.typed.gateway import GatewayClient
        from workers.worker.arq_runner import WorkerProcess
        from workers.worker.batches import BatchProcessor, ClaimResult, Handler
        from workers.worker.gateway_reports import GatewayReporter

        system = self

        class NoOp(Handler):
            async def handle(self, claims: Sequence[Any]) -> list[ClaimResult]:
                for claim in claims:
                    hit(system.loads(claim.payload))
                return [ClaimResult(claim, "done") for claim in claims]

        async def run() -> None:
            await self.open()
            nobody = GatewayReporter(
                GatewayClient("http://127.0.0.1:9")
            )  # a no-op hands nothing in
            await WorkerProcess(
                redis=self.redis,
                watch=RedisWatch(self.redis),
                processors={
                    self.queue.name: BatchProcessor(self.queue, NoOp(), nobody, random.random)
                },
                leases=CapacityLeases(self.redis),
                heartbeats=Heartbeats(self.redis),
                slots=_LANES,
                lease_slots=8,
                worker_id=f"worker-{uuid.uuid4().hex[:8]}",
                pid=1,
            ).run()

        asyncio.run(run())


class RotulusClient(System):
    """This project's client: over HTTP to a gateway on SQLite, on the record when answered."""

    works = False

    async def open(self) -> None:
        from contextlib import ExitStack
        from tempfile import TemporaryDirectory

        from tests.bench.bench_http import serving
        from tests.ports import free_port
        from workers.client import BindingEvaluation, Rotulus

        self.stack, port = ExitStack(), free_port()
        settings = {
            "ROTULUS_DATA_DIR": f"{self.stack.enter_context(TemporaryDirectory())}/data",
            "ROTULUS_PORT": str(port),
            "ROTULUS_REDIS_URL": self.url,
            "ROTULUS_LOG_LEVEL": "error",
        }
        self.gateway_pid = self.stack.enter_context(serving(port, "workers", "gateway", **settings))
        self.client, self.content = Rotulus(f"http://127.0.0.1:{port}"), BindingEvaluation
        self.numbers = itertools.count()

    def _content(self) -> Any:
        return self.content(binding_id="binding", source_event_id=f"event-{next(self.numbers)}")

    async def put(self, _: Payload) -> None:
        await self.client.enqueue(self._content())

    async def bulk(self, items: Sequence[Payload]) -> None:
        await self.client.enqueue_many([self._content() for _ in items])

    async def close(self) -> None:
        await self.client.__aexit__()
        self.stack.close()


_RAW_ADD = """
local scores = {}
for i = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  scores[#scores + 1] = i
  scores[#scores + 1] = ARGV[i]
end
redis.call('ZADD', KEYS[1], unpack(scores))
"""
_RAW_CLAIM = """
local popped, ids = redis.call('ZPOPMIN', KEYS[1], ARGV[1]), {}
for i = 1, #popped, 2 do ids[#ids + 1] = popped[i] end
if #ids == 0 then return {} end
for _, id in ipairs(ids) do redis.call('ZADD', KEYS[3], 1, id) end
return { ids, redis.call('HMGET', KEYS[2], unpack(ids)) }
"""
_RAW_ACKNOWLEDGE = """
redis.call('ZREM', KEYS[3], unpack(ARGV))
redis.call('HDEL', KEYS[2], unpack(ARGV))
"""


class RawLua(Rotulus):
    """The least that Lua can do: a sorted set, a hash of payloads, a set of what is in flight."""

    keys = ("raw:waiting", "raw:payloads", "raw:flying")

    async def open(self) -> None:
        await super().open()
        texts = (_RAW_ADD, _RAW_CLAIM, _RAW_ACKNOWLEDGE)
        self.add, self.claim, self.acknowledge = (
            self.redis.register_script(text) for text in texts
        )

    async def put(self, item: Payload) -> None:
        await self.bulk([item])

    async def bulk(self, items: Sequence[Payload]) -> None:
        pairs = [(str(next(self.numbers)), self.dumps(item)) for item in items]
        await self.add(keys=self.keys, args=[part for pair in pairs for part in pair])

    async def lane(self, hit: Hit) -> None:
        while True:
            reply = await self.claim(keys=self.keys, args=[_BATCH])
            for content in reply[1] if reply else ():
                hit(self.loads(content))
            if reply:
                await self.acknowledge(keys=self.keys, args=reply[0])
            else:
                await asyncio.sleep(0.002)


class Arq(System):
    """arq as it comes: ten jobs at a time, a poll each half second, results kept for an hour."""

    settings: dict[str, Any] = {}  # noqa: RUF012  # a constant of the class

    async def open(self) -> None:
        from arq import create_pool

        self.pool = await create_pool(self._redis_settings())

    def _redis_settings(self) -> Any:
        from arq.connections import RedisSettings

        return RedisSettings(port=self.port, password=self.password)

    async def put(self, item: Payload) -> None:
        await self.pool.enqueue_job("no_op", item)

    def work(self, hit: Hit) -> None:
        from arq.worker import Worker, func

        async def no_op(_: Any, item: Payload) -> None:
            hit(item)

        functions = [func(no_op, name="no_op")]
        settings = self._redis_settings()
        Worker(functions, redis_settings=settings, handle_signals=False, **self.settings).run()

    async def close(self) -> None:
        await self.pool.aclose()


class ArqTuned(Arq):
    """arq with a hundred jobs at a time, a poll each ten milliseconds, no results."""

    settings = {"max_jobs": 100, "poll_delay": 0.01, "keep_result": 0}  # noqa: RUF012


class Saq(System):
    async def open(self) -> None:
        from saq import Queue

        self.queue = Queue.from_url(self.url)

    async def put(self, item: Payload) -> None:
        await self.queue.enqueue("no_op", item=item, ttl=-1)

    def work(self, hit: Hit) -> None:
        from saq import Queue, Worker

        async def no_op(_: Any, *, item: Payload) -> None:
            hit(item)

        async def run() -> None:
            queue = Queue.from_url(self.url)
            await Worker(queue, [("no_op", no_op)], concurrency=50).start()

        asyncio.run(run())

    async def close(self) -> None:
        await self.queue.disconnect()


class Dramatiq(System):
    blocking = True

    def _actor(self, hit: Hit) -> Any:
        import dramatiq
        from dramatiq.brokers.redis import RedisBroker

        self.broker = RedisBroker(url=self.url)
        dramatiq.set_broker(self.broker)

        @dramatiq.actor(broker=self.broker, actor_name="no_op")
        def no_op(item: Payload) -> None:
            hit(item)

        return no_op

    async def open(self) -> None:
        self.actor = self._actor(lambda _: None)

    async def put(self, item: Payload) -> None:
        self.actor.send(item)

    def work(self, hit: Hit) -> None:
        import dramatiq

        self._actor(hit)
        dramatiq.Worker(self.broker, worker_threads=8).start()
        signal.pause()


class Taskiq(System):
    """taskiq on lists, which delivers at most once; on streams it is slower."""

    def _task(self, hit: Hit) -> Any:
        from taskiq_redis import ListQueueBroker

        self.broker = ListQueueBroker(self.url)

        async def no_op(item: dict) -> None:
            hit(item)

        return self.broker.register_task(no_op, task_name="no_op")

    async def open(self) -> None:
        self.task = self._task(lambda _: None)
        await self.broker.startup()

    async def put(self, item: Payload) -> None:
        await self.task.kiq(item)

    def work(self, hit: Hit) -> None:
        from taskiq.api import run_receiver_task

        async def run() -> None:
            self._task(hit)
            self.broker.is_worker_process = True
            await self.broker.startup()
            await run_receiver_task(self.broker, max_async_tasks=100, max_prefetch=100)

        asyncio.run(run())

    async def close(self) -> None:
        await self.broker.shutdown()


OWN: dict[str, type[System]] = {
    "rotulus": Rotulus,
    "rotulus, a whole worker process": RotulusFleet,
    "rotulus, the client": RotulusClient,
    "raw Lua": RawLua,
}
PEERS: dict[str, type[System]] = {
    "arq, default": Arq,
    "arq, tuned": ArqTuned,
    "SAQ": Saq,
    "dramatiq": Dramatiq,
    "taskiq": Taskiq,
}
