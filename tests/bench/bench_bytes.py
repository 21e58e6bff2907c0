"""Bytes of an operation in SQLite: what it leaves in each table and index, and what it writes.

    python -m tests.bench.bench_bytes [--json] [--dockets FILE]

*The demo* is `rotulus demo` with dockets, the bundled ones where no file is named. *The mix* is
that of `tests.bench.mix`. A ledger's file is read page by page (`dbstat`) and what an empty one has
is left out, so the figures are those of a further operation; each has its share of the whole.

The write-ahead log shows the pages that an operation wrote: a snapshot that is open from the
beginning to the end keeps it from being begun anew.
"""

import argparse
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import anyio

from kernel.ledger.sqlite.store import PAGE_BYTES, SqliteStore
from tests.bench.bench_kernel import Run, prepare_nothing, submit_envelope
from tests.bench.report import figure, machine
from tests.system.tree_run import running, wait_for

CALLERS = ((1, 600), (100, 6_000))
DEMO_S = 600.0
SHOWN_BYTES = 20
"""Less than that of an operation is shown as one figure for all such tables and indexes."""

_FRAME_HEADER_BYTES = 24
_WAL_HEADER_BYTES = 32


def reading(path: Path) -> closing[sqlite3.Connection]:
    """A connection that only reads."""
    return closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True))


def bytes_by_name(path: Path) -> Counter[str]:
    """The bytes of the pages of each table and index."""
    with reading(path) as connection:
        return Counter(
            dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
        )


def bytes_of_nothing() -> Counter[str]:
    """The same of a ledger without a row."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        SqliteStore(path).close()
        return bytes_by_name(path)


def content_bytes(path: Path) -> tuple[int, int]:
    """How many operations there are, and the bytes of their envelopes."""
    sql = (
        "SELECT count(*), sum(length(content)) FROM kernel_event_log"
        " JOIN blobs ON blob_ref = envelope_payload_blob_ref"
    )
    with reading(path) as connection:
        count, size = connection.execute(sql).fetchone()
    return count, size


@contextmanager
def whole_wal(path: Path) -> Iterator[None]:
    """Keep a snapshot open, so that the write-ahead log holds everything that is written."""
    with reading(path) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM kernel_event_log").fetchone()
        yield


def pages_written(path: Path) -> int:
    """The pages in the write-ahead log, each as often as it was written."""
    size = path.with_name(f"{path.name}-wal").stat().st_size
    return (size - _WAL_HEADER_BYTES) // (PAGE_BYTES + _FRAME_HEADER_BYTES)


def show(name: str, path: Path, *, tables: bool) -> None:
    """Print what an operation of a run left and wrote."""
    operations, envelopes = content_bytes(path)
    added = bytes_by_name(path)
    added.subtract(bytes_of_nothing())
    whole = added.total()
    figure(f"{name}: operations", operations, "")
    figure(f"{name}: envelope", envelopes / operations, "B")
    figure(f"{name}: ledger", whole / operations, "B", ratio=whole / envelopes, of="the envelope")
    figure(f"{name}: pages written", pages_written(path) / operations, "pages")
    if not tables:
        return
    rest = 0
    for part, size in added.most_common():
        if size / operations < SHOWN_BYTES:
            rest += size
            continue
        figure(f"  {part}", size / operations, "B", ratio=size / whole, of="all")
    figure("  others", rest / operations, "B", ratio=rest / whole, of="all")


def is_founded(path: Path) -> bool:
    """Whether a ledger has its tables."""
    if not path.exists():
        return False
    with reading(path) as connection:
        return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def measure_demo(dockets: Path | None) -> None:
    """Let the demo run on dockets and print what its ledger came to."""
    arguments = ["demo", "--exit", "--json", *([str(dockets.absolute())] if dockets else [])]
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "data", *arguments) as run,
    ):
        path = run.ledger_path
        wait_for("the ledger", partial(is_founded, path), DEMO_S)
        with whole_wal(path):
            if run.finish(DEMO_S) != 0:
                raise RuntimeError(run.stderr)
            show("the demo", path, tables=True)


def measure_mix(callers: int, count: int) -> None:
    """Let callers submit the mix and print what its ledger came to."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        with whole_wal(run.path):
            anyio.run(run.work, prepare_nothing, submit_envelope, callers, count // callers)
            name = f"the mix, {callers} submitter{'s' * (callers > 1)}"
            show(name, run.path, tables=False)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--dockets", type=Path)
    options = arguments.parse_args()
    machine(page_bytes=PAGE_BYTES)
    measure_demo(options.dockets)
    for callers, count in CALLERS:
        measure_mix(callers, count)


if __name__ == "__main__":
    main()
