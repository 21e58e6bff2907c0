"""Quarantines ranges of the log that are damaged: nothing is computed from them (§17.5).

The receipt of a violation states the ranges, and the damaged records that belong to no row of the
log; a receipt behind an operator's operation lifts both, and what stands is read from these
receipts (decisions kernel/0522, kernel/0595). Readers ask their snapshot, which reads the receipts
at most once; while there is none, that is one look into an index.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Integer, Table

from kernel.ledger import schema
from kernel.ledger.receipts_of_kind import receipts_of_kind, receipts_query
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.tables import Row, TableQuery, TablesView
from kernel.values.errors import KernelError, LedgerCorrupt

VIOLATION = "kernel_event_log_integrity_violation"
LIFTED = "log_quarantine_lifted"

ROWS_DIGESTED_MAX = 4096
"""Of a range with more rows it is not remembered how they stood when it was lifted."""

IDS_SHOWN_MAX = 500
"""Of the quarantines that a refusal names."""


class SequenceRange(NamedTuple):
    """Rows of the log, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return (
            f"row {self.first}" if self.first == self.last else f"rows {self.first} to {self.last}"
        )


class RecordKey(NamedTuple):
    """A record by its table and its primary key, whose parts are joined by a slash."""

    table: str
    key: str

    def __str__(self) -> str:
        return f"{self.table} {self.key}".strip()


class RangeQuarantined(KernelError):
    """What was asked for would be computed from rows that are quarantined; nothing was done."""

    code = "range_quarantined"

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}


@dataclass(frozen=True, slots=True)
class LogQuarantine:
    """A violation with which nobody has dealt."""

    quarantine_id: str
    """The receipt that says what was found."""

    ranges: tuple[SequenceRange, ...]
    """Rows that are quarantined because of it."""

    records: tuple[RecordKey, ...]
    """Damaged records that belong to no row of the log."""

    found_at: str
    finding: str
    """The first thing that was found, in a line."""


class Quarantines:
    """The quarantines that stand in a snapshot."""

    def __init__(self, standing: Sequence[LogQuarantine] = ()) -> None:
        self.standing = tuple(standing)
        self.ranges = merge_ranges(
            each for quarantine in self.standing for each in quarantine.ranges
        )
        self.records = frozenset(key for quarantine in standing for key in quarantine.records)
        self._lasts = [each.last for each in self.ranges]

    def over(self, first: int, last: int | None = None) -> SequenceRange | None:
        """Return the first quarantined range that holds any of these rows, None where none does."""
        if not self.ranges:
            return None
        at = bisect_left(self._lasts, first)
        is_over = at < len(self.ranges) and self.ranges[at].first <= (last or first)
        return self.ranges[at] if is_over else None

    def expect_none_over(self, first: int, last: int | None = None) -> None:
        """Refuse to compute anything from rows that are quarantined.

        Raises:
            RangeQuarantined: naming the range, the violations, and what to do.
        """
        rows = self.over(first, last)
        if rows is not None:
            raise quarantine_refusal(rows, self.standing)

    def expect_none(self) -> None:
        """Refuse to compute anything from the whole log where a part of it is quarantined.

        Raises:
            RangeQuarantined: see `expect_none_over`.
        """
        if self.ranges:
            raise quarantine_refusal(self.ranges[0], self.standing)


def quarantine_refusal(rows: SequenceRange, standing: Iterable[LogQuarantine]) -> RangeQuarantined:
    """Return the refusal to compute something from a range."""
    names = [
        quarantine.quarantine_id
        for quarantine in standing
        if any(each.first <= rows.last and rows.first <= each.last for each in quarantine.ranges)
    ]
    verb = "is" if rows.first == rows.last else "are"
    message = (
        f"{rows} of the log {verb} quarantined, so nothing is computed from there:"
        " `rotulus quarantine list` says what was found,"
        " `rotulus quarantine lift ID --reason TEXT --authority NAME` ends it"
    )
    details = {
        **range_document(rows),
        "quarantine_ids": names[:IDS_SHOWN_MAX],
    }
    return RangeQuarantined(message, details)


