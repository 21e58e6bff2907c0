"""Creates the ledger's tables in PostgreSQL once, with their version and their triggers.

The columns come from `schema.py`; here integers have 64 bits, since microseconds need them, and
text is ordered byte by byte. The version is the comment of the head's table (decision kernel/0114).
"""

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from kernel.ledger.postgres.connection import (
    Connection,
    connect,
    place_of,
    unavailable,
    wait_for_the_disk,
    without_reply_limit,
)
from kernel.ledger.schema import APPEND_ONLY_TABLES, SCHEMA_VERSION, metadata
from kernel.ledger.schema_version import check_version
from kernel.ledger.store import keys
from kernel.values.errors import LedgerUnavailable

if TYPE_CHECKING:
    from kernel.ledger.migrations import SchemaMigration

_COMMENT = "rotulus ledger, schema "
_FOUNDING_LOCK = "SELECT pg_advisory_xact_lock(hashtext('rotulus ledger ' || current_schema()))"
_TYPES = ((Integer, "int8"), (String, "text"), (LargeBinary, "bytea"))
REFUSAL = "rotulus_refuses"
REFUSALS = {
    REFUSAL: " BEGIN RAISE EXCEPTION 'append only'; END ",
    "rotulus_refuses_unless_archived": " BEGIN"
    " IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM archived_rows a"
    " WHERE a.ec_sequence_number = OLD.ec_sequence_number) THEN RETURN OLD; END IF;"
    " RAISE EXCEPTION 'append only'; END ",
    **{
        f"{REFUSAL}_{table.name}": " BEGIN"
        f" IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM {table.info['moves_to']}"
        f" WHERE {table.info['moved_where']}) THEN RETURN OLD; END IF;"
        " RAISE EXCEPTION 'append only'; END "
        for table in APPEND_ONLY_TABLES
        if "moved_where" in table.info
    },
}
"""The bodies of the functions that triggers call, by their names."""


@cache
def unique_columns(table: Table) -> frozenset[str]:
    """Return the columns by whose value two rows of different keys can collide."""
    return frozenset(chain.from_iterable(keys.unique_columns(table)))


@cache
def column_types(table: Table) -> tuple[str, ...]:
    """Return the names of the columns' types, as a binary COPY has to know them."""
    return tuple(
        next(name for kind, name in _TYPES if isinstance(column.type, kind))
        for column in table.columns
    )


def create_schema(connection: Connection, place: str) -> None:
    """Create the tables where there are none, in one transaction.

    Raises:
        LedgerSchemaDiffers: when there are tables of another version.
        LedgerUnavailable: when the encoding is not UTF-8.
    """
    with connection.transaction():
        connection.execute(_FOUNDING_LOCK)
        if _version(connection) is None:
            _check_encoding(connection, place)
            for statement in definitions():
                connection.execute(statement)
            _set_version(connection, SCHEMA_VERSION)
    check_schema(connection, place)


def check_schema(connection: Connection, place: str) -> None:
    """Refuse a database whose tables this program cannot read.

    Raises:
        LedgerUnavailable: when there are none.
        LedgerSchemaDiffers: when they have another version.
    """
    version = _version(connection)
    if version is None:
        raise LedgerUnavailable(f"no ledger at {place}")
    check_version(version, place)


def migrate(url: str, *, dry_run: bool = False) -> "SchemaMigration":
    """Bring the tables of a database to the newest version, all of the way or not at all.

    A second migration meanwhile waits for this one and finds nothing left to do. A writer of an
    earlier program that is still connected is refused at its next transaction.

    Raises:
        LedgerUnavailable: when there is no ledger, it cannot be reached, or the lock of its head
            was not had in time.
        LedgerSchemaDiffers: when no migration leads on from what was found.
    """
    # Alembic takes a while to load and is seldom needed.
    from kernel.ledger.migrations import SchemaMigration, revisions_after  # noqa: PLC0415 - see above

    place = place_of(url)
    connection = connect(url, place, read_only=dry_run, primary=not dry_run)
    with unavailable(place), connection, connection.transaction():
        if not dry_run:
            wait_for_the_disk(connection)
            connection.execute(_FOUNDING_LOCK)
        version = _version(connection)
        if version is None:
            raise LedgerUnavailable(f"no ledger at {place}")
        revisions = revisions_after(version, "postgresql")
        if revisions and not dry_run:
            # A writer that begins now waits, and then sees the new version.
            connection.execute("LOCK TABLE chain_head IN ACCESS EXCLUSIVE MODE")
            for revision in revisions:
                with without_reply_limit(connection):
                    for statement in revision.statements:
                        connection.execute(statement)
            _set_version(connection, revisions[-1].version)
    return SchemaMigration(version, revisions)


def version_in(comment: str | None) -> int:
    """Return the version that the comment of the head's table states, -1 where it states none."""
    number = (comment or "").removeprefix(_COMMENT)
    return int(number) if number.isdecimal() else -1


def _version(connection: Connection) -> int | None:
    row = connection.execute(
        "SELECT obj_description(to_regclass('chain_head'), 'pg_class'),"
        " to_regclass('chain_head') IS NOT NULL"
    ).fetchone()
    return version_in(row[0]) if row is not None and row[1] else None


def _set_version(connection: Connection, version: int) -> None:
    connection.execute(f"COMMENT ON TABLE chain_head IS '{_COMMENT}{version}'")


def _check_encoding(connection: Connection, place: str) -> None:
    row = connection.execute("SHOW server_encoding").fetchone()
    if row is None or row[0] != "UTF8":
        raise LedgerUnavailable(f"{place} is not encoded in UTF-8", code="ledger_encoding")


@cache
def definitions() -> tuple[str, ...]:
    """Return the statements that make the tables of this program."""
    statements = []
    dialect = make_url("postgresql+psycopg://").get_dialect()()
    for table in tables().sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect)))
        statements += [
            str(CreateIndex(index).compile(dialect=dialect))
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    statements += [
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"
        for name, body in REFUSALS.items()
    ]
    for table in APPEND_ONLY_TABLES:
        for change, scope, function in (
            ("UPDATE OR DELETE", "ROW", refusal_of(table)),
            ("TRUNCATE", "STATEMENT", REFUSAL),
        ):
            name = f"{table.name}_refuses_{scope.lower()}"
            statements.append(
                f"CREATE TRIGGER {name} BEFORE {change} ON {table.name}"
                f" FOR EACH {scope} EXECUTE FUNCTION {function}()"
            )
    return tuple(statements)


def refusal_of(table: Table) -> str:
    """Return the function that refuses changes of an append-only table's rows."""
    if "moved_where" in table.info:
        return f"{REFUSAL}_{table.name}"
    return f"{REFUSAL}_unless_archived" if "moves_to" in table.info else REFUSAL


@cache
def tables() -> MetaData:
    """Return the schema's tables with the types of PostgreSQL."""
    copy = MetaData()
    for table in metadata.sorted_tables:
        for column in table.to_metadata(copy).columns:
            if isinstance(column.type, Integer):
                column.type = BigInteger()
                column.autoincrement = False
            elif isinstance(column.type, String):
                column.type = String(collation="C")
    return copy
