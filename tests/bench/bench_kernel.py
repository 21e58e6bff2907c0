"""Envelopes and eliminations a second, durable on SQLite, beside raw inserts of the same bytes.

    python -m tests.bench.bench_kernel [--json]

Everything is committed with ``synchronous = FULL`` to a file in the temporary directory (TMPDIR).
The peer of each figure writes the rows that its run left behind, table by table with executemany,
into the same tables, keys and indexes of a new file, with as many units to a transaction as the
run had callers. It neither checks, hashes nor reads, and writes nothing twice.
"""

import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import anyio
import structlog
from sqlalchemy import Table

from actors.committer import Committer
from actors.intents import CreateSource
from actors.messages import Declare, Eliminate
from actors.orchestrator import Orchestrator
from actors.runtime import SessionRuntime
from actors.units import IntentUnit
from kernel.belief.terms import DEFAULT_POLICY, OntologyBundle
from kernel.host import Host
from kernel.kernel import Kernel
from kernel.ledger.ledger import Ledger
from kernel.ledger.schema import metadata
from kernel.ledger.sqlite import SqliteStore
from kernel.model.result import SubmissionResult
from tests.bench.report import figure, rate_per_s

MANY = 100
ALONE_COUNT = 600
MANY_COUNT = 6_000
REPEAT = 3
N_HYPOTHESES = 100
ONTOLOGY = OntologyBundle("bench", "v1", "graphstore://bench", "v1")
TEXT = "MOTION to dismiss for failure to state a claim, filed under seal. " * 4
JUSTIFICATION = {"probe": "check_replication_lag", "outcome": "high", "confidence": 0.93}

# Written anew with each transaction or once for the ledger, not with each unit.
UNCOUNTED_TABLES = ("chain_head", "policy_snapshots")


class Run:
    """One ledger in a new file, and what works on it."""

    def __init__(self, folder: Path) -> None:
        host = Host(lambda: time.time_ns() // 1000, os.urandom)
        self.path = folder / "ledger.db"
        self.ledger = Ledger.create(SqliteStore(self.path), host)
        self.committer = Committer(self.ledger, Kernel(), Orchestrator(host))
        self.sessions = SessionRuntime(self.ledger, self.committer, host)
        self.seconds = 0.0

    async def work(self, prepare: Callable, do: Callable, callers: int, each: int) -> None:
        """Let callers do their thing `each` times, all at once; only that is timed."""
        async with anyio.create_task_group() as process:
            ready = anyio.Event()
            process.start_soon(self.committer.run)
            process.start_soon(self.sessions.run, ready.set)
            await ready.wait()
            await prepare(self, callers)
            started_s = time.perf_counter()
            async with anyio.create_task_group() as tasks:
                for caller in range(callers):
                    tasks.start_soon(_repeat, partial(do, self, caller), each)
            self.seconds = time.perf_counter() - started_s
            process.cancel_scope.cancel()
        self.ledger.close()


async def _repeat(do: Callable[[int], Awaitable[None]], times: int) -> None:
    for number in range(times):
        await do(number)


async def prepare_nothing(_: Run, __: int) -> None:
    """Envelopes need no session."""


async def submit_envelope(run: Run, caller: int, number: int) -> None:
    node_id = f"source-{caller}-{number}"
    intent = CreateSource(
        intent_key=node_id, node_id=node_id, corpus_id="c", content_kind="motion", text=TEXT
    )
    (result,) = await run.committer.commit([IntentUnit(intent, "bench")])
    if not isinstance(result, SubmissionResult):
        raise TypeError(f"refused: {result}")


async def declare_sessions(run: Run, count: int) -> None:
    names = tuple(f"hypothesis-{number:04d}" for number in range(N_HYPOTHESES))
    for number in range(count):
        await run.sessions.ask(f"s-{number}", Declare(ONTOLOGY, names, DEFAULT_POLICY))


async def eliminate(run: Run, caller: int, number: int) -> None:
    struck = f"hypothesis-{number % N_HYPOTHESES:04d}"
    message = Eliminate("adapter://bench", f"o-{number}", (struck,), JUSTIFICATION)
    await run.sessions.ask(f"s-{caller}", message)


def rows_of(path: Path) -> Iterator[tuple[Table, list[tuple]]]:
    """Every table that the run wrote to, with its rows."""
    with closing(sqlite3.connect(path)) as connection:
        for table in metadata.sorted_tables:
            if table.name not in UNCOUNTED_TABLES:
                rows = connection.execute(f"SELECT * FROM {table.name} ORDER BY rowid").fetchall()  # noqa: S608
                if rows:
                    yield table, rows


@contextmanager
def new_ledger_file(folder: Path) -> Iterator[sqlite3.Connection]:
    """A file with the ledger's tables, keys, indexes and triggers, and nothing that uses them."""
    path = folder / "raw.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        yield connection


def insert_raw(tables: list[tuple[Table, list[tuple]]], count: int, batch: int) -> float:
    """Return the seconds of writing the rows of `count` units, `batch` units to a transaction."""
    turns = max(1, count // batch)
    statements = [
        (f"INSERT INTO {table.name} VALUES ({','.join('?' * len(rows[0]))})", rows)  # noqa: S608
        for table, rows in tables
    ]
    with tempfile.TemporaryDirectory() as folder, new_ledger_file(Path(folder)) as connection:
        started_s = time.perf_counter()
        for turn in range(turns):
            connection.execute("BEGIN IMMEDIATE")
            for sql, rows in statements:
                share = slice(len(rows) * turn // turns, len(rows) * (turn + 1) // turns)
                connection.executemany(sql, rows[share])
            connection.execute("COMMIT")
        return time.perf_counter() - started_s


def measure(name: str, prepare: Callable, do: Callable, callers: int, count: int) -> None:
    """Print the best rate of the rounds, and its ratio to the best raw rate of the same rounds."""
    best = raw = 0.0
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(Path(folder))
            anyio.run(run.work, prepare, do, callers, count // callers)
            best = max(best, count / run.seconds)
            tables = list(rows_of(run.path))
        raw = max(raw, count / insert_raw(tables, count, callers))
    figure(name, best, "/s", ratio=best / raw, of=f"raw inserts, {callers} to a transaction")


def bare_commits() -> int:
    """How often a row of one integer can be made durable, a transaction each."""
    count = 300
    with tempfile.TemporaryDirectory() as folder, new_ledger_file(Path(folder)) as connection:
        connection.execute("CREATE TABLE bare (n INTEGER)")
        for number in range(count):
            connection.execute("INSERT INTO bare VALUES (?)", (number,))
    return count


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    figure("bare commits of one row", rate_per_s(bare_commits, repeat=REPEAT), "/s")
    envelopes = (prepare_nothing, submit_envelope)
    eliminations = (declare_sessions, eliminate)
    measure("envelopes, 1 submitter", *envelopes, 1, ALONE_COUNT)
    measure(f"envelopes, {MANY} submitters", *envelopes, MANY, MANY_COUNT)
    measure("eliminations, 1 session", *eliminations, 1, ALONE_COUNT)
    measure(f"eliminations, {MANY} sessions", *eliminations, MANY, MANY_COUNT)


if __name__ == "__main__":
    main()
