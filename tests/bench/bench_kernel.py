"""Envelopes and eliminations a second, durable on SQLite, each beside its peers of the same run.

    python -m tests.bench.bench_kernel [--json]

Everything is committed with ``synchronous = FULL`` to a file in the temporary directory (TMPDIR).
Each figure is the best of a few rounds, and so is each peer, in turn with it:

- *the same rows*: what the run left behind, table by table with executemany, into the same tables,
  keys and indexes of a new file. It neither checks, hashes nor reads.
- *one row*: the bytes of each envelope, a row of two columns for each.
- *eventsourcing*: the SQLite recorder of that package, one stored event for each envelope.

All of them commit as many units in a transaction as the run had submitters. The mix of envelopes
is that of `tests.bench.mix`: three effects on average, and the requests and receipts they cause.

What the tree over the log costs is the CPU time of envelopes beside that of as many on a second
ledger whose commits leave the tree out, frontier and tiles. Both grow in turns in one process.
"""

import logging
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from unittest.mock import patch

import anyio
import structlog
from sqlalchemy import Table

from actors.commit.group_committer import BATCH_MAX_UNITS, Committer
from actors.commit.units import IntentUnit
from actors.messages import Declare, Eliminate
from actors.orchestrator.orchestrator import Orchestrator
from actors.sessions.runtime import SessionRuntime
from actors.sharding import SHARDS_DEFAULT
from actors.sharding.held_shards import HeldShards
from kernel.belief.terms import DEFAULT_POLICY, OntologyBundle
from kernel.ledger.ledger import Ledger
from kernel.ledger.schema import metadata
from kernel.ledger.shards import create_shards, shards_of, take_shards
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import Store
from kernel.model.result import SubmissionResult
from kernel.transaction.kernel import Kernel
from kernel.verify.links import walk_log
from tests.bench.mix import EFFECTS_PER_ENVELOPE, intent_of
from tests.bench.peers import PEER_MISSING, append_events, hash_rows, insert_envelopes
from tests.bench.report import figure, machine, note, rate_per_s
from workers.environment.memory import settle_memory
from workers.environment.system_host import system_host

SUBMITTERS = ((1, 600), (10, 3_000), (100, 6_000))
"""How many at once, and how many envelopes they submit together."""

REPEAT = 3
TREE_TURNS = 12
TREE_SUBMITTERS = ((1, 60), (100, 1_000))
"""How many at once, and how many envelopes they submit together in a turn."""

SESSIONS = ((1, 600), (100, 6_000))
N_HYPOTHESES = 100
ONTOLOGY = OntologyBundle("bench", "v1", "graphstore://bench", "v1")
JUSTIFICATION = {"probe": "check_replication_lag", "outcome": "high", "confidence": 0.93}

# Written anew with each transaction or once for the ledger, not with each unit.
UNCOUNTED_TABLES = ("chain_head", "policy_snapshots", "shard_epochs", "gateway_keys", "ledger_ids")


class Run:
    """One ledger, in a new file unless a store is given, and what works on it."""

    def __init__(self, folder: Path, store: Store | None = None) -> None:
        host = system_host()
        self.path = folder / "ledger.db"
        self.ledger = Ledger.create(store or SqliteStore(self.path), host)
        self.committer = Committer(self.ledger, Kernel(), Orchestrator(host))
        # As a gateway does it: whatever is written is held against the epoch of its shard.
        held_shards = HeldShards(SHARDS_DEFAULT)
        with self.ledger.transaction() as transaction:
            create_shards(transaction, SHARDS_DEFAULT)
            held_shards.add(take_shards(transaction, "bench", shards_of(transaction)))
        self.fence_for = held_shards.fence_for
        self.sessions = SessionRuntime(self.ledger, self.committer, held_shards=held_shards)
        self.seconds = self.cpu_seconds = 0.0
        self.latencies_ms: list[float] = []

    async def work(self, prepare: Callable, do: Callable, callers: int, repetitions: int) -> None:
        """Let callers do their thing so many times, all at once; only that is timed."""
        async with anyio.create_task_group() as process:
            ready = anyio.Event()
            process.start_soon(self.committer.run)
            process.start_soon(self.sessions.run, ready.set)
            await ready.wait()
            await prepare(self, callers)
            await self.timed(do, range(callers), repetitions)
            process.cancel_scope.cancel()
        self.ledger.close()

    async def timed(self, do: Callable, callers: range, repetitions: int) -> None:
        """Let callers do their thing, all at once, and add up what that takes."""
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        async with anyio.create_task_group() as tasks:
            for caller in callers:
                tasks.start_soon(self._repeat, partial(do, self, caller), repetitions)
        self.seconds += time.perf_counter() - started_s
        self.cpu_seconds += time.process_time() - started_cpu_s

    async def _repeat(self, do: Callable[[int], Awaitable[None]], times: int) -> None:
        for number in range(times):
            started_s = time.perf_counter()
            await do(number)
            self.latencies_ms.append((time.perf_counter() - started_s) * 1000)


async def prepare_nothing(_: Run, __: int) -> None:
    """Envelopes need no session."""


async def submit_envelope(run: Run, caller: int, number: int) -> None:
    unit = IntentUnit(intent_of(caller, number), "bench")
    (result,) = await run.committer.commit([unit], run.fence_for(f"s-{caller}"))
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


def tree_left_out(_: object, stored: bytes, __: int, ___: int) -> bytes:
    """Stand in for `kernel.ledger.log_tree.grow_tree`: neither frontier nor tiles move."""
    return stored


