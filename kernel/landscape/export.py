"""Writes a run as JSON lines that verify by themselves and as CSV, and reads it again (seed 003).

A line is a record of the run, in the order of the digest: table by table, each by its key; the last
one is the manifest. With a key every line bears an HMAC over its canonical form, and the manifest's
covers the hash of all of them, so none can be changed, left out or put elsewhere. The manifest also
states the digest that the seal on the log states, which needs no key to be checked.
"""

import csv
import hmac
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from kernel.landscape.digest import records_of
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_chain import RecordChain
from kernel.landscape.record_rules import (
    KEYS,
    TABLES,
    check_stored,
    dangling_reference,
    problem_of,
    record_bytes,
)
from kernel.landscape.reports import run_of_id
from kernel.landscape.run_rules import run_problems
from kernel.landscape.runtime.stretches import PREFIX, is_runtime
from kernel.landscape.seals import seal_of
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.tables import DuplicateKey, MissingReference, Row, Tables
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.values.errors import FieldRefused
from kernel.values.json_lines import JsonLine, LineRefused, json_lines

MANIFEST = "manifest"
LINE_BYTES_MAX = 64 * 1024 * 1024
ROWS_AT_ONCE = 1000

Document = dict[str, Any]


class ImportRefused(FieldRefused):
    """An export is not whole, or not what it was; nothing of it was taken."""


def export_run(view: LedgerView, run_id: str, key: bytes | None = None) -> Iterator[bytes]:
    """Yield a run as lines of JSON; with a key every line is signed.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: a record breaks a rule.
    """
    run_of_id(view, run_id)
    totals = _Totals()
    for name, table in TABLES.items():
        for row in records_of(view.tables, run_id, name):
            totals.add(name, check_stored(table, row))
            document = {"record_type": name, **{str(key): row[key] for key in row}}
            yield totals.sign(document, key)
    seal = seal_of(view, run_id)
    sealed_by = None if seal is None else str(seal["ec_sequence_number"])
    manifest = {**totals.manifest(run_id, key), "sealed_by_sequence": sealed_by}
    yield totals.sign(manifest, key)


def import_run(
    ledger: Ledger, lines: BinaryIO | Iterable[bytes], key: bytes | None = None
) -> Document:
    """Take an exported run into a ledger that does not have it, whole, and return its manifest.

    Raises:
        ImportRefused: `landscape_import_invalid`; nothing was taken.
        LandscapeRefused: `landscape_conflict` where the ledger has the run.
    """
    try:
        with ledger.store.transaction() as tables:
            totals, waiting = _Totals(), _Waiting(tables)
            read = json_lines(lines, LINE_BYTES_MAX)
            for line in read:
                document, number = _read(line)
                signature = document.pop("signature", None)
                if key is not None and not hmac.compare_digest(
                    str(signature), _signature(document, key)
                ):
                    raise _invalid(number, "the signature is another")
                if document["record_type"] == MANIFEST:
                    expected = totals.manifest(totals.run_id, key)
                    if {**document, **expected} != document:
                        raise _invalid(number, "the manifest is of other records")
                    waiting.write()
                    _check_whole(tables, totals.run_id, read)
                    RecordChain(tables).take_in(totals.run_id)
                    return document
                name, row = _record(document, number, totals)
                totals.add(name, row)
                totals.note(signature)
                waiting.add(name, row, number)
            raise _invalid(0, "it ends before its manifest")
    except DuplicateKey as error:
        raise LandscapeRefused(f"the run is there already: {error}") from None


def _check_whole(tables: Tables, run_id: str, behind: Iterator[JsonLine | LineRefused]) -> None:
    """Refuse what comes behind a manifest, and records that do not fit together."""
    for line in behind:
        number = line.line if isinstance(line, LineRefused) else line.number
        raise _invalid(number, "it stands behind the manifest, which is the last line")
    run = tables.get(TABLES["runs"], run_id)
    problem = None if run is None else next(run_problems(tables, run), None)
    if problem is not None:
        raise _invalid(0, str(problem))


def export_csv(view: LedgerView, run_id: str, folder: Path) -> list[Path]:
    """Write a run as a CSV file for each table that has records of it, and return their paths."""
    run_of_id(view, run_id)
    written = []
    for name, table in TABLES.items():
        rows = records_of(view.tables, run_id, name)
        first = next(rows, None)
        if first is None:
            continue
        path = folder / f"{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(column_names(table))
            writer.writerow(check_stored(table, first).values())
            writer.writerows(check_stored(table, row).values() for row in rows)
        written.append(path)
    return written


