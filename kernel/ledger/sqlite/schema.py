"""Creates the ledger's tables in SQLite once, with their version and their triggers.

The version is the file's `user_version`, as `TablesVersion.number` (decision kernel/0114).
"""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from kernel.ledger.migration_plan import SAMPLE_ROWS, RowsLook
from kernel.ledger.schema import APPEND_ONLY_TABLES, metadata
from kernel.ledger.schema_version import (
    TablesVersion,
    check_own,
    check_version,
    own_version,
    version_of,
)
from kernel.ledger.sqlite.ledger_files import fold, is_folded
from kernel.ledger.store.keys import key_names
from kernel.values.errors import LedgerUnavailable

if TYPE_CHECKING:
    from kernel.ledger.migrations import SchemaMigration

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_SAMPLE = f"SELECT * FROM {{table}} LIMIT {SAMPLE_ROWS}"  # noqa: S608 - names of the schema
_TICK_S = 1e-6

BUSY_TIMEOUT_S = 4.0
"""For how long a writer waits: a writer that waits twice in vain has waited less than a lease."""


def table_definitions() -> list[str]:
    """Return the statements that make tables and indexes."""
    statements = []
    for table in metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect.dialect())))
        statements += [
            str(CreateIndex(index).compile(dialect=dialect.dialect()))
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    return statements


@cache
def definitions() -> tuple[str, ...]:
    """Return the statements that make the tables of this program, and what guards them."""
    statements = table_definitions()
    for table in APPEND_ONLY_TABLES:
        statements += [
            f"CREATE TRIGGER {table.name}_refuses_{change.lower()} BEFORE {change} "
            f"ON {table.name}{condition} BEGIN SELECT RAISE(ABORT, 'append only'); END"
            for change, condition in (("UPDATE", ""), ("DELETE", _move_condition(table)))
        ]
    return tuple(statements)


def _move_condition(table: Table) -> str:
    """Return the condition of a trigger that lets rows go which have moved to another table."""
    if "moves_to" not in table.info:
        return ""
    target, key = table.info["moves_to"], key_names(table)[0]
    where = table.info.get("moved_where", f"{key} = OLD.{key}")
    return f" WHEN NOT EXISTS (SELECT 1 FROM {target} WHERE {where})"  # noqa: S608 - names of the schema


def create_schema(writer: sqlite3.Connection, path: Path) -> None:
    """Create the tables where there are none, in one transaction.

    Raises:
        LedgerSchemaDiffers: when there are tables of another version.
        LedgerUnavailable: when the lock was not had in time.
    """
    begin_immediate(writer)
    number = schema_number(writer)
    if number == 0:
        for statement in definitions():
            writer.execute(statement)
        number = own_version().number
        writer.execute(f"PRAGMA user_version = {number}")
    writer.execute("COMMIT")
    check_version(version_of(number), str(path))


def check_schema(connection: sqlite3.Connection, path: Path, *, is_whole: bool = False) -> None:
    """Refuse a file whose tables this program cannot read, or cannot copy as a whole.

    Raises:
        LedgerUnavailable: when there are none.
        LedgerSchemaDiffers: when they have another version.
    """
    number = schema_number(connection)
    if number == 0:
        raise LedgerUnavailable(f"no ledger at {path}")
    (check_own if is_whole else check_version)(version_of(number), str(path))


def migrate(path: Path, *, dry_run: bool = False) -> "SchemaMigration":
    """Bring the tables of a file to the newest version, all of the way or not at all.

    A second migration meanwhile waits for this one and finds nothing left to do. A writer of an
    earlier program that still has the file open is refused at its next transaction.

    Raises:
        LedgerUnavailable: when there is no ledger, or the lock was not had in time.
        LedgerSchemaDiffers: when no migration leads on from what was found.
    """
    folded = is_folded(path)
    # Alembic takes a while to load and is seldom needed.
    from kernel.ledger.migrations import SchemaMigration, revisions_after  # noqa: PLC0415 - see above

    with closing(_open(path, "ro" if dry_run else "rw")) as connection:
        try:
            if not dry_run:
                connection.execute("PRAGMA synchronous = FULL")
                begin_immediate(connection)
            number = schema_number(connection)
            if number == 0:
                raise LedgerUnavailable(f"no ledger at {path}")
            version = version_of(number).version
            revisions = revisions_after(version, "sqlite")
            if revisions and not dry_run:
                for revision in revisions:
                    for statement in revision.statements:
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {revisions[-1].tables.number}")
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            # Closing the connection undoes what was begun.
            raise LedgerUnavailable(f"{path}: {error}") from error
    if folded:
        fold(path)
    return SchemaMigration(version, revisions)


def look_at_rows(
    path: Path, tables: Iterable[str], now_s: Callable[[], float]
) -> dict[str, RowsLook]:
    """Count the rows of those tables that there are, and time the reading of some.

    Raises:
        LedgerUnavailable: there is no ledger.
    """
    looks = {}
    with closing(_open(path, "ro")) as connection:
        there = {name for (name,) in connection.execute(_TABLES)}
        for table in there.intersection(tables):
            [(rows,)] = connection.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - of the schema
            began_s = now_s()
            read = len(connection.execute(_SAMPLE.format(table=table)).fetchall())
            looks[table] = RowsLook(rows, read / max(now_s() - began_s, _TICK_S) if read else None)
    return looks


def schema_number(connection: sqlite3.Connection) -> int:
    """Return what a file's tables state of their version, 0 where there are none."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def schema_version(connection: sqlite3.Connection) -> TablesVersion:
    """Return the version of a file's tables."""
    return version_of(schema_number(connection))


def begin_immediate(writer: sqlite3.Connection) -> None:
    """Begin a transaction with the writer's lock.

    Raises:
        LedgerUnavailable: when the lock was not granted in time.
    """
    try:
        writer.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        raise LedgerUnavailable(str(error)) from error


def _open(path: Path, mode: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
        )
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"no ledger at {path}: {error}") from error
