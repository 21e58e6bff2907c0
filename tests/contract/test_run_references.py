"""Runs that were recorded before records referred to one another by foreign keys keep all of it."""

# ruff: noqa: S608
# Every name that is put into a text here is one of the schema's.

import sqlite3
from contextlib import closing, contextmanager

import pytest

from kernel.errors import LedgerUnavailable
from kernel.landscape.recorder import Recorder
from kernel.ledger import migrations, schema, sqlite_schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.memory import MemoryStore
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import whole_run

BEFORE = next(
    int(script.down_revision)
    for script in migrations.scripts()
    if hasattr(script.module, "REFERENCES")
)
TABLES = (*schema.LANDSCAPE_TABLES, schema.landscape_payloads)


@pytest.fixture(scope="module")
def recorded():
    """The rows of a run, by table."""
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    recorder = Recorder(ledger)
    whole_run(recorder)
    recorder.complete_run("run-1")
    with ledger.view() as view:
        return {table.name: view.tables.select(table) for table in TABLES}


def statements_before(database):
    return [
        statement
        for step in migrations.revisions_after(0, database)
        if step.version <= BEFORE
        for statement in step.statements
    ]


class OnSqlite:
    mark = "?"

    def __init__(self, path, _):
        self.path = path / "ledger.db"
        with self.connected() as database:
            for statement in statements_before("sqlite"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {BEFORE}")

    @contextmanager
    def connected(self):
        with closing(sqlite3.connect(self.path, isolation_level=None)) as database:
            yield database

    def version(self):
        with self.connected() as database:
            return sqlite_schema.schema_version(database)

    def migrate(self):
        sqlite_schema.migrate(self.path)


class OnPostgres:
    mark = "%s"

    def __init__(self, _, url):
        from kernel.ledger import postgres_schema  # noqa: PLC0415 - needs the driver

        self.url, self.of = url, postgres_schema
        with self.connected() as database:
            for statement in statements_before("postgresql"):
                database.execute(statement)
            database.execute(f"COMMENT ON TABLE chain_head IS 'rotulus ledger, schema {BEFORE}'")

    @contextmanager
    def connected(self):
        import psycopg  # noqa: PLC0415 - likewise

        with psycopg.connect(self.url, autocommit=True) as database:
            yield database

    def version(self):
        with self.connected() as database:
            [text] = database.execute(
                "SELECT obj_description('chain_head'::regclass, 'pg_class')"
            ).fetchone()
            return int(text.rpartition(" ")[2])

    def migrate(self):
        self.of.migrate(self.url)


@pytest.fixture(params=[OnSqlite, OnPostgres])
def old(request, tmp_path, recorded):
    """A database of the version before, with a run."""
    is_postgres = request.param is OnPostgres
    url = request.getfixturevalue("postgres_empty_url") if is_postgres else None
    old = request.param(tmp_path, url)
    with old.connected() as database:
        for name, rows in recorded.items():
            for row in rows:
                marks = ", ".join([old.mark] * len(row))
                names = ", ".join(map(str, row))
                database.execute(f"INSERT INTO {name} ({names}) VALUES ({marks})", [*row.values()])
    return old


def rows_of(old):
    rows = {}
    with old.connected() as database:
        for table in TABLES:
            names = ", ".join(column.name for column in table.columns)
            key = ", ".join(column.name for column in table.primary_key.columns)
            rows[table.name] = database.execute(
                f"SELECT {names} FROM {table.name} ORDER BY {key}"
            ).fetchall()
    return rows


def test_a_run_is_kept_and_from_then_on_names_only_what_is_there(old):
    before = rows_of(old)
    old.migrate()
    assert old.version() == schema.SCHEMA_VERSION
    assert rows_of(old) == before
    assert sum(map(len, before.values())) > 50
    with old.connected() as database:
        if isinstance(old, OnSqlite):
            database.execute("PRAGMA foreign_keys = ON")
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            database.execute("UPDATE landscape_tokens SET row_id = 'nowhere'")
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            database.execute("DELETE FROM landscape_nodes")


def test_a_record_that_names_one_that_is_not_there_stops_the_migration_and_stays(old):
    with old.connected() as database:
        database.execute("UPDATE landscape_calls SET state_id = 'x' WHERE state_id IS NOT NULL")
    before = rows_of(old)
    with pytest.raises(LedgerUnavailable):
        old.migrate()
    assert old.version() == BEFORE
    assert rows_of(old) == before
