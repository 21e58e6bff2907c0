"""Counts what an envelope, an elimination, an item and a submit cost, in figures that repeat.

A figure is a mean over a fixed number of requests, behind a few that are not counted. Calls are
those of Python functions and of C functions, on every thread; statements are what is executed on a
connection to SQLite; a round trip is data to PostgreSQL after data from it; commands are those that
Redis runs, with those of its scripts.
"""

import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
from redis.asyncio import Redis

from actors.commit.group_committer import Committer
from actors.commit.units import IntentUnit
from actors.orchestrator.orchestrator import Orchestrator
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres.store import PostgresStore
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import Store
from kernel.model.result import SubmissionResult
from kernel.transaction.kernel import Kernel
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from tests.bench.bench_bytes import reading
from tests.bench.call_paths import drain_an_item, eliminate, opened_door, path_of, submit
from tests.bench.mix import intent_of
from tests.queues.servers import running
from tests.ratchet.idle import timers
from tests.ratchet.round_trips import counted_trips
from tests.workers.api.door import Door, claim, running_door, source, understanding
from workers.environment.system_host import system_host

Counts = Mapping[str, float]

_EXECUTED = frozenset(
    f"{kind}.{method}" for kind in ("Connection", "Cursor") for method in ("execute", "executemany")
)

BATCHES = ((1, 60), (50, 6))
"""Envelopes in a batch, and batches that are counted."""

TRIP_BATCHES = ((1, 20), (16, 4))
UNCOUNTED = 3
"""Batches, and requests, before those that are counted."""

_OF_REQUEST = "/v1/queues/{queue}/requests/{request_id}"
QUESTIONS: Mapping[str, str] = {
    "readiness": "/readyz",
    "requests": "/v1/requests",
    "requests_of_a_queue": "/v1/queues/{queue}/requests",
    "request": _OF_REQUEST,
    "outcome": f"{_OF_REQUEST}/outcome",
    "progress": f"{_OF_REQUEST}/progress",
    "why_it_waits": f"{_OF_REQUEST}/waiting",
    "queues": "/v1/queues",
    "failures": "/v1/failures",
    "dead_letters": "/v1/dead-letters",
    "sessions": "/v1/sessions",
    "node": "/v1/nodes/u",
    "authority": "/v1/audit/authority/u",
    "operation": "/v1/operations/{operation_id}",
    "operations": "/v1/audit/operations",
    "ancestors": "/v1/audit/ancestors/{operation_id}",
    "explanation": "/v1/explain?record_id={operation_id}",
    "log": "/v1/log",
    "inclusion": "/v1/tree/inclusion/1",
    "proof_of_operation": "/v1/tree/operations/{operation_id}",
}
"""What is asked most at a door."""

ASKED = 3
"""How often each is asked."""

REQUESTS = 6
SERVER = "valkey-9"
ITEMS, ITEMS_A_CALL, ITEMS_A_CLAIM = 640, 100, 64


class Calls:
    """The calls made while it counts; for `sys.setprofile`."""

    def __init__(self) -> None:
        self.python = self.c = self.statements = 0
        self.is_counting = False

    def __call__(self, _: FrameType, event: str, called: Any) -> None:
        if not self.is_counting:
            return
        if event == "call":
            self.python += 1
        elif event == "c_call":
            self.c += 1
            self.statements += getattr(called, "__qualname__", "") in _EXECUTED

    def of_each(self, times: int) -> Counts:
        return {
            "calls": self.python / times,
            "calls_of_c": self.c / times,
            "statements": self.statements / times,
        }


@contextmanager
def profiled() -> Iterator[Calls]:
    """Count the calls of this thread and of those that start in the block."""
    calls, before = Calls(), sys.getprofile()
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]


class Submissions:
    """A committer on a new ledger, and the envelopes of the mix, batch by batch."""

    def __init__(self, ledger: Ledger, committer: Committer) -> None:
        self.ledger = ledger
        self._committer = committer
        self._number = 0

    async def write(self, size: int, batches: int) -> None:
        """Write batches of so many envelopes, each batch in one transaction."""
        for _ in range(batches):
            numbers = range(self._number, self._number + size)
            self._number += size
            units = [IntentUnit(intent_of(0, number), "ratchet") for number in numbers]
            for result in await self._committer.commit(units):
                assert isinstance(result, SubmissionResult), result


@asynccontextmanager
async def submissions_to(store: Store) -> AsyncIterator[Submissions]:
    host = system_host()
    ledger = Ledger.create(store, host)
    committer = Committer(ledger, Kernel(), Orchestrator(host))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(committer.run)
        yield Submissions(ledger, committer)
        tasks.cancel_scope.cancel()
    ledger.close()


async def envelopes(size: int, batches: int) -> Counts:
    """Count what an envelope costs on SQLite, and the bytes that it leaves there."""
    with tempfile.TemporaryDirectory() as folder, profiled() as calls:
        path = Path(folder) / "ledger.db"
        async with submissions_to(SqliteStore(path)) as submissions:
            await submissions.write(size, UNCOUNTED)
            before = _payload_bytes(path)
            calls.is_counting = True
            await submissions.write(size, batches)
            calls.is_counting = False
            after = _payload_bytes(path)
    envelopes = size * batches
    return {**calls.of_each(envelopes), "bytes": (after - before) / envelopes}


