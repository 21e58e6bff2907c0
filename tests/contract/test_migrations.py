"""The revisions of the schema make the tables of this program, from empty and forward only."""

import ast
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kernel.ledger import migrations, schema
from kernel.ledger.sqlite import schema as sqlite_schema
from kernel.values.errors import LedgerSchemaDiffers
from tests.contract.described import described_postgres, described_sqlite
from tests.revisions import differences

FORGOTTEN = (
    "kernel/ledger/schema.py is not what its migrations make. While nothing was released: "
    "`make baseline`; afterwards: `make revision NAME=...`. "
    "See kernel/ledger/migrations/__init__.py."
)


def all_statements(database):
    return [
        statement
        for step in migrations.revisions_after(0, database)
        for statement in step.statements
    ]


def made_sqlite(*statements):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        return described_sqlite(connection)


@pytest.fixture
def made_postgres(postgres):
    psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

    def made(*statements):
        for statement in statements:
            connection.execute(statement)
        facts = described_postgres(connection)
        connection.rollback()
        return facts

    url = postgres.new_database()
    with psycopg.connect(url) as connection:
        yield made
    postgres.drop(url)


def test_the_migrations_make_the_tables_of_this_program_on_sqlite():
    assert made_sqlite(*all_statements("sqlite")) == made_sqlite(*sqlite_schema.definitions()), (
        FORGOTTEN
    )


def test_the_migrations_make_the_tables_of_this_program_on_postgresql(made_postgres):
    from kernel.ledger.postgres import schema as postgres_schema  # noqa: PLC0415 - needs the driver

    facts = made_postgres(*all_statements("postgresql"))
    assert facts == made_postgres(*postgres_schema.definitions()), FORGOTTEN


def test_alembic_sees_no_difference_to_the_schema():
    assert differences(tuple(all_statements("sqlite"))).ops == [], FORGOTTEN


def test_the_schemas_version_is_the_newest_revision():
    newest = migrations.scripts()[-1]
    assert int(newest.revision) == schema.SCHEMA_VERSION, FORGOTTEN
    assert int(newest.module.programs_from) == schema.PROGRAMS_FROM <= schema.SCHEMA_VERSION
    assert schema.TABLES_FROM <= schema.SCHEMA_VERSION


NEW_LOG = "CREATE TABLE log2 (ec_sequence_number INTEGER NOT NULL PRIMARY KEY)"
CHANGES = {
    "a table": NEW_LOG,
    "a column": "ALTER TABLE nodes ADD COLUMN more {text}",
    "a column less": "ALTER TABLE outbox_outcomes DROP COLUMN closed_at_us",
    "an index": "CREATE INDEX more ON nodes (updated_at)",
    "an index less": "DROP INDEX nodes_by_kind",
    "a unique index": "CREATE UNIQUE INDEX more ON nodes (updated_at)",
}
REBUILT = {
    "the condition of an index": (
        "DROP INDEX kernel_event_log_by_epoch",
        (
            "CREATE INDEX kernel_event_log_by_epoch ON kernel_event_log"
            " (commit_epoch_id, ec_sequence_number) WHERE commit_epoch_id IS NULL"
        ),
    ),
    "an index without its condition": (
        "DROP INDEX kernel_event_log_by_epoch",
        (
            "CREATE INDEX kernel_event_log_by_epoch ON kernel_event_log"
            " (commit_epoch_id, ec_sequence_number)"
        ),
    ),
}
OF_SQLITE = {
    "a trigger less": ("DROP TRIGGER receipts_refuses_update",),
    "a nullable column": (
        "ALTER TABLE chain_head RENAME COLUMN row_hash TO old",
        "ALTER TABLE chain_head DROP COLUMN old",
        "ALTER TABLE chain_head ADD COLUMN row_hash VARCHAR",
    ),
    "a type": (
        "ALTER TABLE edges DROP COLUMN record",
        "ALTER TABLE edges ADD COLUMN record TEXT NOT NULL DEFAULT ''",
    ),
    "a check": (
        "DROP TABLE outbox_outcomes",
        (
            "CREATE TABLE outbox_outcomes (request_id VARCHAR NOT NULL, outcome VARCHAR NOT NULL,"
            " operation_id VARCHAR, closed_sequence INTEGER NOT NULL,"
            " closed_at_us INTEGER NOT NULL,"
            " PRIMARY KEY (request_id), CHECK (outcome = 'completed'))"
        ),
        "CREATE INDEX outbox_outcomes_by_outcome ON outbox_outcomes (outcome)",
        *(
            definition
            for definition in sqlite_schema.definitions()
            if "TRIGGER outbox_outcomes_" in definition
        ),
    ),
}
OF_POSTGRES = {
    "a trigger less": ("DROP TRIGGER receipts_refuses_row ON receipts",),
    "a trigger that is off": ("ALTER TABLE receipts DISABLE TRIGGER receipts_refuses_row",),
    "a nullable column": ("ALTER TABLE chain_head ALTER COLUMN row_hash DROP NOT NULL",),
    "a narrower integer": ("ALTER TABLE chain_head ALTER COLUMN committed_at_us TYPE INTEGER",),
    "another collation": ('ALTER TABLE nodes ALTER node_kind TYPE VARCHAR COLLATE "POSIX"',),
    "a default": ("ALTER TABLE nodes ALTER COLUMN overlay_in_force SET DEFAULT 0",),
    "a check less": ("ALTER TABLE outbox DROP CONSTRAINT outbox_open_check",),
    "a unique less": ("ALTER TABLE receipts DROP CONSTRAINT receipts_receipt_hash_key",),
    "a key less": ("ALTER TABLE nodes DROP CONSTRAINT nodes_pkey",),
    "another refusal": (
        (
            "CREATE OR REPLACE FUNCTION rotulus_refuses() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RETURN OLD; END $$"
        ),
    ),
}
BOTH = {name: (sql.format(text="VARCHAR"),) for name, sql in CHANGES.items()} | REBUILT


