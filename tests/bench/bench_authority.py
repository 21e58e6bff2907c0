"""Reading authorities at a million nodes, and a cascade over 100,000 descendants (V4-AT-37, §8).

    python -m tests.bench.bench_authority [--json] [--nodes N] [--descendants N] [--shape NAME]

The nodes and edges that are there before are written into the tables directly; nobody can tell.

- *reading*: the materialized authority of a random understanding, each in a snapshot of its own,
  beside a lookup by primary key with the driver alone, of the same file, in turn with it.
- *cascade*: a claim changes; requests are recorded (in pages, as it is wide), what is ready is read
  from snapshots and computed as a worker does, and the values are recorded by envelopes of a page
  each through all checks, 256 values to a transaction, with ``synchronous = FULL``. Its peer writes
  the rows that this left behind into a new file, with as many transactions, and does nothing else.
"""

import argparse
import gc
import logging
import random
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import structlog

from actors.commit.batch import Waiting, run_units, whole
from actors.commit.recompute_units import RecomputeUnit
from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit, Unit, records_read
from actors.orchestrator.intents import (
    AdaptFields,
    EnqueueRecompute,
    InputsStated,
    RecalculateAuthority,
)
from actors.orchestrator.orchestrator import Orchestrator
from kernel.authority.enqueue_pages import plan_deferred
from kernel.authority.read_ahead import Around, read_ahead
from kernel.authority.requests import (
    AUTHORITY_QUEUE,
    CASCADE_QUEUE,
    CASCADES,
    freed_requests,
    ready_items,
)
from kernel.authority.value import authority_of
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import canonicalize, digest
from tests.bench.bench_kernel import insert_raw, rows_of
from tests.bench.report import figure, machine, note
from workers.environment.memory import settle_memory
from workers.environment.system_host import system_host
from workers.views.records import describe_node

READS = 20_000
BATCH = 256
BUDGET_S = 30
COLUMNS = 100
"""Of the deep shapes: how many understandings stand one below the other."""

_AT = "2026-01-01T00:00:00.000000Z"
_UNDERSTANDING, _CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"

Pairs = Iterator[tuple[str, str]]


def node_row(node_id: str, kind: str, **payload: object) -> dict:
    """A node as an operation would have written it."""
    record = {
        "node_id": node_id,
        "node_kind": kind,
        "state": "active",
        "visibility_class": "public_open",
        "version": 1,
        "payload": payload,
        "created_by_operation_id": "before",
        "updated_by_operation_id": "before",
        "updated_at": _AT,
    }
    return {
        "node_id": node_id,
        "node_kind": kind,
        "overlay_in_force": 0,
        "overlay_target": None,
        "identity_key": None,
        "updated_at": _AT,
        "record": canonicalize(record),
    }


def edge_row(source: str, target: str) -> dict:
    """An edge through which one feeds the other."""
    edge_id = f"edge:{source}->{target}"
    record = {
        "edge_id": edge_id,
        "source_node_id": source,
        "target_node_id": target,
        "edge_type": "informs",
        "edge_metadata": {"essentiality": "core"},
        "state": "active",
        "version": 1,
        "updated_by_operation_id": "before",
        "updated_at": _AT,
    }
    return {
        "edge_id": edge_id,
        "source_node_id": source,
        "target_node_id": target,
        "input_from": _CLAIM if source.startswith("claim") else _UNDERSTANDING,
        "active": 1,
        "record": canonicalize(record),
    }


def name_of(number: int) -> str:
    return f"cu-{number:07d}"


def wide(count: int) -> Pairs:
    """One claim feeds all."""
    for number in range(count):
        yield "claim", name_of(number)