def _payload_bytes(path: Path) -> int:
    """Return the bytes of all rows and of all entries of indexes."""
    with reading(path) as connection:
        [size] = connection.execute("SELECT sum(payload) FROM dbstat").fetchone()
    return size


async def round_trips(url: str, size: int, batches: int) -> Counts:
    """Count the round trips to PostgreSQL of a commit."""
    with counted_trips(url) as (counted_url, trips):
        async with submissions_to(PostgresStore(counted_url)) as submissions:
            await submissions.write(size, UNCOUNTED)
            before = trips()
            await submissions.write(size, batches)
            made = trips() - before
    return {"round_trips": made / batches}


async def door_trips(url: str) -> Counts:
    """Count the round trips to PostgreSQL of what is asked most at a door."""
    counts = {}
    with counted_trips(url) as (counted_url, trips):
        async with running_door(PostgresStore(counted_url), host=system_host()) as door:
            await door.declare()
            intents = (source("s"), understanding("u", "s"), claim("c", "s", "u"))
            results = await door.operate(*intents)
            listed = (await door.http.get("/v1/requests")).json()["requests"]
            names = {**listed[0], "operation_id": results[0]["operation_id"]}
            for name, path in QUESTIONS.items():
                taken = []
                for _ in range(ASKED):
                    before = trips()
                    answer = await door.http.get(path.format(**names))
                    assert answer.status_code == 200, answer.text
                    taken.append(trips() - before)
                # What the gateway does beside it only adds to it.
                counts[name] = float(min(taken))
    return counts


async def requests(request: Callable[[Door, int], Awaitable[None]]) -> Counts:
    """Count what a request costs through a whole gateway in this process, on SQLite."""
    with profiled() as calls:
        async with opened_door() as door:
            for number in range(UNCOUNTED + REQUESTS):
                calls.is_counting = number >= UNCOUNTED
                await request(door, number)
            calls.is_counting = False
    return calls.of_each(REQUESTS)


async def path(request: Callable[[Door, int], Awaitable[None]]) -> Counts:
    """Count the functions, files and changes of room on the way of a request."""
    way = await path_of(request)
    return {
        "functions": len(way.callers),
        "files": len(way.files),
        "changes_of_room": way.changes_of_room,
    }


async def commands() -> Counts:
    """Count the commands that Redis runs for an item that is enqueued, claimed, acknowledged."""
    with tempfile.TemporaryDirectory() as folder, running(SERVER, Path(folder)) as url:
        redis = Redis.from_url(url)
        queue = WorkQueue(redis, "authority-recompute")
        names = [f"understanding-{number}" for number in range(ITEMS)]
        items = [
            NewItem(name, "background_normal", f"op-{name}", b"x" * 300, name) for name in names
        ]
        await queue.enqueue_many(items[:1])
        before = await _commands_run(redis)
        for start in range(0, ITEMS, ITEMS_A_CALL):
            await queue.enqueue_many(items[start : start + ITEMS_A_CALL])
        between = await _commands_run(redis)
        left = ITEMS
        while left:
            claims = await queue.claim(ITEMS_A_CLAIM, 60_000)
            left -= len(claims)
            await queue.acknowledge(claims)
        after = await _commands_run(redis)
        await redis.aclose()
    return {
        "commands_to_enqueue": (between - before) / ITEMS,
        "commands_to_take": (after - between) / ITEMS,
    }


async def _commands_run(redis: Redis) -> int:
    facts = await redis.info("commandstats")
    return sum(
        stated["calls"] for name, stated in facts.items() if not name.startswith("cmdstat_info")
    )


def _trips_of_doors(url: str) -> Counts:
    return anyio.run(door_trips, url)


def _trips_at(size: int, batches: int, url: str) -> Counts:
    return anyio.run(round_trips, url, size, batches)


ON_SQLITE: Mapping[str, Callable[[], Counts]] = {
    **{
        f"envelope_of_{size}": partial(anyio.run, envelopes, size, batches)
        for size, batches in BATCHES
    },
    "elimination": partial(anyio.run, requests, eliminate),
    "submit": partial(anyio.run, requests, submit),
    "job": partial(anyio.run, requests, drain_an_item),
    "item": partial(anyio.run, commands),
    "path_of_elimination": partial(anyio.run, path, eliminate),
    "path_of_operation": partial(anyio.run, path, submit),
    "path_of_job": partial(anyio.run, path, drain_an_item),
}
"""What is counted without a server of PostgreSQL."""

ON_A_TREE: Mapping[str, Callable[[], Counts]] = {"idle_timers": timers}
"""What is counted of whole processes, which takes half a minute on the clock."""

ON_POSTGRES: Mapping[str, Callable[[str], Counts]] = {
    **{f"commit_of_{size}": partial(_trips_at, size, batches) for size, batches in TRIP_BATCHES},
    "trips_of_doors": _trips_of_doors,
}
