"""The ledger's tables in memory: for tests, and for folding a log without a database.

A view holds the writer off while it is open, so it is a snapshot; nothing is durable.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table

from kernel.ledger.catalog import ContentReport, StorageFault
from kernel.ledger.keys import (
    Columns,
    Values,
    key_names,
    unique_columns,
    values_getter,
)
from kernel.ledger.schema import metadata
from kernel.ledger.tables import DuplicateKey, Row, SingleRows, is_beyond


class _MemoryTable:
    """Rows by primary key, their unique values, and the equality indexes of the schema."""

    def __init__(self, table: Table) -> None:
        self.key_columns = key_names(table)
        self.key = values_getter(self.key_columns)
        self.rows: dict[Values, Row] = {}
        self.unique: dict[Columns, dict[Values, Values]] = {
            columns: {} for columns in unique_columns(table)
        }
        self.indexes: dict[Columns, dict[Values, dict[Values, None]]] = {
            columns: {} for columns in _indexed_columns(table)
        }

    def check(self, row: Row) -> None:
        key = self.key(row)
        for columns, holders in self.unique.items():
            holder = holders.get(_values(row, columns))
            if holder is not None and holder != key:
                raise DuplicateKey(f"{columns}")

    def set(self, key: Values, row: Row | None) -> Row | None:
        """Put or remove a row and return the one that stood there."""
        before = self.rows.pop(key, None)
        if before is not None:
            for columns, holders in self.unique.items():
                holders.pop(_values(before, columns))
            for columns, index in self.indexes.items():
                index[_values(before, columns)].pop(key)
        if row is not None:
            self.rows[key] = row
            for columns, holders in self.unique.items():
                holders[_values(row, columns)] = key
            for columns, index in self.indexes.items():
                index.setdefault(_values(row, columns), {})[key] = None
        return before

    def clear(self) -> None:
        """Forget every row."""
        self.rows.clear()
        for holders in self.unique.values():
            holders.clear()
        for index in self.indexes.values():
            index.clear()

    def matching(self, where: Mapping[str, Any]) -> Iterator[Row]:
        """Yield the rows that equal `where`, through the index that covers most of it."""
        covering = max(
            (columns for columns in self.indexes if all(name in where for name in columns)),
            key=len,
            default=None,
        )
        if covering is None:
            candidates = iter(self.rows.values())
        else:
            keys = self.indexes[covering].get(_values(where, covering), {})
            candidates = (self.rows[key] for key in keys)
        equal = where.items()
        for row in candidates:
            if all(row[name] == value for name, value in equal):
                yield row


def _values(row: Mapping[str, Any], columns: Columns) -> Values:
    return tuple(row[name] for name in columns)


def _indexed_columns(table: Table) -> set[Columns]:
    """The prefixes of every index and of every key of several columns."""
    full = [tuple(column.name for column in index.columns) for index in table.indexes]
    full += unique_columns(table)
    full.append(key_names(table)[:-1])
    return {columns[:length] for columns in full for length in range(1, len(columns) + 1)}


def _trimmed(value: Any) -> Any:
    """Copy bytes: a serialiser's may keep a much larger buffer alive."""
    return bytes(memoryview(value)) if type(value) is bytes else value


class MemoryTables(SingleRows):
    """The tables inside a transaction; every write notes how it is undone."""

    def __init__(self, tables: dict[str, _MemoryTable]) -> None:
        self._tables = tables
        self._undo: list[Callable[[], object]] = []

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        row = self._tables[table.name].rows.get(key)
        return None if row is None else dict(row)

    def select(
        self,
        table: Table,
        where: Mapping[str, Any] | None = None,
        *,
        order_by: str | None = None,
        after: Any = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that equal `where`, in the order of one column."""
        column = order_by or self._tables[table.name].key_columns[-1]
        matching = self._tables[table.name].matching(where or {})
        rows = [row for row in matching if is_beyond(row[column], after, descending=descending)]
        rows.sort(key=lambda row: row[column], reverse=descending)
        return [dict(row) for row in rows[:limit]]

    def select_any(
        self,
        table: Table,
        column: str,
        values: Sequence[str | int],
        where: Mapping[str, Any],
        *,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that equal `where` and have any of the values in a column."""
        if self._tables[table.name].key_columns == (column,):
            rows = (self.get(table, value) for value in dict.fromkeys(values))
            equal = where.items()
            matching = [
                row for row in rows if row and all(row[name] == value for name, value in equal)
            ]
        else:
            matching = [
                row
                for value in dict.fromkeys(values)
                for row in self.select(table, {**where, column: value})
            ]
        return matching[:limit]

    def count(self, table: Table, where: Mapping[str, Any] | None = None) -> int:
        """Return how many rows equal `where`."""
        return sum(1 for _ in self._tables[table.name].matching(where or {}))

    def counts(self, table: Table, *columns: str) -> dict[tuple[Any, ...], int]:
        """Return the number of rows for each combination of the columns' values."""
        rows = self._tables[table.name].rows.values()
        return dict(Counter(tuple(row[name] for name in columns) for row in rows))

    def schema_faults(self) -> list[StorageFault]:
        """Return nothing: here the schema is what it was imported as."""
        return []

    def content_faults(self) -> ContentReport:
        """Return nothing: there are no pages, and indexes are part of their tables."""
        return ContentReport()

    def insert(self, table: Table, row: Row) -> None:
        """Add a row."""
        held = self._tables[table.name]
        if held.key(row) in held.rows:
            raise DuplicateKey(table.name)
        self.put(table, row)

    def append(self, table: Table, row: Row) -> None:
        """Add a row that is new by construction."""
        self.insert(table, row)

    def put(self, table: Table, row: Row) -> None:
        """Add or replace a row."""
        held = self._tables[table.name]
        held.check(row)
        key = held.key(row)
        before = held.set(key, {name: _trimmed(value) for name, value in row.items()})
        self._undo.append(lambda: held.set(key, before))

    def update(self, table: Table, key: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        """Set columns of a row."""
        row = self._tables[table.name].rows[key]
        self.put(table, {**row, **values})

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove the row of a primary key."""
        held = self._tables[table.name]
        before = held.set(key, None)
        self._undo.append(lambda: held.set(key, before))

    def delete_before(self, table: Table, column: str, bound: int) -> int:
        """Remove the rows whose column is below the bound."""
        held = self._tables[table.name]
        keys = [key for key, row in held.rows.items() if row[column] < bound]
        for key in keys:
            self.delete(table, *key)
        return len(keys)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is written inside when an exception leaves the block."""
        mark = len(self._undo)
        try:
            yield
        except BaseException:
            while len(self._undo) > mark:
                self._undo.pop()()
            raise


class MemoryStore:
    """A ledger's place in this process's memory; gone with it."""

    def __init__(self) -> None:
        self._tables = {table.name: _MemoryTable(table) for table in metadata.sorted_tables}
        self._lock = threading.RLock()

    @contextmanager
    def transaction(self) -> Iterator[MemoryTables]:
        """Hold every other transaction off until the block ends."""
        with self._lock:
            tables = MemoryTables(self._tables)
            with tables.savepoint():
                yield tables

    @contextmanager
    def view(self) -> Iterator[MemoryTables]:
        """Hold the writer off while the snapshot is read."""
        with self._lock:
            yield MemoryTables(self._tables)

    def close(self) -> None:
        """Keep everything: the memory is the ledger."""
