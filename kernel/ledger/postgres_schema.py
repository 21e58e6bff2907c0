"""The ledger's tables as PostgreSQL has them: created once, with their version and their triggers.

The columns come from `schema.py`; here integers have 64 bits, since microseconds need them, and
text is ordered byte by byte. The version is kept as the comment of the head's table.
"""

from functools import cache
from typing import Any

import psycopg
from sqlalchemy import BigInteger, Integer, MetaData, String, Table, UniqueConstraint
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from kernel.errors import LedgerUnavailable
from kernel.ledger.schema import APPEND_ONLY_TABLES, SCHEMA_VERSION, metadata

_COMMENT = "rotulus ledger, schema "
_FOUNDING_LOCK = "SELECT pg_advisory_xact_lock(hashtext('rotulus ledger ' || current_schema()))"
_REFUSAL = (
    "CREATE FUNCTION rotulus_refuses() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RAISE EXCEPTION 'append only'; END $$"
)

Connection = psycopg.Connection[tuple[Any, ...]]


@cache
def unique_columns(table: Table) -> frozenset[str]:
    """Return the columns by whose value two rows of different keys can collide."""
    found = {
        column.name
        for constraint in table.constraints
        if isinstance(constraint, UniqueConstraint)
        for column in constraint.columns
    }
    for index in table.indexes:
        if index.unique:
            found.update(column.name for column in index.columns)
            # A partial index: a row that comes under its condition can collide too.
            if index.dialect_options["postgresql"]["where"] is not None:
                found.update(column.name for column in table.columns)
    return frozenset(found)


def create_schema(connection: Connection, place: str) -> None:
    """Create the tables where there are none, in one transaction.

    Raises:
        LedgerUnavailable: when there are tables of another version, or the encoding is not UTF-8.
    """
    with connection.transaction():
        connection.execute(_FOUNDING_LOCK)
        if _version(connection) is None:
            _check_encoding(connection, place)
            for statement in _definitions():
                connection.execute(statement)
    check_version(connection, place)


def check_version(connection: Connection, place: str) -> None:
    """Refuse a database whose tables this program cannot read.

    Raises:
        LedgerUnavailable: when there are none, or of another version.
    """
    version = _version(connection)
    if version is None:
        raise LedgerUnavailable(f"no ledger at {place}")
    if version != str(SCHEMA_VERSION):
        raise LedgerUnavailable(
            f"{place} has schema version {version}, this program reads {SCHEMA_VERSION}",
            code="ledger_schema_version",
        )


def _version(connection: Connection) -> str | None:
    row = connection.execute(
        "SELECT obj_description(to_regclass('chain_head'), 'pg_class'),"
        " to_regclass('chain_head') IS NOT NULL"
    ).fetchone()
    if row is None or not row[1]:
        return None
    return str(row[0] or "unknown").removeprefix(_COMMENT)


def _check_encoding(connection: Connection, place: str) -> None:
    row = connection.execute("SHOW server_encoding").fetchone()
    if row is None or row[0] != "UTF8":
        raise LedgerUnavailable(f"{place} is not encoded in UTF-8", code="ledger_encoding")


def _definitions() -> list[str]:
    found = []
    dialect = make_url("postgresql+psycopg://").get_dialect()()
    for table in _tables().sorted_tables:
        found.append(str(CreateTable(table).compile(dialect=dialect)))
        found += [
            str(CreateIndex(index).compile(dialect=dialect))
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    found.append(_REFUSAL)
    for table in APPEND_ONLY_TABLES:
        for change, each in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
            name = f"{table.name}_refuses_{each.lower()}"
            found.append(
                f"CREATE TRIGGER {name} BEFORE {change} ON {table.name}"
                f" FOR EACH {each} EXECUTE FUNCTION rotulus_refuses()"
            )
    found.append(f"COMMENT ON TABLE chain_head IS '{_COMMENT}{SCHEMA_VERSION}'")
    return found


def _tables() -> MetaData:
    copy = MetaData()
    for table in metadata.sorted_tables:
        for column in table.to_metadata(copy).columns:
            if isinstance(column.type, Integer):
                column.type = BigInteger()
                column.autoincrement = False
            elif isinstance(column.type, String):
                column.type = String(collation="C")
    return copy