def deep(count: int) -> Pairs:
    """Chains of a hundred, side by side."""
    width = max(1, count // COLUMNS)
    for number in range(count):
        yield name_of(number - width) if number >= width else "claim", name_of(number)


def shared(count: int) -> Pairs:
    """A hundred levels; each understanding has two parents, most of which feed two."""
    width = max(1, count // COLUMNS)
    for number in range(count):
        level, column = divmod(number, width)
        parents = {column, (column * 7 + 1) % width} if level else set()
        for parent in sorted(parents):
            yield name_of((level - 1) * width + parent), name_of(number)
        if not level:
            yield "claim", name_of(number)


SHAPES: dict[str, Callable[[int], Pairs]] = {"wide": wide, "deep": deep, "shared": shared}


def found_ledger(path: Path, count: int, pairs: Pairs) -> Ledger:
    """A ledger with so many understandings below one claim."""
    store = SqliteStore(path)
    ledger = Ledger.create(store, system_host())
    with store.transaction() as tables:
        tables.insert(schema.nodes, node_row("claim", _CLAIM, authority=0.8))
        for numbers in batched_rows(range(count)):
            tables.insert_many(
                schema.nodes,
                [
                    node_row(name_of(number), _UNDERSTANDING, title="t", cu_authority=0.5)
                    for number in numbers
                ],
            )
        for batch in batched_rows(pairs):
            tables.insert_many(schema.edges, [edge_row(*pair) for pair in batch])
    return ledger


def batched_rows(rows: Iterable) -> Iterator[list]:
    remaining = iter(rows)
    while batch := list(islice(remaining, 10_000)):
        yield batch


# Reading


def stored_authority(view: LedgerView, node_id: str) -> float | None:
    return view.node(node_id)["payload"].get("cu_authority")


def measure_reading(count: int) -> None:
    """Print median and p99 of one lookup, beside the driver's own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger = found_ledger(path, count, iter(()))
        names = [name_of(number) for number in random.choices(range(count), k=READS)]
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as raw:

            def look(name: str) -> None:
                raw.execute("SELECT record FROM nodes WHERE node_id = ?", (name,)).fetchone()

            def in_view(question: Callable[[LedgerView, str], object]) -> Callable[[str], None]:
                def ask(name: str) -> None:
                    with ledger.view() as view:
                        question(view, name)

                return ask

            questions = {
                "authority read": in_view(stored_authority),
                "authority read, with since when it is stale": in_view(describe_node),
            }
            times: dict[str, list[float]] = {name: [] for name in (*questions, "raw")}
            for name in names:
                # Whoever asks first pays for a page that is not in memory yet.
                for label, ask in random.sample([*questions.items(), ("raw", look)], k=3):
                    started_s = time.perf_counter()
                    ask(name)
                    times[label].append(time.perf_counter() - started_s)
        ledger.close()
    bare = sorted(times.pop("raw"))
    for label, seconds in times.items():
        ordered = sorted(seconds)
        for part, place in (("median", len(ordered) // 2), ("p99", len(ordered) * 99 // 100)):
            figure(
                f"{label}, {count:,} nodes, {part}",
                ordered[place] * 1000,
                "ms",
                ratio=ordered[place] / bare[place],
                of="a raw lookup by key, the same part",
            )


# The cascade


class CascadeRun:
    """One cascade on one ledger, and how long its parts took."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.kernel, self.orchestrator = Kernel(), Orchestrator(ledger.host)
        self.seconds: dict[str, float] = {}

    def cascade(self) -> int:
        """Change the claim, and recompute until nothing is open; return how many that were."""
        with self.part("trigger"):
            change = AdaptFields(intent_key="k", node_id="claim", fields={"authority": 0.3})
            self.write([IntentUnit(change, None)])
        with self.part("requests written down"):
            self.write_down()
        with self.part("readiness"), self.ledger.view() as view:
            ready = keys_of(ready_items(view, view.open_requests(limit=10_000_000)))
        count = 0
        while ready:
            batch, ready = ready[:BATCH], ready[BATCH:]
            with self.part("computed by workers"):
                units = self.compute(batch)
            with self.part("recorded"):
                self.write(units)
            count += len(batch)
            with self.part("readiness"), self.ledger.view() as snapshot:
                view = snapshot.batch()
                read_ahead(view, [(Around.BELOW, node_id) for node_id in batch])
                ready += keys_of(freed_requests(view, batch))
        return count

    def write_down(self) -> None:
        while True:
            with self.ledger.view() as view:
                waiting = view.open_requests_of(CASCADE_QUEUE, CASCADES)
                pages = plan_deferred(view, waiting[0]) if waiting else []
            if not pages:
                return
            for page in pages:
                intent = EnqueueRecompute(intent_key=digest(page.model_dump()), asked_for=page)
                self.write([IntentUnit(intent, None, "system")])

    def compute(self, targets: list[str]) -> list[RecomputeUnit]:
        with self.ledger.view() as snapshot:
            view = snapshot.batch()
            sequence = view.head().ec_sequence_number
            read_ahead(view, [(Around.INPUTS, target) for target in targets])
            return [
                RecomputeUnit(self.computed(view, target, sequence), None) for target in targets
            ]

    def computed(self, view: LedgerView, target: str, sequence: int) -> RecalculateAuthority:
        requests = view.open_requests_of(AUTHORITY_QUEUE, target)
        value, inputs = authority_of(view, self.kernel.strategy, view.node(target) or {})
        return RecalculateAuthority(
            intent_key=digest([requests[0].request_id, sequence]),
            target_cu_id=target,
            as_of_sequence=sequence,
            cu_authority=value,
            inputs=InputsStated.model_validate(inputs.document()),
        )

    def write(self, units: list[Unit]) -> None:
        with self.ledger.transaction() as transaction:
            context = CommitContext(transaction, self.kernel, self.orchestrator)
            policy = transaction.policy_generation_id()
            read_ahead(transaction, (key for unit in units for key in records_read(unit, policy)))
            [part] = whole([Waiting(units)])
            for result in run_units(part, context):
                if isinstance(result, tuple) and result[0] != "completed":
                    raise ValueError(f"not recorded: {result}")

    def part(self, name: str) -> "_Part":
        return _Part(self.seconds, name)


class _Part:
    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.started_s = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        took_s = time.perf_counter() - self.started_s
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + took_s


def keys_of(requests) -> list[str]:
    return list(dict.fromkeys(request.item_key for request in requests))


def measure_cascade(shape: str, count: int) -> None:
    """Print how long a cascade takes, in all and in its parts, and the ratio to its peer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        run = CascadeRun(found_ledger(path, count, SHAPES[shape](count)))
        gc.collect()
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        done = run.cascade()
        seconds = time.perf_counter() - started_s
        cpu_seconds = time.process_time() - started_cpu_s
        run.ledger.close()
        if done != count:
            raise ValueError(f"{done} recomputes of {count}")
        tables = [(table, rows) for table, rows in rows_of(path) if table.name != "edges"]
        raw_seconds = insert_raw(tables, count, BATCH)
    name = f"cascade, {shape}, {count:,} recomputes"
    figure(name, seconds, "s", ratio=seconds / raw_seconds, of="the same rows, time")
    figure(f"{name}, CPU time", cpu_seconds, "s", ratio=cpu_seconds / BUDGET_S, of="30 s")
    for part, took_s in run.seconds.items():
        figure(f"{name}: {part}", took_s, "s")


def measure_width(count: int) -> None:
    """Print what one recompute of very many inputs takes, and the memory that it adds."""
    with tempfile.TemporaryDirectory() as folder:
        claims = [f"claim-{number:07d}" for number in range(1, count)]
        pairs = ((name, name_of(0)) for name in ("claim", *claims))
        run = CascadeRun(found_ledger(Path(folder) / "ledger.db", 1, pairs))
        for batch in batched_rows(claims):
            with run.ledger.store.transaction() as tables:
                rows = [node_row(name, _CLAIM, authority=0.5) for name in batch]
                tables.insert_many(schema.nodes, rows)
        gc.collect()
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run.cascade()
        added_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
        with run.ledger.view() as view:
            stated = (view.node(name_of(0)) or {})["payload"]["cu_authority_inputs"]["count"]
        run.ledger.close()
        if stated != count:
            raise ValueError(f"{stated} inputs of {count}")
    name = f"one recompute of {count:,} inputs"
    for part in ("computed by workers", "recorded"):
        figure(f"{name}: {part}", run.seconds[part], "s")
    figure(f"{name}: memory at its peak, added", added_kib / 1024, "MiB")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--nodes", type=int, default=1_000_000)
    arguments.add_argument("--descendants", type=int, default=100_000)
    arguments.add_argument("--inputs", type=int, default=1_000_000)
    arguments.add_argument("--shape", choices=SHAPES, action="append")
    options = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    settle_memory()  # as every command does
    machine(synchronous="FULL", batch=BATCH, reads=READS)
    note("reading and recording take turns in one thread; a fleet does them side by side")
    if options.nodes:
        measure_reading(options.nodes)
    if options.inputs:
        measure_width(options.inputs)
    for shape in options.shape or SHAPES:
        if options.descendants:
            measure_cascade(shape, options.descendants)


if __name__ == "__main__":
    main()
