"""Keeps what is computed again: in memory while it is small, from some size on in a file.

A fold of a log needs a ledger's tables for as long as it takes, and nobody's promise that they
last. Up to a bound they are in memory, which is what a small ledger is verified in. Beyond it all
rows move into a temporary database of SQLite, of which a bounded part is in memory; the operating
system keeps it without a name, in the folder for temporary files, and it is gone with the process,
however that ends (decision kernel/0232).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table

from kernel.ledger.schema import metadata
from kernel.ledger.sqlite.schema import table_definitions
from kernel.ledger.sqlite.store import SqliteTables
from kernel.ledger.store.memory import MemoryStore, MemoryTables
from kernel.ledger.store.tables import Row

ROWS_IN_MEMORY_MAX = 20_000
BYTES_IN_MEMORY_MAX = 32 << 20
"""Of what was written into memory, what was written over included."""

FILE_CACHE_KIB = 16 * 1024


class _MeasuredTables(MemoryTables):
    """Tables in memory that say how many bytes were written into them."""

    bytes_written = 0

    def put(self, table: Table, row: Row) -> None:
        """Add or replace a row."""
        super().put(table, row)
        self.bytes_written += sum(
            len(value) for value in row.values() if isinstance(value, bytes | str)
        )


class SpillingStore(MemoryStore):
    """The tables of one fold; durable for nobody."""

    def __init__(
        self,
        rows_in_memory_max: int = ROWS_IN_MEMORY_MAX,
        bytes_in_memory_max: int = BYTES_IN_MEMORY_MAX,
    ) -> None:
        super().__init__()
        self._rows_max = rows_in_memory_max
        self._bytes_left = bytes_in_memory_max
        self._file: sqlite3.Connection | None = None
        self._texts: dict[Any, str] = {}

    @property
    def rows_in_memory(self) -> int:
        """How many rows are held outside of the file."""
        return sum(len(table.rows) for table in self._tables.values())

    @property
    def is_in_file(self) -> bool:
        """Whether the rows have moved into the file."""
        return self._file is not None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Write; what is in memory moves into the file when it has become too large for it."""
        with self._lock:
            if self._file is not None:
                yield from self._in_file(self._file)
                return
            tables = _MeasuredTables(self._tables)
            with tables.savepoint():
                yield tables
            self._bytes_left -= tables.bytes_written
            if self._bytes_left < 0 or self.rows_in_memory > self._rows_max:
                self._spill()

    @contextmanager
    def view(self) -> Iterator[Any]:
        """Read what was written."""
        with self._lock:
            if self._file is None:
                yield MemoryTables(self._tables)
            else:
                yield SqliteTables(self._file, self._texts)

    def close(self) -> None:
        """Forget everything, the file as well."""
        if self._file is not None:
            self._file.close()
        for table in self._tables.values():
            table.clear()

    def _in_file(self, file: sqlite3.Connection) -> Iterator[SqliteTables]:
        file.execute("BEGIN")
        try:
            yield SqliteTables(file, self._texts)
        except BaseException:
            if file.in_transaction:
                file.execute("ROLLBACK")
            raise
        file.execute("COMMIT")

    def _spill(self) -> None:
        # An empty name is a file of SQLite's own, which is removed as soon as it is open.
        file = sqlite3.connect(
            "", isolation_level=None, cached_statements=256, check_same_thread=False
        )
        file.execute("PRAGMA journal_mode = MEMORY")
        file.execute("PRAGMA synchronous = OFF")
        file.execute(f"PRAGMA cache_size = -{FILE_CACHE_KIB}")
        for statement in table_definitions():
            file.execute(statement)
        file.execute("BEGIN")
        tables = SqliteTables(file, self._texts)
        for table in metadata.sorted_tables:
            memory_table = self._tables[table.name]
            tables.insert_many(table, list(memory_table.rows.values()))
            memory_table.clear()
        file.execute("COMMIT")
        self._file = file
