"""Two releases work on the same tables: the one that added to them, and the one before.

What a release before may meet is made by a revision that only tests know
(`later_revision.write_expanding_revision`); this program is the release before.
"""

import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from kernel.ledger import migrations, schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.migration_plan import table_gone_over
from kernel.values.errors import LedgerSchemaDiffers
from kernel.verify import verify
from tests.kernel.build import FakeHost, adapt, create, submit
from tests.later_revision import LATER, write_expanding_revision
from workers.environment.ledger_access import copy_ledger, migrate_ledger, open_store

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
OWN = schema.SCHEMA_VERSION


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """An empty place for a ledger."""
    if request.param == "postgres":
        return SecretStr(request.getfixturevalue("postgres_empty_url"))
    return Path(tmp_path / "ledger.db")


@pytest.fixture
def expand(tmp_path, monkeypatch):
    """Let the release after this one migrate a place."""
    folder = write_expanding_revision(tmp_path / "later")

    def migrate(place):
        with monkeypatch.context() as later:
            later.setattr(migrations, "VERSIONS", folder)
            assert [each.version for each in migrate_ledger(place).revisions] == [LATER]

    return migrate


def run(place, *statements):
    """Run statements past the store; return the rows of the last one."""
    with raw(place) as connection:
        cursors = [connection.execute(statement) for statement in statements]
        return cursors[-1].fetchall() if cursors[-1].description else []


@contextmanager
def raw(place):
    if isinstance(place, SecretStr):
        with psycopg.connect(place.get_secret_value(), autocommit=True) as connection:
            yield connection
    else:
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            yield connection


def state_version(place, version, programs_from):
    if isinstance(place, SecretStr):
        stated = f"rotulus ledger, schema {version}, programs from {programs_from}"
        run(place, f"COMMENT ON TABLE chain_head IS '{stated}'")
    else:
        run(place, f"PRAGMA user_version = {version + ((version - programs_from) << 16)}")


def opened(place):
    return Ledger.create(open_store(place), FakeHost().host)


def test_the_release_before_writes_on_beneath_what_was_added(place, expand):
    with closing(opened(place)) as ledger:
        submit(ledger, create("n", "Note"))
        expand(place)  # while it is open
        run(place, "UPDATE nodes SET label = 'of the later release'")
        submit(ledger, adapt("n", title="new"))
        submit(ledger, create("m", "Note"))
    with closing(opened(place)) as ledger, ledger.view() as view:
        verification = verify(view)
    assert verification.ok, verification.findings
    labels = run(place, "SELECT node_id, label FROM nodes ORDER BY node_id")
    assert labels == [("m", None), ("n", "of the later release")]


def test_who_takes_the_whole_of_a_ledger_is_of_the_release_that_made_its_tables(
    place, expand, tmp_path
):
    opened(place).close()
    copy_ledger(place, tmp_path / "before.db")
    expand(place)
    with pytest.raises(LedgerSchemaDiffers, match="the whole of it") as refused:
        copy_ledger(place, tmp_path / "copy.db")
    assert refused.value.code == "ledger_schema_newer"


DISTURBING = (
    "CREATE UNIQUE INDEX more ON nodes (label)",
    "DROP INDEX nodes_by_kind",
    "ALTER TABLE edges ADD COLUMN more TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE edges ADD COLUMN more TEXT CHECK (more <> '')",
)


@pytest.mark.parametrize("statement", DISTURBING)
def test_what_disturbs_the_release_before_is_refused_all_the_same(place, expand, statement):
    opened(place).close()
    expand(place)
    run(place, statement)
    with pytest.raises(LedgerSchemaDiffers) as refused:
        opened(place)
    assert refused.value.code == "ledger_schema_altered"


def test_what_was_added_to_tables_of_the_own_version_is_refused(place, expand):
    opened(place).close()
    expand(place)
    state_version(place, OWN, OWN)
    with pytest.raises(LedgerSchemaDiffers) as refused:
        opened(place)
    assert refused.value.code == "ledger_schema_altered"


def test_a_release_that_no_longer_has_a_column_works_on_the_tables_that_do(
    place, expand, monkeypatch
):
    opened(place).close()
    expand(place)
    # This program has no `label`: as the release that follows the later one.
    monkeypatch.setattr(schema, "SCHEMA_VERSION", LATER + 1)
    monkeypatch.setattr(schema, "TABLES_FROM", LATER)
    with closing(opened(place)) as ledger:
        submit(ledger, create("n", "Note"))
    monkeypatch.setattr(schema, "TABLES_FROM", LATER + 1)
    with pytest.raises(LedgerSchemaDiffers) as refused:
        opened(place)
    assert refused.value.code == "ledger_schema_older"


@pytest.mark.parametrize(
    ("statement", "sqlite", "postgresql"),
    [
        ("ALTER TABLE nodes ADD COLUMN label VARCHAR", None, None),
        ("ALTER TABLE nodes ADD COLUMN label VARCHAR NOT NULL", "nodes", "nodes"),
        ("ALTER TABLE nodes DROP COLUMN label", "nodes", None),
        ("ALTER TABLE nodes ALTER COLUMN label SET NOT NULL", "nodes", "nodes"),
        ("ALTER TABLE nodes ADD CONSTRAINT c CHECK (label <> '')", "nodes", "nodes"),
        ("CREATE UNIQUE INDEX i ON nodes (label)", "nodes", "nodes"),
        ("CREATE TABLE labels (label VARCHAR)", None, None),
        ("UPDATE nodes SET label = ''", "nodes", "nodes"),
        ("INSERT INTO new SELECT * FROM old", "old", "old"),
        ("DROP TABLE old", None, None),
    ],
)
def test_a_plan_says_which_rows_a_statement_goes_over(statement, sqlite, postgresql):
    assert table_gone_over(statement, "sqlite") == sqlite
    assert table_gone_over(statement, "postgresql") == postgresql
