"""How fast a queue is on the embedded server, beside what the server does without one.

    python -m tests.bench.bench_queues [--json] [--items N] [--rounds N]

Each figure is the median of the rounds, and stands beside a raw figure of the same run: bulk
LPUSH, pipelined RPOP of the same payload in the same batches, or PING.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from redis.asyncio import Redis

from queues.embedded import EmbeddedRedis, find_server
from queues.items import NewItem
from queues.priorities import PRIORITIES
from queues.queue import WorkQueue
from tests.bench.report import figure

PAYLOAD = b"x" * 200
BULK = 1000
PICK_UPS = 200


async def rate(count: int, work: Awaitable[None]) -> float:
    started_s = time.perf_counter()
    await work
    return count / (time.perf_counter() - started_s)


class Bench:
    """One client, one server, one queue; everything is flushed before each measurement."""

    def __init__(self, redis: Redis, items: int) -> None:
        self.redis = redis
        self.count = items
        self.queue = WorkQueue(redis, "bench")
        names = [row.name for row in PRIORITIES]
        self.items = [NewItem(f"node-{n}", names[n % 5], f"op-{n}", PAYLOAD) for n in range(items)]

    async def _enqueue(self) -> None:
        for start in range(0, self.count, BULK):
            await self.queue.enqueue_many(self.items[start : start + BULK])

    async def _drain(self, batch: int) -> None:
        left = self.count
        while left:
            claims = await self.queue.claim(batch, 60_000)
            left -= sum(await self.queue.acknowledge(claims))

    async def _raw_push(self) -> None:
        for start in range(0, self.count, BULK):
            pipeline = self.redis.pipeline(transaction=False)
            for item in self.items[start : start + BULK]:
                pipeline.lpush("raw", item.payload)
            await pipeline.execute()

    async def _raw_pop(self, batch: int) -> None:
        for _ in range(0, self.count, batch):
            pipeline = self.redis.pipeline(transaction=False)
            for _ in range(batch):
                pipeline.rpop("raw")
            await pipeline.execute()

    async def enqueue_rate(self) -> tuple[float, float]:
        await self.redis.flushdb()
        return await rate(self.count, self._enqueue()), await rate(self.count, self._raw_push())

    async def drain_rate(self, batch: int) -> tuple[float, float]:
        await self.redis.flushdb()
        await self._enqueue()
        await self._raw_push()
        return (
            await rate(self.count, self._drain(batch)),
            await rate(self.count, self._raw_pop(batch)),
        )

    async def pick_up_ms(self) -> list[float]:
        """From the call of enqueue to the claim in the hands of a consumer that slept."""
        await self.redis.flushdb()
        waiting, times_ms = asyncio.Queue[None](), []
        started_s = 0.0

        async def consume() -> None:
            for _ in range(PICK_UPS):
                claims = []
                waiting.put_nowait(None)
                while not claims:
                    await self.queue.wait(5)
                    claims = await self.queue.claim(64, 60_000)
                times_ms.append((time.perf_counter() - started_s) * 1000)
                await self.queue.acknowledge(claims)

        async with asyncio.TaskGroup() as group:
            group.create_task(consume())
            for n in range(PICK_UPS):
                await waiting.get()
                # Long enough for the consumer to be blocked in the server.
                await asyncio.sleep(0.01)
                started_s = time.perf_counter()
                await self.queue.enqueue_many([self.items[n % self.count]])
        return times_ms

    async def ping_ms(self) -> list[float]:
        times_ms = []
        for _ in range(PICK_UPS):
            started_s = time.perf_counter()
            await self.redis.ping()
            times_ms.append((time.perf_counter() - started_s) * 1000)
        return times_ms


async def median_of(rounds: int, one: Callable[[], Awaitable[tuple[float, float]]]) -> list[float]:
    runs = [await one() for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*runs, strict=True)]


async def measure(url: str, items: int, rounds: int) -> None:
    redis = Redis.from_url(url)
    bench = Bench(redis, items)
    own, raw = await median_of(rounds, bench.enqueue_rate)
    figure("queue: enqueue, 1000 a call", own, "items/s", ratio=own / raw, of="pipelined LPUSH")
    for batch in (64, 256):
        own, raw = await median_of(rounds, lambda batch=batch: bench.drain_rate(batch))
        name = f"queue: claim to acknowledged, {batch} a batch"
        figure(name, own, "items/s", ratio=own / raw, of="pipelined RPOP")
    pings_ms, times_ms = await bench.ping_ms(), await bench.pick_up_ms()
    for name, at in (("median", 49), ("p99", 98)):
        own, raw = (statistics.quantiles(sample, n=100)[at] for sample in (times_ms, pings_ms))
        figure(f"queue: pick-up from idle, {name}", own, "ms", ratio=own / raw, of="PING")
    await redis.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON line for each figure")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedRedis(Path(folder), find_server())
        server.start()
        try:
            asyncio.run(measure(server.url, options.items, options.rounds))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
