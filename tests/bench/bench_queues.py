"""How fast a queue is on the embedded server, beside a raw limit and its peers of the same run.

    python -m tests.bench.bench_queues [--json] [--items N] [--rounds N] [--systems NAME ...]
                                       [--enqueue-alone] [--fsync-always]
                                       [--peers PYTHON] [--peers-server PROGRAM]
                                       [--node-modules FOLDER]

First the queue by itself: each figure is the median of the rounds and stands beside a raw figure,
bulk LPUSH, pipelined RPOP of the same payload in the same batches, or PING. Then the systems of
queue_systems.py and BullMQ, all with the same no-op, one after another, each figure beside this
project's. The peers have a plain server, since the embedded one refuses them commands. How to
install the peers says tests/bench/README.md; what is not installed is printed as missing.
"""

import argparse
import asyncio
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from redis.asyncio import Redis

from queues.embedded.server import EmbeddedRedis, find_server
from queues.queue.items import NewItem
from queues.queue.priorities import PRIORITIES
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import connect_redis
from tests.bench.queue_systems import OWN, PEERS
from tests.bench.report import figure, machine, note
from tests.ports import free_port

PAYLOAD = b"x" * 300
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
        self.queue = WorkQueue(redis, "authority-recompute")
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

    async def drain_cpu_us(self, batch: int) -> tuple[float, float]:
        """CPU of client and server for an item: what other work on the machine changes least."""
        await self.redis.flushdb()
        await self._enqueue()
        before = time.process_time(), await self._server_cpu_s()
        await self._drain(batch)
        after = time.process_time(), await self._server_cpu_s()
        client_s, server_s = (then - now for now, then in zip(before, after, strict=True))
        return client_s / self.count * 1e6, server_s / self.count * 1e6

    async def _server_cpu_s(self) -> float:
        used = await self.redis.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

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


async def median_of(
    rounds: int, measure_round: Callable[[], Awaitable[tuple[float, float]]]
) -> list[float]:
    runs = [await measure_round() for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*runs, strict=True)]


async def measure(url: str, items: int, rounds: int) -> None:
    redis = connect_redis(url)
    bench = Bench(redis, items)
    own, raw = await median_of(rounds, bench.enqueue_rate)
    figure("queue: enqueue, 1000 a call", own, "items/s", ratio=own / raw, of="pipelined LPUSH")
    for batch in (64, 256):
        own, raw = await median_of(rounds, lambda batch=batch: bench.drain_rate(batch))
        name = f"queue: claim to acknowledged, {batch} a batch"
        figure(name, own, "items/s", ratio=own / raw, of="pipelined RPOP")
        client_us, server_us = await median_of(
            rounds, lambda batch=batch: bench.drain_cpu_us(batch)
        )
        figure(f"{name}: CPU of the client", client_us, "us/item")
        figure(f"{name}: CPU of the server", server_us, "us/item")
    pings_ms, times_ms = await bench.ping_ms(), await bench.pick_up_ms()
    for name, at in (("median", 49), ("p99", 98)):
        own, raw = (statistics.quantiles(sample, n=100)[at] for sample in (times_ms, pings_ms))
        figure(f"queue: pick-up from idle, {name}", own, "ms", ratio=own / raw, of="PING")
    await redis.aclose()


@contextmanager
def embedded_server(folder: Path) -> Iterator[str]:
    server = EmbeddedRedis(folder, find_server())
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


@contextmanager
def plain_server(program: str | Path, folder: Path, appendfsync: str) -> Iterator[str]:
    """Run a server without users and their rules, which writes its file like the embedded one."""
    port, password = free_port(), secrets.token_hex(16)
    options = {"port": port, "dir": folder, "bind": "127.0.0.1", "save": "", "appendonly": "yes"}
    options |= {"appendfsync": appendfsync, "requirepass": password}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield f"redis://:{password}@127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def wait_for(port: int) -> None:
    for _ in range(200):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError("the server does not answer")