def violations_query() -> TableQuery:
    """Return the query of the first of the receipts that `read_quarantines` reads."""
    return receipts_query(VIOLATION)


def read_quarantines(tables: TablesView) -> Quarantines:
    """Read which quarantines stand; linear in the number of violations on the record.

    Raises:
        LedgerCorrupt: when a receipt of one cannot be read.
    """
    violations = [
        each
        for each in _documents(tables, VIOLATION)
        if each.get("quarantined") or each.get("of_no_row")
    ]
    if not violations:
        return Quarantines()
    lifted_ids = {each["quarantine_id"] for each in _documents(tables, LIFTED)}
    return Quarantines(
        [
            LogQuarantine(
                each["receipt_id"],
                tuple(map(range_of, each.get("quarantined", ()))),
                tuple(map(_key_of, each.get("of_no_row", ()))),
                each["emitted_at"],
                _in_a_line(each["findings"][0]),
            )
            for each in violations
            if each["receipt_id"] not in lifted_ids
        ]
    )


def read_as_it_stands(tables: TablesView) -> frozenset[RecordKey]:
    """Return what is read though it is damaged: rows of quarantined ranges, and what was accepted.

    A violation that stands names the former, one that was lifted where all of it stands as it stood
    the latter. A damaged record of no row is read by nobody while it stands.
    """
    accepted = {
        document["quarantine_id"]: all(_lifted_content_stands(tables, document))
        for document in _documents(tables, LIFTED)
    }
    readable: set[RecordKey] = set()
    standing: set[RecordKey] = set()
    for document in _documents(tables, VIOLATION):
        if accepted.get(document["receipt_id"], True):
            readable.update(map(_key_of, document["findings"]))
        if document["receipt_id"] not in accepted:
            standing.update(map(_key_of, document.get("of_no_row", ())))
    return frozenset(readable - standing)


def _lifted_content_stands(tables: TablesView, lifted: dict[str, Any]) -> Iterator[bool]:
    for rows in lifted["ranges"]:
        yield rows["content_digest"] == content_digest(tables, range_of(rows))
    for record in lifted.get("records", ()):
        yield record["content_digest"] == record_digest(tables, _key_of(record))


def accepted_records(tables: TablesView) -> frozenset[RecordKey]:
    """Return the records that were lifted and are stored as they were then."""
    digests = {
        _key_of(each): each["content_digest"]
        for document in _documents(tables, LIFTED)
        for each in document.get("records", ())
    }
    return frozenset(
        key for key, digest in digests.items() if digest and digest == record_digest(tables, key)
    )


def record_digest(tables: TablesView, record: RecordKey) -> str:
    """Return the digest of what is stored of a record; empty of what is no row of a table."""
    table, key = schema.metadata.tables.get(record.table), row_key_of(record)
    if table is None or key is None:
        return ""
    row = tables.get(table, *key)
    digest = hashlib.sha256()
    _add(digest, table, [] if row is None else [row])
    return digest.hexdigest()


def row_key_of(record: RecordKey) -> tuple[str | int, ...] | None:
    """Return the primary key of a record's row, None of what is no row of a table."""
    table = schema.metadata.tables.get(record.table)
    if table is None:
        return None
    columns, parts = [*table.primary_key.columns], record.key.split("/")
    # Of a key in more parts all but the first are numbers or hashes, which have no slash.
    extra = len(parts) - len(columns)
    if extra < 0:
        return None
    parts = ["/".join(parts[: extra + 1]), *parts[extra + 1 :]]
    try:
        return tuple(
            int(part) if isinstance(column.type, Integer) else part
            for column, part in zip(columns, parts, strict=True)
        )
    except ValueError:
        return None


