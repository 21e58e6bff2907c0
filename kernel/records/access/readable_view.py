"""Reads the record as somebody may: what they are not cleared for is not there (§12.1, K35).

A reader without a clearance of everything has the tables with the rows left out that they may not
read. Whatever is made of them, lists, counts, searches, proofs and refusals, is made of what is
left, so nothing above has to know of clearances, and nothing can forget them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.log_tree import LogTree
from kernel.ledger.store.catalog import ContentReport, StorageFault
from kernel.ledger.store.tables import Row, TableQuery, TablesView, rows_of
from kernel.records.access.clearance import CLEARANCES, EVERY_CLASS
from kernel.records.access.row_classes import OPEN_TABLES, RowClasses
from kernel.values.errors import KernelError, LedgerCorrupt, RowDamaged

JUDGED_MAX: Final = 20_000
"""Rows of which one question looks whether they may be read."""

T = TypeVar("T")

_AHEAD: Final = 4
"""So many times as many rows are read again where too few of them may be read."""


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Who reads, and up to which class."""

    clearance: str
    principal: str | None = None
    """Whom an overlay may let in by name."""

    @property
    def reads_everything(self) -> bool:
        """Tell whether nothing is hidden from them."""
        return self.clearance == EVERY_CLASS


_TOO_MUCH: Final = "this is made of more than your clearance lets you read (rotulus access caller)"
OF_EVERYTHING: Final = RecordReader(EVERY_CLASS)
"""The runtime itself, and whoever asks where access is open."""


class NotCleared(KernelError):
    """What was asked for is made of more than whoever asks may read."""

    code = "clearance_insufficient"


class ReadableView(LedgerView):
    """What somebody may read, at one point of the record."""


class ClearedView(ReadableView):
    """What somebody may read who may not read everything."""

    has_gaps = True

    def __init__(self, view: LedgerView, reader: RecordReader) -> None:
        super().__init__(cast("TablesView", ClearedTables(view, reader)), view.archive)
        self._whole = view

    def count_requests(self) -> int:
        """Return how many requests there are that may be read."""
        return self.tables.count(TableQuery(schema.outbox))

    def log_tree(self) -> LogTree:
        """Return the Merkle tree over all rows of the log: of those that are hidden, hashes."""
        return self._whole.log_tree()


def readable_view(view: LedgerView, reader: RecordReader) -> ReadableView:
    """Return a snapshot as somebody may read it; nothing is looked at where that is all of it."""
    if reader.reads_everything:
        return ReadableView(view.tables, view.archive)
    return ClearedView(view, reader)


def expect_readable(view: LedgerView, reader: RecordReader, answer: Any) -> None:
    """Refuse an answer that was made of the whole record, and names what is hidden.

    Raises:
        NotCleared: it does.
    """
    rank = RowClasses(view, reader.principal).rank_of_answer(answer)
    if rank > CLEARANCES.index(reader.clearance):
        raise NotCleared(_TOO_MUCH)


def read_as(view: LedgerView, reader: RecordReader, question: Callable[[ReadableView], T]) -> T:
    """Answer a question from a snapshot as somebody may read it.

    Raises:
        NotCleared: a row would be needed that the reader may not read; that is no damage.
    """
    if reader.reads_everything:
        return question(ReadableView(view.tables, view.archive))
    try:
        return question(ClearedView(view, reader))
    except RowDamaged:
        raise
    except LedgerCorrupt:
        raise NotCleared(_TOO_MUCH) from None


def _read_at_once(limit: int | None) -> int:
    return JUDGED_MAX if limit is None else min(max(limit, 1), JUDGED_MAX)


class ClearedTables:
    """The tables of a snapshot, without the rows that a reader is not cleared for."""

    def __init__(self, view: LedgerView, reader: RecordReader) -> None:
        self._tables = view.tables
        self._classes = RowClasses(view, reader.principal)
        self._rank = CLEARANCES.index(reader.clearance)

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key, None where it may not be read."""
        row = self._tables.get(table, *key)
        return row if row is not None and self._is_read(table, row) else None

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query that may be read, up to its limit."""
        if query.table in OPEN_TABLES:
            return self._tables.scan(query)
        limit = None if query.grouped else query.limit
        readable = self._readable(query._replace(columns=(), grouped=False, limit=limit))
        if not query.columns:
            return readable
        # They are in their order and as many as are asked for.
        return rows_of(query._replace(any_of=("", ())), readable)

    def _readable(self, query: TableQuery) -> list[Row]:
        limit, read = query.limit, _read_at_once(query.limit)
        while True:
            rows = self._tables.scan(query._replace(limit=read))
            readable = [row for row in rows if self._is_read(query.table, row)]
            if len(rows) < read or (limit is not None and len(readable) >= limit):
                return readable[:limit]
            if read == JUDGED_MAX:
                message = f"more than {JUDGED_MAX} rows would be looked at; ask for less"
                raise NotCleared(message)
            read = min(read * _AHEAD, JUDGED_MAX)

    def count(self, query: TableQuery) -> int:
        """Return how many rows of a query may be read."""
        if query.table in OPEN_TABLES:
            return self._tables.count(query)
        return len(self._readable(query._replace(columns=(), grouped=False)))

    def schema_faults(self) -> list[StorageFault]:
        """Return where the tables themselves are not those of this program."""
        return self._tables.schema_faults()

    def content_faults(self) -> ContentReport:
        """Compare stored indexes and pages with the tables."""
        return self._tables.content_faults()

    def _is_read(self, table: Table, row: Row) -> bool:
        return self._classes.rank(table, row) <= self._rank