FIGURES = (
    ("enqueue_single", "enqueue, one after another", "items/s"),
    ("enqueue_concurrent", "enqueue, 100 at once", "items/s"),
    ("enqueue_bulk", "enqueue, 100 a call", "items/s"),
    ("enqueue_single_cpu_us", "enqueue, one after another: CPU of all processes", "us/item"),
    ("enqueue_concurrent_cpu_us", "enqueue, 100 at once: CPU of all processes", "us/item"),
    ("enqueue_bulk_cpu_us", "enqueue, 100 a call: CPU of all processes", "us/item"),
    ("drain_1", "one worker process", "items/s"),
    ("drain_2", "two worker processes", "items/s"),
    ("busy_1", "one worker process, 0.5 ms of CPU an item", "items/s"),
    ("busy_2", "two worker processes, 0.5 ms of CPU an item", "items/s"),
    ("commands_per_item", "Redis commands an item, scripts' own included", ""),
    ("pick_up_ms", "pick-up from idle, median", "ms"),
    ("pick_up_p99_ms", "pick-up from idle, p99", "ms"),
    ("idle_requests_per_s", "requests of an idle worker", "1/s"),
)
BULLMQ = "BullMQ"
SYSTEM_TIMEOUT_S = 400
HERE = Path(__file__).parent


def run_system(name: str, url: str, options: argparse.Namespace) -> dict[str, float | str]:
    """Measure a system in a process of the interpreter that has it."""
    password, _, place = url.removeprefix("redis://:").partition("@")
    port = place.partition(":")[2].partition("/")[0]
    environment = dict(os.environ)
    if options.enqueue_alone:
        environment["BENCH_ENQUEUE_ALONE"] = "1"
    if name == BULLMQ:
        node = shutil.which("node")
        if node is None:
            return {"missing": "node"}
        environment["NODE_PATH"] = options.node_modules
        command = [node, str(HERE / "queue_bullmq.cjs"), port, str(options.items)]
    else:
        python = sys.executable if name in OWN else options.peers
        command = [python, str(HERE / "queue_driver.py"), name, port, str(options.items)]
    try:
        done = subprocess.run(
            command,
            input=password,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=SYSTEM_TIMEOUT_S,
        )
    except subprocess.SubprocessError as error:
        return {"missing": f"a whole run: {error} {getattr(error, 'stderr', '')}"[-500:]}
    figures: dict[str, float | str] = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare(url: str, peers_url: str, options: argparse.Namespace) -> None:
    """Print every system's figures, each beside this project's of the same run."""
    ours: dict[str, float | str] = {}
    for name in options.systems:
        figures = run_system(name, url if name in OWN else peers_url, options)
        if "missing" in figures:
            note(f"{name}: missing {figures['missing']}")
            continue
        ours = ours or figures
        for key, meaning, unit in FIGURES:
            if key not in figures:
                continue
            own, its = ours.get(key), float(figures[key])
            ratio = its / float(own) if own and figures is not ours else None
            figure(f"{name}: {meaning}", its, unit, ratio=ratio, of="rotulus")


def main() -> None:
    systems = [*OWN, *PEERS, BULLMQ]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON line for each figure")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", nargs="*", default=systems, choices=systems)
    parser.add_argument("--enqueue-alone", action="store_true", help="measure no workers")
    parser.add_argument(
        "--fsync-always",
        action="store_true",
        help="let Redis answer a write when it is on the disk, as a gateway does",
    )
    parser.add_argument("--peers", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument(
        "--peers-server",
        default=shutil.which("redis-server", path="/usr/bin:/usr/local/bin:/opt/homebrew/bin"),
        help="program of the peers' server; the embedded one's where there is none",
    )
    parser.add_argument("--node-modules", default="", help="folder that has bullmq")
    options = parser.parse_args()
    machine(items=options.items, rounds=options.rounds)
    program = find_server().path
    with ExitStack() as opened:
        [own, of_peers] = [Path(opened.enter_context(TemporaryDirectory())) for _ in range(2)]
        fsync = "always" if options.fsync_always else "everysec"
        server = plain_server(program, own, fsync) if options.fsync_always else embedded_server(own)
        url = opened.enter_context(server)
        peers_url = ""
        if set(options.systems) - set(OWN):
            peers_program = options.peers_server or program
            peers_url = opened.enter_context(plain_server(peers_program, of_peers, fsync))
        if not options.enqueue_alone:
            asyncio.run(measure(url, options.items, options.rounds))
        compare(url, peers_url, options)


if __name__ == "__main__":
    main()
