"""Purging the payloads of old runs from an SQLite ledger, and the space that the file gives back.

    python -m tests.bench.bench_purge [--json] [--payloads 100000] [--bytes 1000]

Two runs that go on at the same time keep as many payloads each, so that the pages of the run that
is purged lie among those of the one that stays. The peer deletes the same rows from a copy of the
file with one statement and rewrites the file with VACUUM, which no writer may do meanwhile.
"""

import argparse
import shutil
import sqlite3
import tempfile
import time
from collections import deque
from contextlib import closing
from pathlib import Path

from kernel.landscape.payloads import purge_payloads
from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.bench.report import figure, machine, note
from workers.environment.system_host import system_host
from workers.use_cases.log_archiving import give_space_back

RUNS = ("old", "new")


def record(ledger: Ledger, payloads: int, size: int) -> None:
    """Record two runs at once that keep so many payloads each, and end one."""
    recorders = {run_id: Recorder(ledger) for run_id in RUNS}
    for run_id, recorder in recorders.items():
        recorder.begin_run({}, run_id=run_id)
        recorder.register_node(run_id, "source", "source", "source")
    for number in range(payloads):
        for run_id, recorder in recorders.items():
            data = {"n": number, "text": f"{number:08d}" * (size // 8)}
            recorder.create_row(run_id, "source", number, data, keep_payload=True)
    recorders["old"].complete_run("old", "completed")
    recorders["new"].flush()


def peer(path: Path) -> float:
    """Delete and rewrite with the driver alone; return the seconds of CPU."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA secure_delete = ON")
        computed = time.process_time()
        database.execute("DELETE FROM landscape_payloads WHERE run_id = 'old'")
        database.execute("VACUUM")
        return time.process_time() - computed


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--payloads", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    machine(payloads=options.payloads, bytes=options.bytes)
    with tempfile.TemporaryDirectory() as name:
        file, copy = Path(name) / "ledger.db", Path(name) / "copy.db"
        ledger = Ledger.create(SqliteStore(file), system_host())
        record(ledger, options.payloads, options.bytes)
        ledger.close()
        shutil.copyfile(file, copy)
        before = file.stat().st_size
        ledger = Ledger.create(SqliteStore(file), system_host())
        computed = time.process_time()
        result = purge_payloads(ledger, before_us=1 << 60)
        purged = time.process_time()
        deque(give_space_back(ledger), 0)
        ledger.close()
        ended = time.process_time()
        after, peer_cpu = file.stat().st_size, peer(copy)
        assert result.deleted_count == options.payloads
        figure("the file before", before / 1e6, "MB")
        figure(
            "the file afterwards", after / 1e6, "MB", ratio=after / copy.stat().st_size, of="VACUUM"
        )
        figure("of the payloads' bytes given back", (before - after) / result.bytes_freed, "x")
        figure("CPU of the purge", purged - computed, "s")
        figure("CPU of giving back", ended - purged, "s")
        figure(
            "CPU together", ended - computed, "s", ratio=(ended - computed) / peer_cpu, of="VACUUM"
        )
        figure("payloads purged for a second of CPU", options.payloads / (ended - computed), "/s")
    note("A file made by a program older than decision kernel/0381 keeps its size.")


if __name__ == "__main__":
    main()
