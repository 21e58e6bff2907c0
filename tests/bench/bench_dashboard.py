"""Measures what the dashboard costs a gateway: charts, the snapshot, and each page.

    python -m tests.bench.bench_dashboard [--requests 1000000] [--sessions 1000000] [--seconds 30]
        [--postgresql]

Everything is CPU time of a process that does nothing else, with a Redis of its own beside it, and
of the server of PostgreSQL, where the ledger is on it: sampling for charts and taking the snapshot
once a second, as a share of a core, at 12,000 open requests and 8 queues; and one answer of each
page at very many requests. The ledgers are filled past the kernel (`bench_request_search.py`). The
server tells whole ticks of 10 ms, so what a page costs it is the mean of some answers.
"""

import argparse
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import UUID

import anyio
import anyio.to_thread
import psycopg
from redis.asyncio import Redis

from actors.commit.work_units import RequestWorkUnit
from actors.sharding.held_shards import HeldShards
from kernel.landscape.recorder import Recorder
from kernel.ledger import schema
from kernel.ledger.chart_blocks import RESOLUTIONS, ChartBlock, put_blocks
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import Fence
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import Store
from kernel.work.contents import BINDING_QUEUE
from kernel.work.ready_requests import FAN_OUT_MAX
from kernel.work.requests import WorkRequest
from queues.embedded.server import EmbeddedRedis, find_server
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.queue.items import NewItem
from queues.queue.priorities import PRIORITIES
from queues.queue.work_queue import WorkQueue
from tests.actors.harness import bench_on
from tests.bench.bench_request_search import QUEUES, filled
from tests.bench.report import note
from tests.kernel.binding_world import EVENT, bound, furnish, work
from tests.kernel.bindings.routed import selector
from tests.kernel.landscape.runs import whole_run
from tests.postgres import OwnPostgres, own_postgres
from tests.workers.api.door import SESSION, Door, claim, running_door, source, understanding
from workers.client.source_bindings import SourceBindings
from workers.dashboard.pages import ROUTES
from workers.environment.system_host import system_host
from workers.gateway.dashboard_source import LiveSource
from workers.gateway.loops.chart_sampling import ChartSampling, CommitSamples
from workers.gateway.wiring import writing
from workers.views.chart_samples import MEASURES, SampleBlock, Series

OPEN = 12_000
OPEN_SHARE = 20
"""Of so many requests one is open, as `bench_request_search` fills."""

QUEUES_IN_ALL = 8
RUN = "run-1"
BINDING = "b-1"
SHARE_OF_CHARTS = 0.5
SHARE_OF_SNAPSHOT = 2.0
PAGE_MS = 100.0
SNAPSHOTS = 20
PAGES = 10
CYCLES = 20
"""As many manifests of an event as a page shows."""


def add_sessions(ledger: Ledger, first: int, count: int) -> None:
    """Add the summaries of belief sessions."""
    for start in range(first, first + count, 5000):
        rows = [
            {
                "session_id": str(UUID(int=number + 1)),
                "title": f"Case {number}",
                "n_universe": 20,
                "n_survivors": 3,
                "n_events": 4,
                "head_event_hash": "0" * 64,
                "survivors_shown": b'["a","b","c"]',
                "updated_at_us": 1_700_000_000_000_000 + number,
                "terminated": None,
                "successor_id": None,
            }
            for number in range(start, min(start + 5000, first + count))
        ]
        with ledger.store.transaction() as tables:
            tables.insert_many(schema.belief_sessions, rows)


class Database:
    """Where the ledgers are that are measured: SQLite, or a server whose CPU counts as well."""

    def __init__(self, folder: Path, server: OwnPostgres | None) -> None:
        self._folder = folder
        self._server = server
        self._urls: dict[str, str] = {}

    def store(self, name: str) -> Store:
        """Return the store of a ledger by its name; the same each time."""
        if self._server is None:
            return SqliteStore(self._folder / f"{name}.db")
        from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

        if name not in self._urls:
            self._urls[name] = self._server.new_database()
        return PostgresStore(self._urls[name])

    def tidy(self) -> None:
        """Do now what a server would do while something is measured."""
        for url in self._urls.values():
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
                connection.execute("CHECKPOINT")

    def server_s(self) -> float:
        """Return the CPU time of the server so far, in seconds."""
        return 0.0 if self._server is None else self._server.cpu_s()

    def cpu_s(self) -> float:
        """Return the CPU time of this process and of the server so far, in seconds."""
        return time.process_time() + self.server_s()


@contextmanager
def database(folder: Path, *, postgresql: bool) -> Iterator[Database]:
    """Hold a server for as long as the block runs, where one is asked for."""
    if not postgresql:
        yield Database(folder, None)
        return
    with own_postgres() as server:
        server.run("ALTER SYSTEM SET autovacuum = off")
        server.run("SELECT pg_reload_conf()")
        yield Database(folder, server)