@pytest.mark.parametrize("change", [*BOTH, *OF_SQLITE])
def test_the_comparison_finds_on_sqlite(change):
    definitions = sqlite_schema.definitions()
    changed = (BOTH | OF_SQLITE)[change]
    assert made_sqlite(*definitions, *changed) != made_sqlite(*definitions)


def test_the_comparison_finds_on_postgresql(made_postgres):
    from kernel.ledger.postgres import schema as postgres_schema  # noqa: PLC0415 - needs the driver

    definitions = postgres_schema.definitions()
    before = made_postgres(*definitions)
    changes = (BOTH | OF_POSTGRES).items()
    unseen = [name for name, sqls in changes if made_postgres(*definitions, *sqls) == before]
    assert unseen == []


def test_revisions_are_numbered_without_a_gap_and_lead_forward_only():
    scripts = migrations.scripts()
    numbers = [int(script.revision) for script in scripts]
    assert numbers == list(range(numbers[0], numbers[0] + len(scripts)))
    assert [script.down_revision for script in scripts] == [
        None,
        *(script.revision for script in scripts[:-1]),
    ]
    for script in scripts:
        with pytest.raises(NotImplementedError, match="forward only"):
            script.module.downgrade()


@pytest.mark.parametrize("script", migrations.scripts(), ids=lambda script: script.revision)
def test_a_revision_imports_nothing_that_may_change(script):
    tree = ast.parse(Path(script.path).read_text())
    imported = set()
    for part in ast.walk(tree):
        if isinstance(part, ast.Import):
            imported.update(name.name.partition(".")[0] for name in part.names)
        elif isinstance(part, ast.ImportFrom):
            imported.add((part.module or "").partition(".")[0])
    assert imported <= {"alembic", "sqlalchemy"}


@pytest.mark.parametrize("version", [-1, 1, 4, schema.SCHEMA_VERSION + 1])
def test_from_tables_that_no_revision_made_no_migration_leads_on(version):
    with pytest.raises(LedgerSchemaDiffers) as refused:
        migrations.revisions_after(version, "sqlite")
    assert refused.value.code == "ledger_schema_unknown"


PROCESSES = """
import pathlib, sys
import workers.cli.demo, workers.cli.gateway, workers.cli.worker
import kernel.ledger.postgres.store
from kernel.ledger.sqlite.store import SqliteStore
SqliteStore(pathlib.Path(sys.argv[1])).close()
print([name for name in sys.modules if name.startswith(("alembic", "mako"))])
"""


@pytest.mark.slow
def test_no_process_loads_alembic_to_start_or_to_make_a_ledger(tmp_path):
    pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
    command = [sys.executable, "-c", PROCESSES, str(tmp_path / "ledger.db")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    assert ended.stdout == "[]\n"
