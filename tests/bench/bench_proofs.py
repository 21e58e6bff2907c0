"""Proofs and a verification of what is new, on a large ledger, in CPU time.

    python -m tests.bench.bench_proofs [--json] [--rows 100000] [--new 10000] [--file FILE]

Paths are read from a file, each from a fresh snapshot of its head. The peer of a verification from
a kept head is what a whole one takes for as many rows as are new. FILE is written where it is not
there, and kept; it may be of a million rows (`--rows 1000000`).
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from kernel.ledger.ledger import LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.verify import verify
from kernel.verify.since import KeptTree, verify_since
from tests.bench.large_ledger import grow
from tests.bench.report import figure, machine

PROOFS = 1_000


def measured(path: Path, new: int) -> tuple[float, int]:
    """Print the figures; return the seconds of a verification from a kept head, and its rows."""
    chance = random.Random(6962)
    with closing(SqliteStore(path, read_only=True)) as store, store.view() as tables:
        view = LedgerView(tables)
        size = view.log_tree().size
        paths: dict[str, Callable[[], object]] = {
            "inclusion": lambda: view.log_tree().inclusion_path(chance.randrange(size), size),
            "consistency": lambda: view.log_tree().consistency_path(
                chance.randrange(1, size), size
            ),
        }
        for name, path_of in paths.items():
            times_ms = sorted(1e3 * cpu_s(path_of) for _ in range(PROOFS))
            for share in (50, 99):
                value = times_ms[PROOFS * share // 100]
                figure(f"{name} proof at {size:,} rows, p{share}", value, "ms")
        kept = KeptTree(size - new, view.log_tree().root(size - new))
        since_s = cpu_s(lambda: sound(verify_since(view, kept)))
    return since_s, size


def sound(verification: object) -> None:
    if getattr(verification, "findings", ()):
        raise ValueError("the ledger of the benchmark does not verify")


def cpu_s(run: Callable[[], object]) -> float:
    began_s = time.process_time()
    run()
    return time.process_time() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description="Proofs on a large ledger")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=10_000)
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder, "large.db")
        grow(path, options.rows)
        small = Path(folder, "small.db")
        grow(small, options.new)
        machine(rows=options.rows, new=options.new)
        since_s, size = measured(path, options.new)
        with closing(SqliteStore(small, read_only=True)) as store, store.view() as tables:
            whole_s = cpu_s(lambda: sound(verify(LedgerView(tables))))
        name = f"verification of {options.new:,} new rows of {size:,}"
        figure(name, since_s, "s", ratio=since_s / whole_s, of=f"all of {options.new:,} rows")


if __name__ == "__main__":
    main()
