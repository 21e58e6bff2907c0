"""Keeps the ledger's tables in memory: for tests, and for folding a log without a database.

A view holds the writer off while it is open, so it is a snapshot; nothing is durable.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import Table

from kernel.ledger.schema import metadata
from kernel.ledger.store.catalog import ContentReport, StorageFault
from kernel.ledger.store.keys import Columns, Values, key_names, unique_columns, values_getter
from kernel.ledger.store.tables import (
    DuplicateKey,
    Row,
    SingleRows,
    TableQuery,
    has_values,
    no_more,
    rows_of,
)


class _MemoryTable:
    """Rows by primary key, their unique values, and the equality indexes of the schema."""

    def __init__(self, table: Table) -> None:
        self.key_columns = key_names(table)
        self.key = values_getter(self.key_columns)
        self._table = table
        self.rows: dict[Values, Row] = {}
        self.unique: dict[Columns, dict[Values, Values]] = {
            columns: {} for columns in unique_columns(table)
        }
        self.indexes: dict[Columns, dict[Values, dict[Values, None]]] = {
            columns: {} for columns in _indexed_columns(table)
        }

    def check(self, row: Row) -> None:
        key = self.key(row)
        steps = self._table.info.get("steps")
        if steps is not None and (row[steps[0]], row[steps[1]]) not in steps[2]:
            raise ValueError(
                f"{self._table.name}: {row[steps[0]]!r} does not lead to {row[steps[1]]!r}"
            )
        for columns, holders in self.unique.items():
            holder = holders.get(values_getter(columns)(row))
            if holder is not None and holder != key:
                raise DuplicateKey(f"{self._table.name}: {columns}")

    def set(self, key: Values, row: Row | None) -> Row | None:
        """Put or remove a row and return the one that stood there."""
        before = self.rows.pop(key, None)
        if before is not None:
            for columns, holders in self.unique.items():
                holders.pop(values_getter(columns)(before))
            for columns, index in self.indexes.items():
                index[values_getter(columns)(before)].pop(key)
        if row is not None:
            self.rows[key] = row
            for columns, holders in self.unique.items():
                holders[values_getter(columns)(row)] = key
            for columns, index in self.indexes.items():
                index.setdefault(values_getter(columns)(row), {})[key] = None
        return before

    def clear(self) -> None:
        """Forget every row."""
        self.rows.clear()
        for holders in self.unique.values():
            holders.clear()
        for index in self.indexes.values():
            index.clear()

    def matching(self, where: Mapping[str, Any]) -> Iterable[Row]:
        """Return the rows that equal `where`, through the index that covers most of it."""
        if not where:
            return self.rows.values()
        covering, other_columns = _covering(self._table, tuple(where))
        if covering:
            keys = self.indexes[covering].get(values_getter(covering)(where), {})
            candidates: Iterable[Row] = map(self.rows.__getitem__, keys)
        else:
            candidates = self.rows.values()
        for name in other_columns:
            candidates = _having(candidates, name, where[name])
        return candidates


def _having(rows: Iterable[Row], name: str, value: Any) -> Iterator[Row]:
    return (row for row in rows if row[name] == value)


@cache
def _indexed_columns(table: Table) -> tuple[Columns, ...]:
    """The prefixes of every index and of every key of several columns."""
    full = [tuple(column.name for column in index.columns) for index in table.indexes]
    full += unique_columns(table)
    full.append(key_names(table)[:-1])
    prefixes = {columns[:length] for columns in full for length in range(1, len(columns) + 1)}
    return tuple(sorted(prefixes))


@cache
def _covering(table: Table, names: Columns) -> tuple[Columns, Columns]:
    """Return the index that covers most of some columns, and the columns that it does not."""
    usable = [columns for columns in _indexed_columns(table) if set(columns) <= set(names)]
    covering: Columns = max(usable, key=len, default=())
    return covering, tuple(name for name in names if name not in covering)


def _own_bytes(value: Any) -> Any:
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

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query, or tuples of values where it names columns."""
        return rows_of(query, self._matching(query))

    def count(self, query: TableQuery) -> int:
        """Return how many rows a query has."""
        columns = query.columns or key_names(query.table)
        return len(rows_of(query._replace(columns=columns), self._matching(query)))

    def _matching(self, query: TableQuery) -> Iterable[Row]:
        table = self._tables[query.table.name]
        if query.any_of is None:
            return table.matching(query.where)
        column, values = query.any_of
        distinct = dict.fromkeys(values)
        if table.key_columns != (column,):
            return (
                row for value in distinct for row in table.matching({**query.where, column: value})
            )
        rows = (table.rows.get((value,)) for value in distinct)
        return (row for row in rows if row is not None and has_values(row, query.where))

    def schema_faults(self) -> list[StorageFault]:
        """Return nothing: here the schema is what it was imported as."""
        return []

    def content_faults(self) -> ContentReport:
        """Return nothing: there are no pages, and indexes are part of their tables."""
        return ContentReport()

    def insert(self, table: Table, row: Row) -> None:
        """Add a row."""
        memory_table = self._tables[table.name]
        if memory_table.key(row) in memory_table.rows:
            raise DuplicateKey(table.name)
        self.put(table, row)

    def append(self, table: Table, row: Row) -> None:
        """Add a row that is new by construction."""
        self.insert(table, row)

    def put(self, table: Table, row: Row) -> None:
        """Add or replace a row."""
        memory_table = self._tables[table.name]
        memory_table.check(row)
        key = memory_table.key(row)
        before = memory_table.set(key, {name: _own_bytes(value) for name, value in row.items()})
        self._undo.append(lambda: memory_table.set(key, before))

    def update(self, table: Table, key: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        """Set columns of a row."""
        row = self._tables[table.name].rows[key]
        self.put(table, {**row, **values})

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove the row of a primary key."""
        memory_table = self._tables[table.name]
        before = memory_table.set(key, None)
        self._undo.append(lambda: memory_table.set(key, before))

    def delete_before(self, table: Table, column: str, bound: int) -> int:
        """Remove the rows whose column is below the bound."""
        memory_table = self._tables[table.name]
        keys = [key for key, row in memory_table.rows.items() if row[column] < bound]
        for key in keys:
            self.delete(table, *key)
        return len(keys)

    @contextmanager
    def savepoint(self, undone: Callable[[], None] = no_more) -> Iterator[None]:
        """Undo what is written inside when an exception leaves the block, and call `undone`."""
        mark = len(self._undo)
        try:
            yield
        except BaseException:
            while len(self._undo) > mark:
                self._undo.pop()()
            undone()
            raise


class MemoryStore:
    """A ledger's place in this process's memory; gone with it."""

    def __init__(self) -> None:
        self._tables = {name: _MemoryTable(table) for name, table in metadata.tables.items()}
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

    def server_time_us(self) -> int | None:
        """Return None: this machine's clock counts."""
        return None

    def engine(self) -> dict[str, str]:
        """Return that nothing is kept."""
        return {"version": "memory"}

    def close(self) -> None:
        """Keep everything: the memory is the ledger."""
