"""Holds back until the end of a transaction what is written in it, and reads as if it were written.

A row is read from the store once; what is written goes to memory and reaches the store in bulk, a
few statements for a whole batch of operations (decision kernel/0099). One promise of the port
changes: a row that was appended is not looked up first, so a key that exists after all is found
when the rows are flushed, and fails the transaction as a whole.

A flush sorts rows by key, and adds a row that was looked for and not there instead of replacing it.
Undoing a savepoint is undoing a list of changes in memory. The store sees no savepoints.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import chain
from typing import Any, Final

from sqlalchemy import Table

from kernel.ledger.store.catalog import ContentReport, StorageFault
from kernel.ledger.store.keys import Columns, Values, key_names, unique_columns, values_getter
from kernel.ledger.store.tables import (
    DuplicateKey,
    Joined,
    Questions,
    Row,
    SingleRows,
    TableQuery,
    Tables,
    has_values,
    is_beyond,
    no_more,
    rows_of,
)

Key = tuple[str | int, ...]


class _Unread(Enum):
    """Stands for a row that was not read from the store yet."""

    ROW = "unread"


_UNREAD: Final = _Unread.ROW


@dataclass(slots=True)
class TableChanges:
    """What a transaction does to one table, in this order."""

    table: Table
    deleted: list[Key] = field(default_factory=list)
    replaced: list[Row] = field(default_factory=list)
    added: list[Row] = field(default_factory=list)


def write(changes: Iterable[TableChanges], tables: Tables) -> None:
    """Write what a transaction came to; the store may judge it no sooner than at COMMIT.

    Rows that give up a unique value are removed before others take it. Rows that move to another
    table leave their own once they are there. What a row refers to is written before it.

    Raises:
        DuplicateKey: when a row that was new by construction is there already; nothing of the
            transaction may be kept.
    """
    parts: tuple[list[TableChanges], list[TableChanges]] = ([], [])
    for change in changes:
        parts[bool(change.deleted) and "moves_to" in change.table.info].append(change)
    with tables.together():
        for of_table in chain(*parts):
            for key in of_table.deleted:
                tables.delete(of_table.table, *key)
            if of_table.replaced:
                tables.put_many(of_table.table, of_table.replaced)
            if of_table.added:
                tables.insert_many(of_table.table, of_table.added)


def query_ahead(
    table: Table,
    column: str,
    values: Iterable[str | int],
    where: Mapping[str, Any] | None = None,
    *,
    most: int | None = None,
) -> TableQuery:
    """Return the query that reads what will be asked for value by value; see `read_ahead`."""
    askable = list(dict.fromkeys(values))
    if not _is_askable("".join(map(str, askable))):
        askable = [value for value in askable if _is_askable(str(value))]
    limit = None if most is None else most + 1
    return TableQuery(table, where or {}, (column, askable), limit=limit)


def joined_ahead(
    table: Table,
    column: str,
    values: Iterable[str | int] = (),
    where: Mapping[str, Any] | None = None,
    *,
    of: Sequence[tuple[Joined, str]] = (),
) -> Joined:
    """Return the same, where further values stand in columns of other queries' rows."""
    return Joined(query_ahead(table, column, values, where), tuple(of))


@cache
def _place(table: Table) -> int:
    """Return where a table stands in a write."""
    referred = [_place(key.referred_table) for key in table.foreign_key_constraints]
    return max(referred, default=-1) + 1


class _TableBuffer:
    """The known rows of one table, what is to be written, and indexes over the latter."""

    def __init__(self, table: Table) -> None:
        self.key: Callable[[Row], Key] = values_getter(key_names(table))
        self.unique = unique_columns(table)
        self.order_column = key_names(table)[-1]
        self.rows: dict[Key, Row | None] = {}
        """Rows as they stand in this transaction; None where there is none."""

        self.pending: dict[Key, bool] = {}
        """Keys that are to be written, and whether the store has no row under that key."""

        self.moved: set[Key] = set()
        """Keys whose unique values may differ from the stored ones, so that they change hands."""

        self.indexes: dict[Columns, dict[Values, dict[Key, None]]] = {}
        """Indexes over pending rows, by the columns of earlier queries."""

        self.ahead: dict[Columns, dict[Values, list[Row]]] = {}
        """All the stored rows that have certain values in these columns, read ahead of need."""

    def forget(self) -> None:
        """Forget what was read; nothing is to be written."""
        self.rows.clear()
        self.ahead.clear()
        self.moved.clear()

    def set(self, key: Key, row: Row | _Unread | None, pending: bool | None) -> None:  # noqa: FBT001
        """Set the row under a key, for the flush to add, to replace, or to leave as it is."""
        if self.indexes:
            self._reindex(key, row if pending is not None else None)
        if row is _UNREAD:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row
        if pending is None:
            self.pending.pop(key, None)
        else:
            self.pending[key] = pending

    def matching(self, columns: Columns, values: Values) -> list[Row]:
        """Return the rows to be written that have these values, all where no column is named."""
        if not columns:
            keys: Iterable[Key] = self.pending
        else:
            index = self.indexes.get(columns)
            if index is None:
                index = self._build_index(columns)
            keys = index.get(values, ())
        return [row for key in keys if (row := self.rows[key]) is not None]

    def _build_index(self, columns: Columns) -> dict[Values, dict[Key, None]]:
        index = self.indexes[columns] = {}
        for key in self.pending:
            row = self.rows[key]
            if row is not None:
                index.setdefault(tuple([row[name] for name in columns]), {})[key] = None
        return index

    def _reindex(self, key: Key, row: Row | _Unread | None) -> None:
        before = self.rows[key] if key in self.pending else None
        for columns, index in self.indexes.items():
            if before is not None:
                index[tuple([before[name] for name in columns])].pop(key)
            if row is not None and row is not _UNREAD:
                index.setdefault(tuple([row[name] for name in columns]), {})[key] = None


