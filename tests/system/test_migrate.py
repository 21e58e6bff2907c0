"""A ledger with rows in it goes to a later schema: whole or not at all, once, and serves."""

import json
import select
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from kernel.ledger import migrations
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres import catalog as postgres_catalog
from kernel.ledger.sqlite import catalog as sqlite_catalog
from kernel.values.errors import LedgerSchemaDiffers
from kernel.verify import verify
from tests import later_revision
from tests.contract.described import described_postgres, described_sqlite
from tests.kernel.build import FakeHost, adapt, create, submit
from tests.later_revision import (
    LATER,
    later_facts_of_postgres,
    later_facts_of_sqlite,
    write_later_revision,
)
from tests.system.submitting_process import open_store
from workers.environment.ledger_access import migrate_ledger

ROOT = Path(__file__).parents[2]
ROWS = 6


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """A ledger at today's schema, with operations on it."""
    if request.param == "postgres":
        place = request.getfixturevalue("postgres_empty_url")
    else:
        place = str(tmp_path / "ledger.db")
    ledger = Ledger.create(open_store(place), FakeHost().host)
    for number in range(ROWS - 1):
        submit(ledger, create(f"n-{number}", "Note"))
    submit(ledger, adapt("n-0", title="new"))
    ledger.close()
    return place


@pytest.fixture
def folder(tmp_path):
    return write_later_revision(tmp_path / "later")


@pytest.fixture
def later_program(become_later):
    """This program, as it would be with the later revision."""
    become_later()


@pytest.fixture
def become_later(monkeypatch, folder, place, postgres):
    def become():
        monkeypatch.setattr(migrations, "VERSIONS", folder)
        later_revision.become_later(monkeypatch)
        if is_database(place):
            facts, catalog = later_facts_of_postgres(postgres), postgres_catalog
        else:
            facts, catalog = later_facts_of_sqlite(), sqlite_catalog
        monkeypatch.setattr(catalog, "expected_facts", lambda: facts)

    return become


def is_database(place):
    return place.startswith("postgresql://")


def typed(place):
    return SecretStr(place) if is_database(place) else Path(place)


@contextmanager
def raw(place):
    if is_database(place):
        with psycopg.connect(place, autocommit=True) as connection:
            yield connection
    else:
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            yield connection


def described(place):
    with raw(place) as connection:
        return (described_postgres if is_database(place) else described_sqlite)(connection)


def head_of(place):
    ledger = Ledger(open_store(place), FakeHost().host)
    with ledger.view() as view:
        verification = verify(view)
        head = view.head()
    ledger.close()
    assert verification.ok, verification.findings
    return head


class Migrating:
    """A process that lets children of its own migrate."""

    def __init__(self, place, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.migrating_process", place, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, *statements):
        """Let one child for each statement migrate, and die before it; none dies before ''."""
        self.process.stdin.write(f"{json.dumps(statements)}\n")
        self.process.stdin.flush()

    def ended(self):
        """Wait for all of them; how each exited, and over how many revisions it went."""
        return [tuple(load) for load in json.loads(self.process.stdout.readline())]


@pytest.fixture
def migrating(place, folder):
    processes = Migrating(place, folder)
    yield processes
    processes.process.kill()
    processes.process.communicate()


def test_a_ledger_of_the_baseline_is_migrated_verifies_and_serves(place, later_program):
    with pytest.raises(LedgerSchemaDiffers, match="rotulus migrate") as refused:
        open_store(place)
    assert refused.value.code == "ledger_schema_older"

    migration = migrate_ledger(typed(place))
    assert (migration.found_version, [revision.version for revision in migration.revisions]) == (
        LATER - 1,
        [LATER],
    )
    assert migrate_ledger(typed(place)).revisions == ()

    assert head_of(place).ec_sequence_number == ROWS
    ledger = Ledger(open_store(place), FakeHost().host)
    submit(ledger, create("later", "Note"))
    submit(ledger, adapt("n-1", title="newer"))
    ledger.close()
    assert head_of(place).ec_sequence_number == ROWS + 2
    with raw(place) as connection:
        filled = connection.execute(
            "SELECT count(*) FROM nodes"
            " WHERE reviewed_by LIKE 'after %, 100%' AND node_id LIKE 'n-%'"
        ).fetchone()
        assert filled == (ROWS - 1,)
        for sql in ("UPDATE kernel_event_log SET session_id = 'x'", "DELETE FROM kernel_event_log"):
            with pytest.raises((psycopg.Error, sqlite3.Error), match="append only"):
                connection.execute(sql)


def test_a_later_schema_is_refused_by_this_program(place, folder, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(migrations, "VERSIONS", folder)
        migrate_ledger(typed(place))
    for read_only in (False, True):
        with pytest.raises(LedgerSchemaDiffers) as refused:
            open_place(place, read_only=read_only)
        assert refused.value.code == "ledger_schema_newer"
    with pytest.raises(LedgerSchemaDiffers):
        migrate_ledger(typed(place))


def open_place(place, *, read_only):
    from workers.environment.ledger_access import open_store as opened  # noqa: PLC0415 - the other one cannot

    return opened(typed(place), read_only=read_only)


def test_a_dry_run_changes_nothing_and_says_what_would_run(place, later_program):
    before = described(place)
    with raw(place) as connection:
        # It does not even wait for the lock of the one who writes.
        connection.execute("BEGIN" if is_database(place) else "BEGIN IMMEDIATE")
        connection.execute("UPDATE chain_head SET request_sequence = request_sequence")
        migration = migrate_ledger(typed(place), dry_run=True)
        connection.execute("ROLLBACK")
    assert described(place) == before
    [revision] = migration.revisions
    assert revision.statements[0].startswith("ALTER TABLE nodes ADD COLUMN reviewed_by VARCHAR")
    assert revision.statements == migrate_ledger(typed(place)).revisions[0].statements


def test_two_that_migrate_at_once_go_one_after_the_other(place, migrating):
    with raw(place) as holder:
        holder.execute("BEGIN" if is_database(place) else "BEGIN IMMEDIATE")
        holder.execute("UPDATE chain_head SET request_sequence = request_sequence")
        migrating.begin("", "")
        assert select.select([migrating.process.stdout], [], [], 2.0)[0] == [], "neither waited"
        holder.execute("ROLLBACK")
        assert sorted(migrating.ended()) == [(0, "0"), (0, "1")]


def test_killed_in_the_middle_it_is_whole_or_not_at_all(
    place, folder, migrating, monkeypatch, become_later
):
    with monkeypatch.context() as later:
        later.setattr(migrations, "VERSIONS", folder)
        [revision] = migrate_ledger(typed(place), dry_run=True).revisions
    statements = revision.statements
    stamp = "COMMENT ON TABLE chain_head IS 'rotulus ledger, schema {}'"
    last = (stamp if is_database(place) else "PRAGMA user_version = {}").format(LATER)
    before, head = described(place), head_of(place)
    for statement in (statements[1], statements[len(statements) // 2], statements[-1], last):
        migrating.begin(statement)
        assert migrating.ended() == [(-9, "")], statement
        assert described(place) == before
        assert head_of(place) == head
    migrating.begin("")
    assert migrating.ended() == [(0, "1")]
    assert described(place) != before
    become_later()
    assert head_of(place) == head
