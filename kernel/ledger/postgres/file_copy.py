"""Copies a ledger from a database into a file of SQLite, and from such a file into a database.

A copy is one snapshot of every table, row by row, so it needs no right but to read them, no program
of the server's version, and no access to the server's files: a managed service does. The rows are
the same in both, and verification reads either.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Table

from kernel.ledger.postgres.connection import Connection, connect, place_of, unavailable
from kernel.ledger.postgres.schema import check_schema
from kernel.ledger.postgres.store import PostgresStore
from kernel.ledger.schema import metadata
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.keys import column_names, key_names
from kernel.ledger.store.tables import Row, TableQuery
from kernel.values.errors import LedgerUnavailable

ROWS_AT_ONCE: Final = 256
"""Of which each may hold a mebibyte."""

_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def copy_database(url: str, copy: Path) -> None:
    """Copy the ledger in a database into a new file, from one snapshot of its primary.

    Raises:
        LedgerUnavailable: the server does not answer, there is no ledger, or the file cannot be
            written.
        LedgerSchemaDiffers: the tables have another version.
    """
    place = place_of(url)
    with closing(connect(url, place, read_only=True, primary=True)) as connection:
        with unavailable(place):
            check_schema(connection, place, is_whole=True)
            connection.execute(_SNAPSHOT)
        with closing(SqliteStore(copy)) as store, store.transaction() as tables:
            for table in metadata.sorted_tables:
                for rows in _rows_in_database(connection, place, table):
                    tables.insert_many(table, rows)


def fill_database(url: str, file: Path) -> bool:
    """Put the rows of a file into a database, all of them or none.

    Returns whether it did: where a table has a row, nothing is changed.

    Raises:
        LedgerUnavailable: the server does not answer, or the file cannot be read.
        LedgerSchemaDiffers: the tables have another version.
    """
    with closing(PostgresStore(url)) as store, store.transaction() as tables:
        if any(tables.scan(TableQuery(table, limit=1)) for table in metadata.sorted_tables):
            return False
        for table in metadata.sorted_tables:
            for rows in _rows_in_file(file, table):
                tables.insert_many(table, rows)
    return True


def _rows_in_database(connection: Connection, place: str, table: Table) -> Iterator[list[Row]]:
    with unavailable(place):
        connection.execute(f"DECLARE copied NO SCROLL CURSOR FOR {_select(table)}")
        while rows := connection.execute(f"FETCH {ROWS_AT_ONCE} FROM copied").fetchall():
            yield _as_rows(table, rows)
        connection.execute("CLOSE copied")


def _rows_in_file(file: Path, table: Table) -> Iterator[list[Row]]:
    uri = f"{file.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            cursor = connection.execute(_select(table))
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                yield _as_rows(table, rows)
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"{file}: {error}") from error


def _select(table: Table) -> str:
    names, keys = ", ".join(column_names(table)), ", ".join(key_names(table))
    return f"SELECT {names} FROM {table.name} ORDER BY {keys}"  # noqa: S608 - names of the schema


def _as_rows(table: Table, rows: list[tuple[Any, ...]]) -> list[Row]:
    names = column_names(table)
    return [dict(zip(names, row, strict=True)) for row in rows]
