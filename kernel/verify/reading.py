"""Reads for verification, page by page and without trust, and defines the findings.

Whatever a stored row makes a reader raise becomes a finding that names the row. A finding says
what is wrong with which row; why it is so, nobody can tell from the bytes.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import MappingProxyType, TracebackType
from typing import Any, Literal, cast

import orjson
from sqlalchemy import Table

from kernel.ledger.store.buffer import BufferedTables
from kernel.ledger.store.catalog import StorageRule
from kernel.ledger.store.tables import PAGE_ROWS, Row, TableQuery, Tables, TablesView
from kernel.values.canonical import canonicalize_plain
from kernel.values.errors import LedgerUnavailable

LIMIT_FINDINGS = 20
"""At which a verification stops, unless it is told otherwise."""

MESSAGE_CHARS_MAX = 500
KEY_CHARS_MAX = 1200

ROWS_AT_ONCE = 64
"""Rows whose surroundings are read together: a payload has up to a mebibyte."""

AHEAD_ROWS_MAX = 4096
"""Rows that one statement reads ahead; where there are more, they are read when needed."""

Document = dict[str, Any]

Rule = Literal[
    "missing",
    "extra",
    "gap",
    "double_write",
    "link_broken",
    "order_broken",
    "bytes_changed",
    "not_canonical",
    "column_differs",
    "field_differs",
    "unreadable",
    "not_folded",
    "state_differs",
    "replay_differs",
    "anchor_differs",
    "authority_differs",
    "tile_differs",
    "frontier_differs",
    "rules_unknown",
    "unknown_name",
    "body_invalid",
    "digest_differs",
    "head_not_found",
    "segment_missing",
    "segment_damaged",
    StorageRule,
]
"""What can be wrong with a row, or with what holds it; the names are stable."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row that is not what the rest of the record says it is."""

    table: str
    key: str
    """The primary key; the parts of a longer one are joined by a slash."""

    rule: Rule
    message: str

    sequence: int | None = field(default=None, compare=False)
    """The row of the log that was being checked; None where no such row was."""


def finding_document(finding: Finding) -> Document:
    """Return a finding as JSON has it; a sequence is a string."""
    document = {name: getattr(finding, name) for name in ("table", "key", "rule", "message")}
    if finding.sequence is not None:
        document["ec_sequence_number"] = str(finding.sequence)
    return document


class EndsReading(Exception):
    """Says nothing of the row that is being read, so no guard makes a finding of it."""


class EnoughFindings(EndsReading):
    """The limit of findings is reached."""


class Findings:
    """The findings of a verification, in the order of their discovery."""

    def __init__(self, limit: int) -> None:
        self.entries: list[Finding] = []
        self.of_row: int | None = None
        """The row of the log that is being checked."""

        self._limit = limit

    def add(self, table: Table | str, key: object, rule: Rule, message: str) -> None:
        """Note one bad row, or one bad part of the storage.

        Raises:
            EnoughFindings: when the limit is reached.
        """
        self.note(
            Finding(
                table if isinstance(table, str) else str(table.name),
                _printable(str(key))[:KEY_CHARS_MAX],
                rule,
                _printable(message)[:MESSAGE_CHARS_MAX],
                self.of_row,
            )
        )

    def note(self, finding: Finding) -> None:
        """Note what was found elsewhere.

        Raises:
            EnoughFindings: when the limit is reached.
        """
        self.entries.append(finding)
        if len(self.entries) >= self._limit:
            raise EnoughFindings

    def guard(self, table: Table | str, *key: object) -> "_Guard":
        """Turn an exception of the block into a finding about the row of this key.

        Raises:
            LedgerUnavailable: when the store went away, which says nothing about the row.
        """
        return _Guard(self, table, key)


class _Guard:
    """See `Findings.guard`; a class, because a generator costs more."""

    __slots__ = ("_findings", "_key", "_table")

    def __init__(self, findings: Findings, table: Table | str, key: tuple[object, ...]) -> None:
        self._findings = findings
        self._table = table
        self._key = key

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, EndsReading | LedgerUnavailable):
            return False
        message = f"{type(error).__name__}: {error}"
        self._findings.add(self._table, join_key(*self._key), "unreadable", message)
        return True


