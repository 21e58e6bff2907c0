"""Recording runs on SQLite, and explaining a token of a large run (seed 003).

    python -m tests.bench.bench_landscape [--json] [--rows 20000]

Each row becomes what a short pipeline records of it: a row, a token, two states with begin and
end, an outcome. A record counts when its group is durable. The peer writes rows of as many columns
into tables of the same shapes with the driver's `executemany`, a transaction for as many records.
"""

import argparse
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from kernel.landscape.digest import digest_of
from kernel.landscape.lineage import lineage_of
from kernel.landscape.record_group import GROUP_RECORDS
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.tables import TableQuery
from tests.bench.report import figure, machine, note
from workers.environment.system_host import system_host

RECORDS_PER_ROW = 5
EXPLAINED = 1000


def record(recorder: Recorder, rows: int) -> list[str]:
    """Record a run of so many rows, durable when this returns, and return its tokens."""
    recorder.begin_run({"bench": True}, run_id="run")
    for node_id, kind in (("source", "source"), ("parse", "transform"), ("sink", "sink")):
        recorder.register_node("run", node_id, node_id, kind)
    tokens = []
    for number in range(rows):
        data = {"docket": f"24-{number}", "text": "ORDER granting motion", "page": number}
        row = recorder.create_row("run", "source", number, data)
        token_id = recorder.create_token("run", row["row_id"])["token_id"]
        for place, node_id in enumerate(("parse", "sink")):
            state = recorder.begin_node_state("run", token_id, node_id, place, data)
            recorder.complete_node_state(
                "run", state["state_id"], "completed", output=data, duration_us=10
            )
        recorder.record_token_outcome("run", token_id, "completed", sink_name="sink")
        tokens.append(token_id)
    recorder.flush()
    return tokens


def copied(ledger: Ledger, source: Path, path: Path) -> float:
    """Write the same rows with the driver alone, and return how many a second."""
    names = ("rows", "tokens", "node_states", "token_outcomes")
    with ledger.view() as view:
        held = {
            name: view.tables.scan(TableQuery(TABLES[name], {"run_id": "run"})) for name in names
        }
    made = {name: _definitions(source, str(TABLES[name].name)) for name in names}
    groups = []
    for name, rows in held.items():
        values = [tuple(row.values()) for row in rows]
        each = max(1, GROUP_RECORDS * len(values) // sum(map(len, held.values())))
        groups.append((name, [values[at : at + each] for at in range(0, len(values), each)]))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        for statements in made.values():
            for statement in statements:
                database.execute(statement)
        started = time.perf_counter()
        for number in range(max(len(parts) for _, parts in groups)):
            database.execute("BEGIN IMMEDIATE")
            for name, parts in groups:
                if number < len(parts):
                    marks = ", ".join("?" * len(column_names(TABLES[name])))
                    sql = f"INSERT INTO {TABLES[name].name} VALUES ({marks})"  # noqa: S608
                    database.executemany(sql, parts[number])
            database.execute("COMMIT")
        took = time.perf_counter() - started
    return sum(map(len, held.values())) / took


def _definitions(source: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(source)) as database:
        rows = database.execute(
            "SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL", (table,)
        ).fetchall()
    return [sql for (sql,) in rows]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    machine(rows=options.rows, group_records=GROUP_RECORDS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.db"
        ledger = Ledger.create(SqliteStore(file), system_host())
        recorder = Recorder(ledger)
        started, computed = time.perf_counter(), time.process_time()
        tokens = record(recorder, options.rows)
        took, cpu = time.perf_counter() - started, time.process_time() - computed
        records = options.rows * RECORDS_PER_ROW
        peer = copied(ledger, file, Path(folder) / "peer.db")
        figure("records recorded", records / took, "/s", ratio=records / took / peer, of="driver")
        figure("records for a second of CPU", records / cpu, "/s")
        figure("the driver alone", peer, "/s")
        times = []
        every = max(1, len(tokens) // EXPLAINED)
        for token_id in tokens[::every]:
            begun = time.perf_counter()
            with ledger.view() as view:
                lineage_of(view, "run", token_id)
            times.append((time.perf_counter() - begun) * 1000)
        quantiles = statistics.quantiles(times, n=100)
        figure("explain a token, median", statistics.median(times), "ms")
        figure("explain a token, 99 of 100", quantiles[98], "ms")
        started = time.perf_counter()
        with ledger.view() as view:
            count = digest_of(view, "run").record_count
        figure("records digested", count / (time.perf_counter() - started), "/s")
        ledger.close()
    note("A state counts once: it is begun and completed in the same group here.")


if __name__ == "__main__":
    main()