class _Waiting:
    """Records that were read and are not written: those of one table, because others name them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._name = ""
        self._rows: list[Row] = []
        self._first_line = 0

    def add(self, name: str, row: Row, number: int) -> None:
        if name != self._name or len(self._rows) == ROWS_AT_ONCE:
            self.write()
            self._name, self._first_line = name, number
        self._rows.append(row)

    def write(self) -> None:
        """Write them.

        Raises:
            ImportRefused: one names a record that is not there.
        """
        rows, self._rows = self._rows, []
        if not rows:
            return
        table = TABLES[self._name]
        try:
            with self._tables.savepoint():
                self._tables.insert_many(table, rows)
        except MissingReference as error:
            problem = dangling_reference(self._tables, [(table, row) for row in rows])
            raise _invalid(self._first_line, f"and on: {problem or error}") from None


class _Totals:
    """What the manifest says of the lines before it."""

    def __init__(self) -> None:
        self.run_id = ""
        self._count = 0
        self._tables: dict[str, tuple[int, Any]] = {}
        self._signatures = sha256()
        self._last: tuple[str, str] = ("", "")

    def add(self, name: str, row: Row) -> None:
        self.run_id = row["run_id"]
        self._count += 1
        count, hasher = self._tables.get(name, (0, sha256()))
        hasher.update(record_bytes(TABLES[name], row))
        self._tables[name] = (count + 1, hasher)

    def follows(self, name: str, key: str) -> bool:
        """Tell whether a record comes where the order has it."""
        last_name, last_key = self._last
        self._last = (name, key)
        order = list(TABLES)
        place = order.index(last_name) if last_name else -1
        return place < order.index(name) or (name == last_name and last_key < key)

    def note(self, signature: str | None) -> None:
        if signature is not None:
            self._signatures.update(signature.encode())

    def sign(self, document: Document, key: bytes | None) -> bytes:
        if key is not None:
            signature = _signature(document, key)
            self.note(signature)
            document = {**document, "signature": signature}
        return orjson.dumps(document) + b"\n"

    def manifest(self, run_id: str, key: bytes | None) -> Document:
        digests = {
            name: {"records": count, "digest": hasher.hexdigest()}
            for name, (count, hasher) in self._tables.items()
        }
        signed = {
            "signature_algorithm": "hmac-sha256",
            "final_hash": self._signatures.hexdigest(),
        }
        return {
            "record_type": MANIFEST,
            "run_id": run_id,
            "record_count": self._count,
            "table_digests": digests,
            "run_digest": sha256_hex(canonicalize(digests)),
            **(signed if key is not None else {}),
        }


def _read(line: JsonLine | LineRefused) -> tuple[Document, int]:
    if isinstance(line, LineRefused):
        raise _invalid(line.line, str(line))
    document: Document = line.value
    if document.get("record_type") not in {*TABLES, MANIFEST}:
        raise _invalid(line.number, "it is no record of a run")
    return document, line.number


def _record(document: Document, number: int, totals: _Totals) -> tuple[str, Row]:
    name = str(document.pop("record_type"))
    if document.keys() != {*column_names(TABLES[name])}:
        raise _invalid(number, f"it has not the fields of {name}")
    problem = problem_of(TABLES[name], document)
    if problem is not None:
        raise _invalid(number, " ".join(problem))
    if name == "runs" and document["status"] == "running":
        raise _invalid(number, "the run is running")
    if name == "runs" and is_runtime(document["run_id"]):
        raise _invalid(number, f"{PREFIX} begins the names of the runtime's own runs")
    if totals.run_id not in ("", document["run_id"]) or (not totals.run_id and name != "runs"):
        raise _invalid(number, "it is of another run")
    if not totals.follows(name, document[KEYS[name]]):
        raise _invalid(number, "it is not in its place")
    return name, document


def _signature(document: Document, key: bytes) -> str:
    return hmac.new(key, canonicalize(_as_texts(document)), sha256).hexdigest()


def _as_texts(document: Document) -> Document:
    """Return a document whose times fit into canonical JSON, which has no larger integers."""
    return {name: str(value) if type(value) is int else value for name, value in document.items()}


def _invalid(number: int, problem: str) -> ImportRefused:
    return ImportRefused("landscape_import_invalid", "", f"line {number}: {problem}")