_Undo = tuple[_TableBuffer, Key, Row | _Unread | None, bool | None]
"""A row of a table, as it was before a change."""


@dataclass(slots=True)
class _Savepoint:
    """A stretch of a transaction that can be undone; savepoints lie in one another."""

    tables: "BufferedTables"
    undone: Callable[[], None]
    begun_at: int = 0
    """How many changes there were when it began."""

    def __enter__(self) -> None:
        self.begun_at = len(self.tables.undo)
        self.tables.savepoints_open += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.tables.savepoints_open -= 1
        if kind is None:
            return
        undo = self.tables.undo
        while len(undo) > self.begun_at:
            buffer, key, row, pending = undo.pop()
            buffer.set(key, row, pending)
        self.undone()


class _TableBuffers(dict[Table, _TableBuffer]):
    """What is known of each table, from nothing at first."""

    def __missing__(self, table: Table) -> _TableBuffer:
        buffer = self[table] = _TableBuffer(table)
        return buffer


class BufferedTables(SingleRows):
    """The port over another one's tables, for the duration of its transaction; see `changes`."""

    def __init__(self, store: Tables) -> None:
        self._store = store
        self._prefetch = getattr(store, "prefetch", None)
        self._buffers = _TableBuffers()
        self.undo: list[_Undo] = []
        """What takes each change back, in the order of the changes."""

        self.savepoints_open = 0

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        buffer = self._buffers[table]
        row = buffer.rows.get(key, _UNREAD)
        if row is _UNREAD:
            row = buffer.rows[key] = self._store.get(table, *key)
        return None if row is None else row.copy()

    def peek(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key as it is kept here, for reading only."""
        buffer = self._buffers[table]
        row = buffer.rows.get(key, _UNREAD)
        if row is _UNREAD:
            row = buffer.rows[key] = self._store.get(table, *key)
        return row

    def buffered_rows(self, table: Table) -> Mapping[Key, Row | None]:
        """Return the rows of a table that were read or written, as they stand; it follows them."""
        return self._buffers[table].rows

    @staticmethod
    def can_ask(text: str) -> bool:
        """Tell whether every store can be asked for a text; no stored name holds another."""
        return _is_askable(text)

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query, or tuples of values where it names columns."""
        table, where, any_of, columns, order_by, after, descending, limit, grouped = query
        buffer = self._buffers[table]
        if any_of is not None:
            return self._of_any(buffer, query, *any_of)
        if grouped:
            return self._groups(query)
        column = order_by or buffer.order_column
        names, values = tuple(where), tuple(where.values())
        known = buffer.ahead.get(names)
        ahead = None if known is None else known.get(values)
        if ahead is not None:
            # An empty list is the one that is kept; nothing is added to it.
            rows = ahead and [
                row.copy() for row in ahead if is_beyond(row[column], after, descending=descending)
            ]
        else:
            if not buffer.pending:
                return self._store.scan(query)
            # At most so many of the first stored rows have another version here.
            rows_max = None if limit is None else limit + len(buffer.pending)
            rows = self._store.scan(query._replace(columns=(), limit=rows_max))
        if buffer.pending:
            written = [
                row.copy()
                for row in buffer.matching(names, values)
                if is_beyond(row[column], after, descending=descending)
            ]
            rows = rows and [row for row in rows if buffer.key(row) not in buffer.pending]
            rows = rows + written
        if len(rows) > 1:
            rows.sort(key=lambda row: row[column], reverse=descending)
        return rows[:limit] if not columns else [*map(values_getter(columns), rows[:limit])]

    def count(self, query: TableQuery) -> int:
        """Return how many rows a query has."""
        if not self._buffers[query.table].pending:
            return self._store.count(query)
        if query.any_of is not None or query.after is not None or query.grouped:
            return len(self.scan(query))
        count = self._store.count(query._replace(limit=None))
        count += sum(change for _, change in self._changes(query))
        return count if query.limit is None else min(count, query.limit)

    def _of_any(
        self, buffer: _TableBuffer, query: TableQuery, column: str, values: Sequence[str | int]
    ) -> list[Any]:
        askable = [value for value in dict.fromkeys(values) if _is_askable(str(value))]
        query = query._replace(any_of=(column, askable))
        if not buffer.pending:
            return self._store.scan(query)
        rows_max = None if query.limit is None else query.limit + len(buffer.pending)
        stored = self._store.scan(query._replace(columns=(), limit=rows_max))
        rows = [row for row in stored if buffer.key(row) not in buffer.pending]
        for value in askable:
            equal = {**query.where, column: value}
            rows += buffer.matching(tuple(equal), tuple(equal.values()))
        return rows_of(query, rows)

    def _groups(self, query: TableQuery) -> list[Any]:
        counter = Counter({tuple(group): count for *group, count in self._store.scan(query)})
        take = values_getter(query.columns)
        for row, change in self._changes(query):
            counter[take(row)] += change
        return [(*group, count) for group, count in counter.items() if count]

    def read_ahead(
        self,
        table: Table,
        column: str,
        values: Iterable[str | int],
        where: Mapping[str, Any] | None = None,
        *,
        most: int | None = None,
    ) -> list[Row]:
        """Read in one go what will be asked for value by value; a hint that changes no answer.

        With the primary key as the column `get` is answered from it, else `scan` by exactly the
        columns of `where` and, after them, `column`. Where there are more rows than `most`,
        none are kept and none returned.
        """
        [rows] = self.read_all_ahead([query_ahead(table, column, values, where, most=most)])
        return rows

    def read_all_ahead(
        self, queries: Sequence[TableQuery], further: Sequence[TableQuery] = ()
    ) -> list[list[Row]]:
        """Read several queries of `query_ahead` in one round trip, where the store is elsewhere.

        Such a store is asked the `further` queries as well, and answers them when they are asked.
        """
        if self._prefetch is not None:
            joined = [Joined(query) for query in queries if query.any_of and query.any_of[1]]
            self._prefetch(Questions(joined, further))
        answers: list[list[Row]] = []
        for query in queries:
            table, equal, any_of = query.table, query.where, query.any_of
            assert any_of is not None  # noqa: S101 - for the types
            column, values = any_of
            rows = self._store.scan(query) if values else []
            answers.append(rows)
            if query.limit is not None and len(rows) == query.limit:
                answers[-1] = []
                continue
            buffer = self._buffers[table]
            if key_names(table) == (column,):
                by_key = {row[column]: row for row in rows}
                for value in values:
                    buffer.rows.setdefault((value,), by_key.get(value))
                continue
            known, same = buffer.ahead.setdefault((*equal, column), {}), tuple(equal.values())
            for value in values:
                known[(*same, value)] = []
            for row in rows:
                known[(*same, row[column])].append(row)
                buffer.rows.setdefault(buffer.key(row), row)
        return answers

    def schema_faults(self) -> list[StorageFault]:
        """Return what the store says of its tables."""
        return self._store.schema_faults()

    def content_faults(self) -> ContentReport:
        """Return what the store says of what it holds."""
        return self._store.content_faults()

    def insert(self, table: Table, row: Row) -> None:
        """Add a row."""
        buffer = self._buffers[table]
        key = buffer.key(row)
        if self.peek(table, *key) is not None:
            raise DuplicateKey(table.name)
        self._check_unique(table, buffer, row)
        self._add(buffer, key, row)

    def append(self, table: Table, row: Row) -> None:
        """Add a row whose key and unique values are new by construction; it is kept as it is."""
        buffer = self._buffers[table]
        key = buffer.key(row)
        before = buffer.rows.get(key, _UNREAD)
        if before is not None and before is not _UNREAD:
            raise DuplicateKey(table.name)
        # What is to be written is known: of a row that was not read nothing is.
        pending = None if before is _UNREAD else buffer.pending.get(key)
        if pending is False and buffer.unique:
            buffer.moved.add(key)
        self.undo.append((buffer, key, before, pending))
        is_new = pending is not False
        if buffer.indexes:
            buffer.set(key, row, is_new)
        else:
            buffer.rows[key] = row
            buffer.pending[key] = is_new

    def put(self, table: Table, row: Row) -> None:
        """Add or replace a row; it is kept as it is."""
        buffer = self._buffers[table]
        key = buffer.key(row)
        if buffer.unique:
            self._check_unique(table, buffer, row)
            buffer.moved.add(key)
        before, pending = buffer.rows.get(key, _UNREAD), buffer.pending.get(key)
        self.undo.append((buffer, key, before, pending))
        if pending is None:
            # A row that was looked for and is not there is added, which costs less than replacing.
            pending = before is None
        if buffer.indexes:
            buffer.set(key, row, pending)
        else:
            buffer.rows[key] = row
            buffer.pending[key] = pending

    def update(self, table: Table, key: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        """Set columns of a row."""
        buffer = self._buffers[table]
        before = self.peek(table, *key)
        if before is None:
            return
        row = {**before, **values}
        if any(name in values for names in buffer.unique for name in names):
            self._check_unique(table, buffer, row)
            buffer.moved.add(key)
        self._set(buffer, key, row, buffer.pending.get(key, False))

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove the row of a primary key."""
        self._set(self._buffers[table], key, None, False)

    def delete_before(self, table: Table, column: str, bound: int) -> int:
        """Remove the rows whose column is below the bound.

        Inside a savepoint, or with rows held back, the rows are read first.
        """
        if not self.savepoints_open and not self._buffers[table].pending:
            self._buffers[table].forget()
            return self._store.delete_before(table, column, bound)
        rows = self.scan(TableQuery(table, order_by=column, after=bound, descending=True))
        for row in rows:
            self.delete(table, *self._buffers[table].key(row))
        return len(rows)

    def savepoint(self, undone: Callable[[], None] = no_more) -> _Savepoint:
        """Undo what is written inside when an exception leaves the block, and call `undone`."""
        return _Savepoint(self, undone)

    def pending_tables(self) -> list[Table]:
        """Return the tables of which rows are held back."""
        return [table for table, buffer in self._buffers.items() if buffer.pending]

    def pending_rows(self, table: Table) -> list[Row]:
        """Return the rows of a table that are held back, without those to be deleted."""
        buffer = self._buffers[table]
        rows = (buffer.rows[key] for key in buffer.pending)
        return [row for row in rows if row is not None]

    @property
    def has_changes(self) -> bool:
        """Whether anything is held back."""
        return any(buffer.pending for buffer in self._buffers.values())

    def changes(self) -> list[TableChanges]:
        """Return everything that was held back, table by table, for `write`."""
        changes = []
        for table in sorted(self.pending_tables(), key=_place):
            buffer = self._buffers[table]
            of_table = TableChanges(table)
            # In the order of their keys, so that neighbours are written into one page.
            for key, is_new in sorted(buffer.pending.items()):
                row = buffer.rows[key]
                if row is None or (key in buffer.moved and not is_new):
                    of_table.deleted.append(key)
                if row is not None:
                    (of_table.added if is_new else of_table.replaced).append(row)
            changes.append(of_table)
        return changes

    def _add(self, buffer: _TableBuffer, key: Key, row: Row) -> None:
        is_new = buffer.pending.get(key, True)
        if not is_new and buffer.unique:
            # The store has the row; it was deleted here and comes back with other unique values.
            buffer.moved.add(key)
        self._set(buffer, key, row.copy(), is_new)

    def _set(self, buffer: _TableBuffer, key: Key, row: Row | None, pending: bool) -> None:  # noqa: FBT001
        self.undo.append((buffer, key, buffer.rows.get(key, _UNREAD), buffer.pending.get(key)))
        if buffer.indexes:
            buffer.set(key, row, pending)
        else:
            buffer.rows[key] = row
            buffer.pending[key] = pending

    def _changes(self, query: TableQuery) -> Iterator[tuple[Row, int]]:
        """Return which rows with the values of a query a flush adds, and which it removes."""
        buffer = self._buffers[query.table]
        for key in buffer.pending:
            before, now = self._store.get(query.table, *key), buffer.rows[key]
            if before is not None and has_values(before, query.where):
                yield before, -1
            if now is not None and has_values(now, query.where):
                yield now, 1

    def _check_unique(self, table: Table, buffer: _TableBuffer, row: Row) -> None:
        if not buffer.unique:
            return
        key = buffer.key(row)
        for columns in buffer.unique:
            rows = self.scan(TableQuery(table, {name: row[name] for name in columns}))
            if any(buffer.key(other) != key for other in rows):
                raise DuplicateKey(f"{table.name}: {', '.join(columns)}")


def _is_askable(text: str) -> bool:
    """Tell whether every store can be asked for a text; no stored name holds another."""
    try:
        return 0 not in text.encode()
    except UnicodeEncodeError:
        return False