def accepted_ranges(tables: TablesView) -> tuple[SequenceRange, ...]:
    """Return the lifted ranges that stand as they stood when they were lifted.

    Who lifted them has seen them so: they are damaged or mended, and are not quarantined again.
    """
    documents = _documents(tables, LIFTED)
    return merge_ranges(
        range_of(each)
        for document in documents
        for each in document["ranges"]
        if each.get("content_digest", "") == content_digest(tables, range_of(each)) != ""
    )


def content_digest(tables: TablesView, rows: SequenceRange) -> str:
    """Return the digest of everything that is stored of some rows; empty of too many."""
    if rows.last - rows.first >= ROWS_DIGESTED_MAX:
        return ""
    digest = hashlib.sha256()
    for row in tables.scan(
        TableQuery(schema.kernel_event_log, after=rows.first - 1, limit=len_of(rows))
    ):
        if row["ec_sequence_number"] > rows.last:
            break
        _add(digest, schema.kernel_event_log, [row])
        blob = tables.get(schema.blobs, row["envelope_payload_blob_ref"])
        _add(digest, schema.blobs, [] if blob is None else [blob])
        where: dict[str, Any] = {"ec_sequence_number": row["ec_sequence_number"]}
        effects = tables.scan(TableQuery(schema.applied_effects, where, order_by="ordinal"))
        _add(digest, schema.applied_effects, effects)
        where = {"operation_id": row["operation_id"]}
        _add(digest, schema.receipts, tables.scan(TableQuery(schema.receipts, where)))
    return digest.hexdigest()


def len_of(rows: SequenceRange) -> int:
    """Return how many rows a range has where none is missing."""
    return rows.last - rows.first + 1


def merge_ranges(ranges: Iterable[SequenceRange]) -> tuple[SequenceRange, ...]:
    """Return ranges in sequence, those that touch each other as one."""
    apart: list[SequenceRange] = []
    for each in sorted(ranges):
        if apart and each.first <= apart[-1].last + 1:
            apart[-1] = SequenceRange(apart[-1].first, max(apart[-1].last, each.last))
        else:
            apart.append(each)
    return tuple(apart)


def without(
    ranges: Iterable[SequenceRange], known: Iterable[SequenceRange]
) -> tuple[SequenceRange, ...]:
    """Return what of some ranges lies in none of the known ones."""
    left = merge_ranges(ranges)
    for each in known:
        left = tuple(part for rows in left for part in _beside(rows, each))
    return left


def range_of(stated: dict[str, str]) -> SequenceRange:
    """Read a range as a receipt states it."""
    return SequenceRange(int(stated["first_sequence"]), int(stated["last_sequence"]))


def range_document(rows: SequenceRange) -> dict[str, str]:
    """Return a range as a receipt states it."""
    return {"first_sequence": str(rows.first), "last_sequence": str(rows.last)}


def _beside(rows: SequenceRange, known: SequenceRange) -> Iterator[SequenceRange]:
    if known.last < rows.first or rows.last < known.first:
        yield rows
        return
    if rows.first < known.first:
        yield SequenceRange(rows.first, known.first - 1)
    if known.last < rows.last:
        yield SequenceRange(known.last + 1, rows.last)


def _key_of(stated: Mapping[str, str]) -> RecordKey:
    return RecordKey(stated["table"], stated["key"])


def _documents(tables: TablesView, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the receipts of a kind that no operation emitted."""
    for row in receipts_of_kind(tables, kind):
        if row["operation_id"] is None:
            yield _document(row)


def _document(row: Row) -> dict[str, Any]:
    try:
        document: dict[str, Any] = orjson.loads(row["receipt_bytes"])
    except orjson.JSONDecodeError:
        message = f"receipt {row['receipt_sequence']}, of a quarantine, is not JSON"
        raise LedgerCorrupt(message) from None
    return document


def _in_a_line(finding: dict[str, str]) -> str:
    return f"{finding['table']} {finding['key']}: {finding['rule']}: {finding['message']}"


def _add(digest: Any, table: Table, rows: Iterable[Row]) -> None:
    names = column_names(table)
    values = [[row[name] for name in names] for row in rows]
    digest.update(repr((str(table.name), values)).encode())
