"""A ledger of as many operations as are asked for, written by the kernel into a SQLite file.

    python -m tests.bench.large_ledger FILE [--rows N]

Four rows of five create a note; the fifth changes one that the row before it created. It goes on
where the file ends.
"""

import argparse
import os
import sys
import time
from contextlib import closing
from itertools import count
from pathlib import Path

from kernel.ledger.ledger import Document, Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.transaction.kernel import Kernel
from kernel.values.host import Host
from tests.kernel.build import adapt, create

BATCH_ROWS = 500
TEXT = "MOTION to dismiss for failure to state a claim, filed under seal. " * 4


def operation(number: int) -> Document:
    """The envelope of a row, by its sequence."""
    if number % 5 == 0:
        return adapt(f"n-{number - 1}", note=f"change {number}")
    return create(f"n-{number}", "Note", text=TEXT)


def grow(path: Path, rows: int) -> None:
    """Write rows until there are so many."""
    with closing(SqliteStore(path)) as store:
        clock = count(time.time_ns() // 1000)
        ledger, kernel = Ledger.create(store, Host(lambda: next(clock), os.urandom)), Kernel()
        with ledger.view() as view:
            written = view.head().ec_sequence_number
        while written < rows:
            with ledger.transaction() as transaction:
                for number in range(written + 1, min(written + BATCH_ROWS, rows) + 1):
                    result = kernel.submit(transaction, operation(number), "orchestrator")
                    if hasattr(result, "rejection"):
                        raise TypeError(f"refused: {result}")
                    written = number


def main() -> None:
    parser = argparse.ArgumentParser(description="A large ledger")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    began_s = time.process_time()
    grow(options.file, options.rows)
    mib = options.file.stat().st_size >> 20
    sys.stdout.write(
        f"{options.rows:,} rows, {mib:,} MiB, {time.process_time() - began_s:.0f} s of CPU\n"
    )


if __name__ == "__main__":
    main()
