"""Creates the ledger's tables in SQLite once, with their version and their triggers.

The version is the file's `user_version` (decision kernel/0114).
"""

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from kernel.ledger.schema import APPEND_ONLY_TABLES, SCHEMA_VERSION, metadata
from kernel.ledger.schema_version import check_version
from kernel.ledger.sqlite.ledger_files import fold, is_folded
from kernel.ledger.store.keys import key_names
from kernel.values.errors import LedgerUnavailable

if TYPE_CHECKING:
    from kernel.ledger.migrations import SchemaMigration

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
    version = schema_version(writer)
    if version == 0:
        for statement in definitions():
            writer.execute(statement)
        writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    writer.execute("COMMIT")
    check_version(version or SCHEMA_VERSION, str(path))


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file whose tables this program cannot read.

    Raises:
        LedgerUnavailable: when there are none.
        LedgerSchemaDiffers: when they have another version.
    """
    version = schema_version(connection)
    if version == 0:
        raise LedgerUnavailable(f"no ledger at {path}")
    check_version(version, str(path))


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
            version = schema_version(connection)
            if version == 0:
                raise LedgerUnavailable(f"no ledger at {path}")
            revisions = revisions_after(version, "sqlite")
            if revisions and not dry_run:
                for revision in revisions:
                    for statement in revision.statements:
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {revisions[-1].version}")
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            # Closing the connection undoes what was begun.
            raise LedgerUnavailable(f"{path}: {error}") from error
    if folded:
        fold(path)
    return SchemaMigration(version, revisions)


def schema_version(connection: sqlite3.Connection) -> int:
    """Return the version of a file's tables, 0 where there are none."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


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