async def grow_in_turns(with_tree: Run, without: Run, callers: int, repetitions: int) -> None:
    """Let callers submit envelopes to two ledgers in turns, of which one leaves its tree out."""
    left_out = partial(patch, "kernel.ledger.ledger.grow_tree", tree_left_out)
    pair = ((with_tree, nullcontext), (without, left_out))
    async with anyio.create_task_group() as process:
        for run, _ in pair:
            process.start_soon(run.committer.run)
        for turn in range(TREE_TURNS):
            # Whoever goes first changes with each turn.
            for run, context in pair if turn % 2 else pair[::-1]:
                with context():
                    submitters = range(turn * callers, (turn + 1) * callers)
                    await run.timed(submit_envelope, submitters, repetitions)
        process.cancel_scope.cancel()
    for run, _ in pair:
        run.ledger.close()


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


def measure_envelopes(callers: int, count: int) -> None:
    """Print rate and latencies of the best round, and its ratio to each peer's best round."""
    best: Run | None = None
    peers = {"the same rows": insert_raw_of, "one row": insert_envelopes}
    if PEER_MISSING is None:
        peers["eventsourcing"] = append_events
    seconds = dict.fromkeys(peers, float("inf"))
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(Path(folder))
            anyio.run(run.work, prepare_nothing, submit_envelope, callers, count // callers)
            best = run if best is None or run.seconds < best.seconds else best
            tables = list(rows_of(run.path))
        for name, peer in peers.items():
            seconds[name] = min(seconds[name], peer(tables, count, callers))
    if best is None:
        return
    name = f"envelopes, {callers} submitter{'s' * (callers > 1)}"
    rate = count / best.seconds
    for peer_name, peer_seconds in seconds.items():
        ratio = rate * peer_seconds / count
        figure(name, rate, "/s", ratio=ratio, of=f"{peer_name}, {callers} to a transaction")
    if PEER_MISSING is not None:
        note(f"{name}: no ratio to {PEER_MISSING}")
    figure(f"{name}, CPU time each", best.cpu_seconds / count * 1e6, "us")
    ordered = sorted(best.latencies_ms)
    figure(f"{name}, latency p50", ordered[len(ordered) // 2], "ms")
    figure(f"{name}, latency p99", ordered[len(ordered) * 99 // 100], "ms")


def measure_tree(callers: int, count: int) -> None:
    """Print what an envelope costs with the tree over the log, and its ratio to one without."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        with_tree, without = Run(Path(first)), Run(Path(second))
        anyio.run(grow_in_turns, with_tree, without, callers, count // callers)
    name = f"envelopes and their tree, {callers} submitter{'s' * (callers > 1)}, CPU time each"
    ratio = with_tree.cpu_seconds / without.cpu_seconds
    each_us = with_tree.cpu_seconds / (TREE_TURNS * count) * 1e6
    figure(name, each_us, "us", ratio=ratio, of="the tree left out, in turns")


def insert_raw_of(tables: list[tuple[Table, list[tuple]]], count: int, batch: int) -> float:
    """The peer that writes everything that the envelopes did."""
    return insert_raw(tables, count, batch)


def measure_eliminations(callers: int, count: int) -> None:
    """Print the best rate of the rounds, and its ratio to the best raw rate of the same rounds."""
    best = raw = 0.0
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(Path(folder))
            anyio.run(run.work, declare_sessions, eliminate, callers, count // callers)
            best = max(best, count / run.seconds)
            tables = list(rows_of(run.path))
        raw = max(raw, count / insert_raw(tables, count, callers))
    name = f"eliminations, {callers} session{'s' * (callers > 1)}"
    figure(name, best, "/s", ratio=best / raw, of=f"the same rows, {callers} to a transaction")


def measure_chain() -> None:
    """Print how fast the log's chain is walked, and the ratio to hashing the same bytes bare."""
    callers, count = SUBMITTERS[-1]
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        anyio.run(run.work, prepare_nothing, submit_envelope, callers, count // callers)
        contents = read_contents(run.path)
        with run.ledger.view() as view:
            walked = rate_per_s(lambda: walk_log(view.tables).rows, repeat=REPEAT)
        run.ledger.close()
        read = rate_per_s(lambda: hash_rows(read_contents(run.path)), repeat=REPEAT)
    hashed = rate_per_s(lambda: hash_rows(contents), repeat=REPEAT)
    name = "log rows verified as a chain"
    figure(name, walked, "/s", ratio=walked / hashed, of="bare SHA-256 of the bytes in memory")
    figure(name, walked, "/s", ratio=walked / read, of="bare SHA-256, the bytes read from the file")


def read_contents(path: Path) -> list[bytes]:
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT row_bytes FROM kernel_event_log ORDER BY ec_sequence_number"
        return [row[0] for row in connection.execute(sql)]


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
    settle_memory()  # as every command does
    machine(
        synchronous="FULL",
        batch_max_units=BATCH_MAX_UNITS,
        effects_per_envelope=EFFECTS_PER_ENVELOPE,
        rounds=REPEAT,
    )
    figure("bare commits of one row", rate_per_s(bare_commits, repeat=REPEAT), "/s")
    for callers, count in SUBMITTERS:
        measure_envelopes(callers, count)
    for callers, count in TREE_SUBMITTERS:
        measure_tree(callers, count)
    measure_chain()
    for callers, count in SESSIONS:
        measure_eliminations(callers, count)


if __name__ == "__main__":
    main()
