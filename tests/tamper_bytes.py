"""One bit of each byte of a SQLite file turned over: a finding, or nothing that is read changes.

`make tamper ARGS=--bytes` turns over every byte of every page that holds something and writes what
came of it into `tests/kernel/turned_bytes.json`, from which `make tamper` makes a sentence.
`ARGS="--bytes --part 1/6"` does a sixth of the pages of each kind. A test turns over a sample.
Which bit of a byte it is follows from the byte's place. Pages are small here, so that few bytes of
the file are free.
"""

import argparse
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import catalog as sqlite_catalog
from kernel.ledger.sqlite import store as sqlite
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.keys import column_names
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.honest import Believer
from tests.tamper_doc import REASONS
from tests.turned_bytes import keep
from workers.environment.ledger_verification import verify_file

PAGE_BYTES = 512
PROCESSES = 2
CHUNKS = 32

_FILE_HEAD_BYTES = 100
_LEAVES = ("table leaf", "index leaf")
_KINDS = {13: "table leaf", 10: "index leaf", 5: "table interior", 2: "index interior"}
"""By the first byte of a page; what has another goes on from a page that was full."""


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


def everything_read(path: Path) -> dict[str, list[Any]] | None:
    """Return what the program can read of a file, its schema included; None where it cannot.

    Left out are the columns of which the README of `kernel/verify` says that nobody verifies them.
    """
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(_opened(path)) as db:
        contents: dict[str, list[Any]] = {
            "schema": sorted(map(repr, sqlite_catalog.schema_faults(db)))
        }
        for table in schema.metadata.sorted_tables:
            names = [name for name in column_names(table) if not _is_free(table.name, name)]
            if names:
                sql = f"SELECT {', '.join(names)} FROM {table.name}"  # noqa: S608 - the schema's
                contents[table.name] = db.execute(sql).fetchall()
        return contents
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
        same = everything_read(self._path) == self._read
        # Beyond the first page, which has the file's own head, there is nothing else to verify.
        if same and place >= PAGE_BYTES:
            return "nothing changed"
        if verify_file(self._path, lambda _done, _total: None).findings:
            return "found"
        return "nothing changed" if same else "missed"

    def _index_or_page_differs(self) -> bool:
        """Ask what verification asks last, and is the fastest."""
        try:
            with closing(_opened(self._path)) as db:
                return bool(sqlite_catalog.content_faults(db).faults)
        except (sqlite3.Error, UnicodeDecodeError):
            # It is for the verification to name it, and not to raise.
            return bool(verify_file(self._path, lambda _done, _total: None).findings)


def kinds_of(content: bytes) -> list[str]:
    """Return what each page of a file is, as its first byte tells."""
    return [_kind_of(content, start) for start in range(0, len(content), PAGE_BYTES)]


def _kind_of(content: bytes, start: int) -> str:
    head = start or _FILE_HEAD_BYTES
    kind = _KINDS.get(content[head], "overflow")
    cells = int.from_bytes(content[head + 3 : head + 5])
    return f"empty {kind}" if kind in _LEAVES and not cells else kind


def pages_of(content: bytes) -> list[int]:
    """Return the pages to flip, by kind: all of them, but of those that hold nothing one each."""
    by_kind: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds_of(content)):
        by_kind.setdefault(kind, []).append(number)
    return [
        number
        for kind, numbers in by_kind.items()
        for number in (numbers[:1] if kind.startswith("empty") else numbers)
    ]


def _outcomes(places: Sequence[int]) -> list[tuple[int, str]]:
    with tempfile.TemporaryDirectory() as made:
        turned = Bytes(small_file(Path(made) / "honest.db"), Path(made))
        return [(place, turned.outcome(place)) for place in places]


def main() -> int:
    """Turn over every byte, or a part of them, and write down what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", action="store_true", help="what the target is asked for")
    parser.add_argument("--part", default="1/1", help="of how many parts which, such as 2/3")
    part = parser.parse_args().part
    number, parts = map(int, part.split("/"))
    with tempfile.TemporaryDirectory() as made:
        content = small_file(Path(made) / "honest.db").read_bytes()
    kinds, pages = kinds_of(content), pages_of(content)[number - 1 :: parts]
    places = [page * PAGE_BYTES + at for page in pages for at in range(PAGE_BYTES)]
    with ProcessPoolExecutor(PROCESSES) as processes:
        chunks = [places[start::CHUNKS] for start in range(CHUNKS)]
        outcomes = dict(chain.from_iterable(processes.map(_outcomes, chunks)))
    counts = Counter(outcomes.values())
    missed = sorted(place for place, outcome in outcomes.items() if outcome == "missed")
    print(part, dict(counts), "missed:", missed)  # noqa: T201 - what the target tells
    keep(part, PAGE_BYTES, Counter(kinds), Counter(kinds[page] for page in pages), counts)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