class Reader:
    """The tables of one snapshot, read without trusting them."""

    def __init__(self, tables: TablesView, findings: Findings) -> None:
        self.tables = tables
        self.findings = findings
        self._read_ahead: dict[Table, list[Row]] = {}

    def get(self, table: Table, *key: Any) -> Row | None:
        """Return a row by its primary key; one that cannot be read is a finding and None."""
        with self.findings.guard(table, *key):
            return self.tables.get(table, *key)
        return None

    def scan(self, query: TableQuery) -> list[Row]:
        """Return the rows of a query; what cannot be read is a finding."""
        with self.findings.guard(query.table, *query.where.values()):
            return self.tables.scan(query)
        return []

    def ahead(self, *wanted: tuple[Table, str, Iterable[str | int]]) -> "Reader":
        """Return a reader that has read the rows with these values in a column, for a few rows.

        A hint that changes no answer: what cannot be read so is read when it is asked for.
        """
        tables = BufferedTables(cast("Tables", self.tables))
        reader = Reader(tables, self.findings)
        try:
            for table, column, values in wanted:
                rows = tables.read_ahead(table, column, values, most=AHEAD_ROWS_MAX)
                reader._read_ahead[table] = rows
        except LedgerUnavailable:
            raise
        except Exception:  # noqa: BLE001 - the row that is to blame is found when it is read alone
            return self
        return reader

    def read_ahead(self, table: Table) -> list[Row]:
        """Return the rows of a table that were read ahead."""
        return self._read_ahead.get(table, [])

    def pages(
        self,
        table: Table,
        where: Mapping[str, Any] = MappingProxyType({}),
        *,
        order_by: str | None = None,
        after: Any = None,
        page_rows: int = PAGE_ROWS,
    ) -> Iterator[Row]:
        """Yield every row behind a value in the order of a column, which need not be unique.

        A row that cannot be read is a finding, and what is after it is not seen. So is an order
        in which a page does not end behind the one before: a damaged tree can lead in a circle.
        """
        if self._read_ahead.get(table):
            yield from self.tables.scan(TableQuery(table, where, order_by=order_by, after=after))
            return
        column = order_by or list(table.primary_key.columns)[-1].name
        query, limit = TableQuery(table, where, order_by=column), page_rows
        while True:
            try:
                rows = self.tables.scan(query._replace(after=after, limit=limit))
            except LedgerUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - each store has errors of its own
                if limit > 1:
                    limit = 1
                    continue
                self.findings.add(table, f"after {after}", "unreadable", f"{error}")
                return
            full = len(rows) == limit
            if full and limit > 1:
                # Rows with the last value may continue on the next page, so they are left to it.
                whole_groups = [row for row in rows if row[column] != rows[-1][column]]
                if not whole_groups:
                    limit *= 2
                    continue
                rows = whole_groups
            yield from rows
            if not full:
                return
            before, after = after, rows[-1][column]
            if not _is_behind(after, before):
                message = (
                    f"a page ends with {printable(after)}, the one before with {printable(before)}"
                )
                self.findings.add(table, f"after {before}", "page_damaged", message)
                return

    def count(self, table: Table) -> int:
        """Return the number of rows."""
        return self.tables.count(TableQuery(table))


def parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists of `ROWS_AT_ONCE`."""
    iterator = iter(rows)
    while part := list(islice(iterator, ROWS_AT_ONCE)):
        yield part


def _is_behind(value: object, before: object) -> bool:
    """Tell whether a value stands behind another in the order of the databases."""
    ranks = [_rank(value), _rank(before)]
    if ranks[0] != ranks[1] or ranks[0] == 0:
        return ranks[0] > ranks[1]
    try:
        return bool(value > before)  # type: ignore[operator]
    except TypeError:
        return False


def _rank(value: object) -> int:
    if isinstance(value, str):
        return 2
    return 1 if isinstance(value, int | float) else 3 if isinstance(value, bytes) else 0


def join_key(*parts: object) -> str:
    """Return a key of several parts as findings name it."""
    return "/".join(str(part) for part in parts)


def load_object(content: object) -> Document | None:
    """Read a JSON object from stored bytes; None where they hold anything else."""
    if not isinstance(content, bytes):
        return None
    try:
        # What orjson writes again as it stands says the same to every reader, for a third of the
        # time: no name twice, no number that it rounds. All else is for the strict decoder.
        value = orjson.loads(content)
        if type(value) is dict and canonicalize_plain(value) == content:
            return value
    except ValueError:
        pass
    try:
        value = _DECODER.decode(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def time_us(text: object) -> int | None:
    """Return the microseconds of a stored time; None for anything but the one stored form."""
    if not isinstance(text, str) or _TIME.fullmatch(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def printable(value: object) -> str:
    """Return a value as a message shows it."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _whole(digits: str) -> int | float:
    # Beyond 2^53 - 1 canonical JSON has no integers: the digits are a float's.
    value = int(digits)
    return value if abs(value) < 1 << 53 else float(digits)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_int=_whole, parse_constant=_refuse)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
