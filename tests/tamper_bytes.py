"""One bit of each byte of a SQLite file turned over: a finding, or nothing that is read changes.

`make tamper ARGS=--bytes` turns over every byte; a test turns over a sample. Which bit of a byte it
is follows from the byte's place. Pages are small here, so that few bytes of the file are free.
"""

import argparse
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from kernel.ledger import schema, sqlite, sqlite_catalog
from kernel.ledger.keys import column_names
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import SqliteStore
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.honest import Believer
from tests.tamper_doc import REASONS
from workers.environment.ledger_access import verify_file

PAGE_BYTES = 512


def small_file(path: Path) -> Path:
    """Write a ledger of a few operations and a belief session."""
    before, sqlite.PAGE_BYTES = sqlite.PAGE_BYTES, PAGE_BYTES
    try:
        ledger = Ledger.create(SqliteStore(path), FakeHost().host)
        submit(ledger, create("n-1", "Note"))
        submit(ledger, create("n-2", "Note"))
        submit(ledger, "nonsense")
        Believer(ledger, "s-1", 5).eliminate("h-001")
        ledger.close()
    finally:
        sqlite.PAGE_BYTES = before
    return path


def everything_read(path: Path) -> dict[str, list[object]] | None:
    """Return what the program can read of a file, its schema included; None where it cannot.

    Left out are the columns of which the README of `kernel/verify` says that nobody verifies them.
    """
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(_opened(path)) as db:
        found = {"schema": sorted(map(repr, sqlite_catalog.schema_faults(db)))}
        for table in schema.metadata.sorted_tables:
            names = [name for name in column_names(table) if not _is_free(table.name, name)]
            if names:
                sql = f"SELECT {', '.join(names)} FROM {table.name}"  # noqa: S608 - the schema's
                found[table.name] = db.execute(sql).fetchall()
        return found
    return None


def _is_free(table: str, column: str) -> bool:
    return (table, column) in REASONS or (table, "*") in REASONS


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


class Bytes:
    """One honest file, with one byte turned over at a time."""

    def __init__(self, honest: Path, folder: Path) -> None:
        self.content = honest.read_bytes()
        self._path = folder / "turned.db"
        shutil.copy(honest, self._path)
        self._read = everything_read(self._path)

    def outcome(self, place: int) -> str:
        """Turn over a bit of a byte; return `found`, `nothing changed`, or `missed`."""
        turned = bytearray(self.content)
        turned[place] ^= 1 << (place % 8)
        self._path.write_bytes(turned)
        for beside in ("-wal", "-shm"):
            self._path.with_name(f"{self._path.name}{beside}").unlink(missing_ok=True)
        if self._index_or_page_differs():
            return "found"
        if verify_file(self._path, lambda _done, _total: None).findings:
            return "found"
        return "nothing changed" if everything_read(self._path) == self._read else "missed"

    def _index_or_page_differs(self) -> bool:
        """Ask what verification asks last, and is the fastest."""
        try:
            with closing(_opened(self._path)) as db:
                return bool(sqlite_catalog.content_faults(db).faults)
        except (sqlite3.Error, UnicodeDecodeError):
            # It is for the verification to name it, and not to raise.
            return bool(verify_file(self._path, lambda _done, _total: None).findings)


def main() -> int:
    """Turn over every byte, or every so manyth, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", action="store_true", help="what the target is asked for")
    parser.add_argument("--every", type=int, default=1)
    every = parser.parse_args().every
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as made:
        turned = Bytes(small_file(Path(made) / "honest.db"), Path(made))
        for place in range(0, len(turned.content), every):
            outcome = turned.outcome(place)
            counts[outcome] += 1
            if outcome == "missed":
                print(f"missed: byte {place}")  # noqa: T201 - what the target tells
            if place % (1000 * every) == 0:
                print(place, dict(counts), file=sys.stderr, flush=True)  # noqa: T201 - likewise
    print(len(turned.content), dict(counts))  # noqa: T201 - likewise
    return 1 if counts["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
