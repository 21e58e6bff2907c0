"""A ledger of before has after its migration the states and signatures that its record gives."""

# ruff: noqa: S608
# Every name that is put into a text here is one of the schema's.

import sqlite3
from contextlib import closing

import pytest

from kernel.ledger import migrations, schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from tests.kernel.build import FakeHost, accept, create, effect, envelope
from tests.properties.test_request_search import ENDS, QUEUES, Asked, recorded

BEFORE = 40
NEW = ("dead_letters", "request_tags")
FILLED = ("dead_letters", "outbox", "corpus_membership_records")
FILLED_COLUMNS = {("outbox", "state"), ("corpus_membership_records", "is_open")}


@pytest.fixture
def ledger():
    """A ledger with requests of every end, a membership that waits, and one that was decided on."""
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    requests = [
        Asked(queue, f"i-{end}", "normal", {}, end, f'said "{end}": \\ü', 1)
        for queue in QUEUES
        for end in ENDS
    ]
    recorded(ledger, host, requests)
    accept(ledger, *(create(name, "SourceArtifact") for name in ("waits", "decided")))
    confirmed = {"corpus_id": "corpus:test", "to_state": "confirmed"}
    member = effect("membership_write", "decided", **confirmed)
    accept(ledger, envelope("corpus_membership_confirm", [member]))
    return ledger


def statements(database, *, after, until):
    return [
        statement
        for step in migrations.revisions_after(after, database)
        if step.version <= until
        for statement in step.statements
    ]


def rows_of_before(ledger):
    """Yield each table that has rows, with its columns of before and the rows."""
    with ledger.view() as view:
        for table in schema.metadata.sorted_tables:
            names = [
                name for name in column_names(table) if (table.name, name) not in FILLED_COLUMNS
            ]
            rows = view.tables.scan(TableQuery(table))
            if rows and table.name not in NEW:
                yield table.name, names, [[row[name] for name in names] for row in rows]


def filled(ledger):
    with ledger.view() as view:
        return {name: view.tables.scan(TableQuery(schema.metadata.tables[name])) for name in FILLED}


def test_on_sqlite(ledger, tmp_path):
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements("sqlite", after=0, until=BEFORE):
            connection.execute(statement)
        for name, names, rows in rows_of_before(ledger):
            marks = ", ".join("?" * len(names))
            connection.executemany(
                f"INSERT INTO {name} ({', '.join(names)}) VALUES ({marks})", rows
            )
        for statement in statements("sqlite", after=BEFORE, until=schema.SCHEMA_VERSION):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION}")
    migrated = Ledger(SqliteStore(path), FakeHost().host)
    assert filled(migrated) == filled(ledger)
    assert len({row["state"] for row in filled(ledger)["outbox"]}) == 5
    waits = filled(ledger)["corpus_membership_records"]
    assert sorted(str(row["is_open"]) for row in waits) == ["1", "None"]
    migrated.close()


def test_on_postgresql(ledger, postgres):
    psycopg = pytest.importorskip("psycopg", reason="the driver is missing")
    url = postgres.new_database()
    with psycopg.connect(url) as connection:
        for statement in statements("postgresql", after=0, until=BEFORE):
            connection.execute(statement)
        for name, names, rows in rows_of_before(ledger):
            marks = ", ".join(["%s"] * len(names))
            connection.cursor().executemany(
                f"INSERT INTO {name} ({', '.join(names)}) VALUES ({marks})", rows
            )
        for statement in statements("postgresql", after=BEFORE, until=schema.SCHEMA_VERSION):
            connection.execute(statement)
        facts = {}
        for name in FILLED:
            table = schema.metadata.tables[name]
            names = column_names(table)
            rows = connection.execute(f"SELECT {', '.join(names)} FROM {name}").fetchall()
            facts[name] = sorted(rows)
    expected = {
        name: sorted(
            tuple(row[column] for column in column_names(schema.metadata.tables[name]))
            for row in rows
        )
        for name, rows in filled(ledger).items()
    }
    assert facts == expected
