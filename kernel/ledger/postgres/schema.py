"""Creates the ledger's tables in PostgreSQL once, with their version and their triggers.

The columns come from `schema.py`; here integers have 64 bits, since microseconds need them, and
text is ordered byte by byte. The version is the comment of the head's table (decision kernel/0114).
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from kernel.ledger.migration_plan import SAMPLE_ROWS, RowsLook
from kernel.ledger.postgres.connection import (
    Connection,
    connect,
    place_of,
    unavailable,
    wait_for_the_disk,
    without_reply_limit,
)
from kernel.ledger.schema import APPEND_ONLY_TABLES, metadata
from kernel.ledger.schema_version import TablesVersion, check_own, check_version, own_version
from kernel.ledger.store import keys
from kernel.values.errors import LedgerUnavailable

if TYPE_CHECKING:
    from kernel.ledger.migrations import SchemaMigration

_COMMENT = re.compile(r"rotulus ledger, schema (\d+)(?:, programs from (\d+))?")
_FOUNDING_LOCK = "SELECT pg_advisory_xact_lock(hashtext('rotulus ledger ' || current_schema()))"
_ESTIMATE = "SELECT (SELECT reltuples::int8 FROM pg_class WHERE oid = to_regclass(%s))"
_TICK_S = 1e-6
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
            _set_version(connection, own_version())
    check_schema(connection, place)


def check_schema(connection: Connection, place: str, *, is_whole: bool = False) -> None:
    """Refuse a database whose tables this program cannot read, or cannot copy as a whole.

    Raises:
        LedgerUnavailable: when there are none.
        LedgerSchemaDiffers: when they have another version.
    """
    tables = _version(connection)
    if tables is None:
        raise LedgerUnavailable(f"no ledger at {place}")
    (check_own if is_whole else check_version)(tables, place)


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
        before = _version(connection)
        if before is None:
            raise LedgerUnavailable(f"no ledger at {place}")
        revisions = revisions_after(before.version, "postgresql")
        if revisions and not dry_run:
            # A writer that begins now waits, and then sees the new version.
            connection.execute("LOCK TABLE chain_head IN ACCESS EXCLUSIVE MODE")
            for revision in revisions:
                with without_reply_limit(connection):
                    for statement in revision.statements:
                        connection.execute(statement)
            _set_version(connection, revisions[-1].tables)
    return SchemaMigration(before.version, revisions)


def look_at_rows(
    url: str, tables: Iterable[str], now_s: Callable[[], float]
) -> dict[str, RowsLook]:
    """Count the rows of those tables that there are, and time the reading of some.

    The server's own estimate counts where it has one.

    Raises:
        LedgerUnavailable: the server does not answer.
    """
    looks, place = {}, place_of(url)
    connection = connect(url, place, read_only=True, primary=False)
    with unavailable(place), connection, without_reply_limit(connection):
        for table in {*tables}:
            [(estimate,)] = connection.execute(_ESTIMATE, (table,)).fetchall()
            if estimate is None:
                continue
            count = f"SELECT count(*) FROM {table}"  # noqa: S608 - names of the schema
            [(rows,)] = connection.execute(count).fetchall() if estimate <= 0 else [(estimate,)]
            began_s = now_s()
            sample = f"SELECT * FROM {table} LIMIT {SAMPLE_ROWS}"  # noqa: S608 - likewise
            read = len(connection.execute(sample).fetchall())
            looks[table] = RowsLook(rows, read / max(now_s() - began_s, _TICK_S) if read else None)
    return looks


def version_in(comment: str | None) -> TablesVersion:
    """Return the version that the comment of the head's table states, -1 where it states none."""
    stated = _COMMENT.fullmatch(comment or "")
    version, programs_from = (-1, None) if stated is None else stated.groups()
    return TablesVersion(int(version), int(version if programs_from is None else programs_from))


def schema_version(connection: Connection) -> TablesVersion:
    """Return the version of a database's tables, -1 where there are none."""
    return _version(connection) or version_in(None)


def _version(connection: Connection) -> TablesVersion | None:
    row = connection.execute(
        "SELECT obj_description(to_regclass('chain_head'), 'pg_class'),"
        " to_regclass('chain_head') IS NOT NULL"
    ).fetchone()
    return version_in(row[0]) if row is not None and row[1] else None


def _set_version(connection: Connection, tables: TablesVersion) -> None:
    older = tables.programs_from < tables.version
    programs = f", programs from {tables.programs_from}" if older else ""
    comment = f"rotulus ledger, schema {tables.version}{programs}"
    connection.execute(f"COMMENT ON TABLE chain_head IS '{comment}'")


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