@asynccontextmanager
async def gateway(store: Store, redis: Redis) -> AsyncIterator[Door]:
    """Run a gateway on a ledger, with as many queues as are measured."""
    async with running_door(store, host=system_host(), redis=redis) as door:
        queues = door.services.work.queues
        for number in range(QUEUES_IN_ALL - len(queues)):
            name = f"queue-{number}"
            queues[name] = WorkQueue(redis, name, priorities=PRIORITIES)
        yield door


async def share_of(
    run: Callable[[], Awaitable[object]], times: int, interval_s: float, cpu_s: Callable[[], float]
) -> float:
    """Return the CPU of something that is done each so many seconds, in per cent of a core."""
    await run()
    began_s = cpu_s()
    for _ in range(times):
        await run()
    return (cpu_s() - began_s) / times / interval_s * 100


def line(name: str, value: float, unit: str, bound: float) -> None:
    note(f"{name:60} {value:9.3f} {unit}{'  OVER' if value > bound else ''}")


async def measure_charts(door: Door, seconds: int, cpu_s: Callable[[], float]) -> None:
    """Sample as a gateway does, once a second."""
    held_shards = HeldShards(1)
    held_shards.add([Fence(0, 1, "g")])
    commits = CommitSamples()
    sampling = ChartSampling(
        door.ledger,
        writing(door.committer),
        commits,
        door.services.work.queues,
        held_shards,
        "1",
    )
    began_s, began_cpu_s = time.perf_counter(), cpu_s()
    with anyio.move_on_after(seconds):
        await sampling.run()
    share = (cpu_s() - began_cpu_s) / (time.perf_counter() - began_s) * 100
    line(f"charts, {QUEUES_IN_ALL} queues, {seconds} s", share, "%", SHARE_OF_CHARTS)


async def measure_snapshot(door: Door, sessions: int, cpu_s: Callable[[], float]) -> None:
    source = LiveSource(door.services, 4)
    await source.read()  # what was before it began is counted once
    share = await share_of(source.read, SNAPSHOTS, 1.0, cpu_s)
    line(f"snapshot a second, {sessions:,} sessions", share, "%", SHARE_OF_SNAPSHOT)


def count_a_month(ledger: Ledger) -> None:
    """Fill every block of charts, as a gateway has after thirty days."""
    now_s = ledger.host.now_us() // 1_000_000
    for resolution in RESOLUTIONS.values():
        newest_s = resolution.start_of(now_s) - resolution.block_s
        series: dict[Series, list[int]] = {
            (measure, f"queue-{number}" if row.of_queue else ""): [
                sample * (number + 1) for sample in range(resolution.samples)
            ]
            for measure, row in MEASURES.items()
            for number in range(QUEUES_IN_ALL if row.of_queue else 1)
        }
        samples = SampleBlock(resolution, newest_s, series=series).to_bytes()
        starts = (newest_s - number * resolution.block_s for number in range(resolution.slots))
        with ledger.transaction() as transaction:
            put_blocks(
                transaction,
                [ChartBlock(resolution.sample_s, 0, start_s, samples) for start_s in starts],
            )


def record_run(ledger: Ledger) -> str:
    """Record a run that ended, and return a token of it."""
    recorder = Recorder(ledger)
    token_id: str = whole_run(recorder, RUN)["token"]["token_id"]
    recorder.complete_run(RUN)
    return token_id


def record_manifests(ledger: Ledger) -> None:
    """Let bindings be evaluated against an event in as many cycles as a page shows, each full."""
    names = [f"bound-{number}" for number in range(FAN_OUT_MAX)]
    furnish(ledger, *(bound(name, "extraction_task") for name in names))
    for cycle in range(CYCLES):
        requests = tuple(
            WorkRequest(
                BINDING_QUEUE, f"{cycle}:{name}", {"binding_id": name, "source_event_id": EVENT}
            )
            for name in names
        )
        with bench_on(ledger) as context:
            receipts = RequestWorkUnit(requests).run(context)
        for receipt in receipts:
            work(ledger, receipt.request_id)


