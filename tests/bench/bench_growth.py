"""A ledger that grows: bytes of a row, pages of a commit, CPU time and memory of commands.

    python -m tests.bench.bench_growth [--json] [--rows 10000 100000] [--folder FOLDER]

The ledger is that of `large_ledger.py`, in an SQLite file. At each size the commands of an operator
run on it, each as a process whose CPU time and largest memory the system counts, so that a busy
machine moves the figures little. Pages written and hashes of a proof are counts. FOLDER is kept.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from itertools import count
from pathlib import Path

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.transaction.kernel import Kernel
from kernel.values.host import Host
from tests.bench.bench_bytes import pages_written, whole_wal
from tests.bench.large_ledger import grow, operation
from tests.bench.report import figure, machine
from tests.process_environment import process_environment

COMMITS = 200
NEW_ROWS = 1_000
PROOFS = 500
SAMPLE_S = 0.02
_MIB = 1 << 20


def measure_commits(path: Path, batch: int) -> None:
    """Print what a commit of so many operations costs."""
    with closing(SqliteStore(path)) as store, whole_wal(path):
        clock = count(time.time_ns() // 1000)
        ledger, kernel = Ledger.create(store, Host(lambda: next(clock), os.urandom)), Kernel()
        with ledger.view() as view:
            written = view.head().ec_sequence_number
        before, began_s = pages_written(path), time.process_time()
        for first in range(written + 1, written + 1 + COMMITS, batch):
            with ledger.transaction() as transaction:
                for number in range(first, first + batch):
                    kernel.submit(transaction, operation(number), "orchestrator")
        cpu_s = time.process_time() - began_s
        name = f"  commits of {batch}, an operation"
        figure(f"{name}: pages written", (pages_written(path) - before) / COMMITS, "pages")
        figure(f"{name}: CPU", 1e6 * cpu_s / COMMITS, "us")


def measure_proofs(path: Path) -> None:
    """Print what a proof that a row is in the log costs, at a row of any age."""
    chance = random.Random(36)
    with closing(SqliteStore(path, read_only=True)) as store, store.view() as tables:
        tree = LedgerView(tables).log_tree()
        began_s, hashes = time.process_time(), 0
        for _ in range(PROOFS):
            hashes += len(tree.inclusion_path(chance.randrange(tree.size), tree.size))
        figure("  an inclusion proof: hashes", hashes / PROOFS, "hashes")
        figure("  an inclusion proof: CPU", 1e6 * (time.process_time() - began_s) / PROOFS, "us")


def measure_command(name: str, folder: Path, rows: int, *words: str) -> None:
    """Run a command; print the CPU time of all its processes and the most memory of the first."""
    command = [sys.executable, "-m", "workers", *words, "--data-dir", str(folder)]
    process = subprocess.Popen(command, env=process_environment(), stdout=subprocess.DEVNULL)
    peak_kib, ended = 0, 0
    while not ended:
        peak_kib = max(peak_kib, _peak_kib(process.pid))
        time.sleep(SAMPLE_S)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    cpu_s = usage.ru_utime + usage.ru_stime
    figure(f"  {name}: CPU", cpu_s, "s", ratio=1e6 * cpu_s / rows, of="us a row")
    figure(f"  {name}: memory", peak_kib / 1024, "MiB")


def _peak_kib(pid: int) -> int:
    """The most memory that a program has had; what the system counts begins with its parent's."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def measure(folder: Path, rows: int) -> None:
    """Let the ledger of a folder grow to so many rows and print what it costs there."""
    path, backups = folder / "ledger.db", folder.parent / "backups"
    grow(path, rows)
    size = path.stat().st_size
    figure(f"{rows:,} rows", size / _MIB, "MiB", ratio=size / rows, of="bytes a row")
    for batch in (1, 100):
        measure_commits(path, batch)
    measure_proofs(path)
    shutil.rmtree(backups, ignore_errors=True)
    rows += 2 * COMMITS
    measure_command("rotulus verify", folder, rows, "verify")
    measure_command("the first backup", folder, rows, "backup", "--output", str(backups))
    stored = _bytes_in(backups)
    grow(path, rows + NEW_ROWS)
    rows += NEW_ROWS
    figure(
        "  the first backup: stored", stored / _MIB, "MiB", ratio=stored / rows, of="bytes a row"
    )
    measure_command("the next backup", folder, rows, "backup", "--output", str(backups))
    added = _bytes_in(backups) - stored
    figure(f"  the next backup, {NEW_ROWS:,} rows later: stored", added / _MIB, "MiB")
    measure_command(
        "building the state again",
        folder,
        rows,
        "rollback",
        "rebuild",
        "--checkpoint",
        "0",
        "--dry-run",
    )


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="A ledger that grows")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = (options.folder or Path(name)) / "data"
        folder.mkdir(0o700, parents=True, exist_ok=True)
        machine(rows=options.rows)
        for rows in sorted(options.rows):
            measure(folder, rows)


if __name__ == "__main__":
    main()
