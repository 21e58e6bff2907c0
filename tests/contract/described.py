"""Everything that a database says of its tables, so that two of them can be compared.

What does not matter is left out: the order of columns and of constraints, and white space.
"""

import re

from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import StaticPool

_POSTGRES = {
    "relations": "SELECT relname, relkind::text FROM pg_class WHERE relnamespace = {schema}",
    "columns": "SELECT table_name, column_name, data_type, character_maximum_length,"
    " collation_name, is_nullable, column_default, is_identity, is_generated"
    " FROM information_schema.columns WHERE table_schema = current_schema()",
    "constraints": "SELECT conrelid::regclass::text, conname, contype::text,"
    " pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = {schema}",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes"
    " WHERE schemaname = current_schema()",
    "triggers": "SELECT tgrelid::regclass::text, tgname, tgenabled::text, pg_get_triggerdef(oid)"
    " FROM pg_trigger WHERE NOT tgisinternal",
    "functions": "SELECT proname, pg_get_functiondef(oid) FROM pg_proc"
    " WHERE pronamespace = {schema}",
}


def described_postgres(connection):
    """Return every fact of the first schema of the search path."""
    described = {}
    for name, query in _POSTGRES.items():
        sql = query.format(schema="current_schema()::regnamespace")
        described[name] = sorted(connection.execute(sql).fetchall(), key=repr)
    return described


def described_sqlite(connection):
    """Return every fact of a file."""
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    others, tables = [], {}
    entries = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    for kind, name, table, sql in connection.execute(entries).fetchall():
        if kind == "table":
            tables[name] = _table(connection, engine, name)
        else:
            others.append((kind, name, table, re.sub(r"\s+", " ", sql)))
    return {"others": sorted(others), "tables": tables}


def _table(connection, engine, name):
    indexes = []
    for _, index, unique, origin, partial in connection.execute(f"PRAGMA index_list({name})"):
        columns = [row[2:] for row in connection.execute(f"PRAGMA index_xinfo({index})")]
        indexes.append((index if origin == "c" else origin, unique, partial, columns))
    return {
        "columns": sorted(row[1:] for row in connection.execute(f"PRAGMA table_xinfo({name})")),
        "indexes": sorted(indexes, key=repr),
        "checks": sorted(
            constraint["sqltext"] for constraint in inspect(engine).get_check_constraints(name)
        ),
        "foreign_keys": connection.execute(f"PRAGMA foreign_key_list({name})").fetchall(),
        # Kind, number of columns, WITHOUT ROWID, STRICT.
        "sort": [row[2:] for row in connection.execute(f"PRAGMA table_list({name})")],
    }