async def furnished(door: Door) -> dict[str, str]:
    """Make one thing for each page that is about one, and return what each is asked for by."""
    await door.declare(SESSION, "a", "b", "c")
    made = await door.operate(
        source("s-1"), understanding("u-1", "s-1"), claim("c-1", "s-1", "u-1")
    )
    async with door.client() as client:
        meaning = {
            "selector_list": {"include": [selector("source_kind", "docket")]},
            "target_kind": "court_disposition_observation",
            "corpus_id": "corpus",
        }
        await SourceBindings(client).create(BINDING, {**meaning, "title": BINDING})
    of_queue = {"queue": QUEUES[0], "limit": 1}
    listed = (await door.http.get("/v1/requests", params=of_queue)).json()["requests"]
    token_id = await anyio.to_thread.run_sync(record_run, door.ledger)
    beat = WorkerBeat("w-1", 7, tuple(QUEUES), 2, 0, 10, 3, 1)
    await door.services.work.heartbeats.beat(beat, 3_600_000)
    bulk = {"verb": "requeue", "filter": {"state": "standing"}, "reason": "measured"}
    begun = (await door.http.post("/v1/bulk-operations", json=bulk)).json()
    await anyio.to_thread.run_sync(count_a_month, door.ledger)
    await anyio.to_thread.run_sync(record_manifests, door.ledger)
    return {
        "queue": QUEUES[0],
        "request_id": listed[0]["request_id"],
        "session_id": SESSION,
        "operation_id": made[-1]["operation_id"],
        "node_id": "u-1",
        "binding_id": BINDING,
        "source_event_id": EVENT.replace("#", "%23"),
        "worker_id": "w-1",
        "run_id": RUN,
        "token_id": token_id,
        "bulk_number": str(begun["bulk_number"]),
        "route_id": "enqueue_v1_queues__queue__requests_post",
        "name": "ErrorBody",
    }


async def measure_pages(door: Door, of: Database) -> None:
    """Ask for each page, of things that are there."""
    names = await furnished(door)
    await anyio.to_thread.run_sync(of.tidy)
    paths = ["/", "/?span=day", "/?span=month", "/v1/charts?span=month"]
    paths += [
        re.sub(r"\{(\w+)(?::\w+)?\}", lambda part: names[part[1]], route.path)
        for route in ROUTES
        if route.method == "GET"
    ]
    paths += [f"/queues/{QUEUES[0]}?span=month", "/requests?state=open", "/requests?words=nothing"]
    paths += ["/search?q=item-3", "/requests?tag=plan%3Dfree&state=dead_letter"]
    ids = [names[each] for each in ("request_id", "operation_id", "session_id", "run_id")]
    ids += [names["token_id"], "u-1"]
    for each in ids:
        paths += [f"/search?q={each}", f"/explain?id={each}"]
    paths += ["/search?q=nothing+at+all", f"/search?q={names['request_id'][:6]}"]
    paths += ["/nodes/u-1?at=3", f"/sessions/{SESSION}?at=3", "/?at=3"]
    paths += ["/bulk-operations/preview?verb=requeue&queue=" + QUEUES[0]]
    for path in paths:
        await door.http.get(path)
        taken, of_server = [], of.server_s()
        for _ in range(PAGES):
            began_s = time.process_time()
            answer = await door.http.get(path)
            taken.append((time.process_time() - began_s) * 1000)
        server_ms = (of.server_s() - of_server) / PAGES * 1000
        line(f"{answer.status_code} {path[:54]}", min(taken) + server_ms, "ms", PAGE_MS)


async def measure(options: argparse.Namespace, of: Database, redis_url: str) -> None:
    ledger = filled(of.store("small"), OPEN * OPEN_SHARE)
    add_sessions(ledger, 0, 200)
    ledger.close()
    of.tidy()
    redis = Redis.from_url(redis_url)
    async with gateway(of.store("small"), redis) as door:
        for start in range(0, OPEN // len(QUEUES), 1000):
            for name in QUEUES:
                queue = door.services.work.queues[name]
                priority, numbers = queue.priorities[-1].name, range(start, start + 1000)
                await queue.enqueue_many(
                    [NewItem(f"i-{number}", priority, "c", b"{}") for number in numbers]
                )
        await measure_charts(door, options.seconds, of.cpu_s)
        await measure_snapshot(door, 200, of.cpu_s)
        await anyio.to_thread.run_sync(add_sessions, door.ledger, 200, options.sessions - 200)
        await anyio.to_thread.run_sync(of.tidy)
        await measure_snapshot(door, options.sessions, of.cpu_s)
    note(f"{options.requests:,} requests, of which one in {OPEN_SHARE} is open:")
    ledger = filled(of.store("large"), options.requests)
    add_sessions(ledger, 0, options.sessions)
    ledger.close()
    redis = Redis.from_url(redis_url)
    async with gateway(of.store("large"), redis) as door:
        await measure_pages(door, of)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="dashboard-") as name,
        database(Path(name), postgresql=options.postgresql) as of,
    ):
        folder = Path(name)
        server = EmbeddedRedis(folder, find_server())
        server.start()
        try:
            anyio.run(measure, options, of, server.url)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
