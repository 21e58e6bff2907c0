"""`rotulus migrate`, and what the other commands do with a ledger that needs it."""

import json
import sqlite3
from contextlib import closing

import pytest

from kernel.ledger import migrations, schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import catalog as sqlite_catalog
from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.errors import LedgerSchemaDiffers
from tests import later_revision
from tests.kernel.build import FakeHost, create, submit
from tests.later_revision import LATER, later_facts_of_sqlite, write_later_revision
from tests.workers.cli.command import rotulus
from workers.process_tree.tree import bring_forward

BEFORE = schema.SCHEMA_VERSION


@pytest.fixture
def folder(data_folder, tmp_path, monkeypatch):
    """A data folder with a ledger, and a program whose schema is later."""
    ledger = Ledger.create(SqliteStore(data_folder.ledger_path), FakeHost().host)
    submit(ledger, create("n", "Note"))
    ledger.close()
    monkeypatch.setattr(migrations, "VERSIONS", write_later_revision(tmp_path / "later"))
    later_revision.become_later(monkeypatch)
    facts = later_facts_of_sqlite()
    monkeypatch.setattr(sqlite_catalog, "expected_facts", lambda: facts)
    return data_folder


def output_of(*arguments, exit_code=0):
    result = rotulus(*arguments)
    assert result.exit_code == exit_code, result.output
    return result.output


def version(folder):
    with closing(sqlite3.connect(folder.ledger_path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_an_older_ledger_is_refused_with_the_command_that_helps_and_then_served(folder):
    refused = output_of("verify", exit_code=1)
    assert refused.startswith("Error: ledger_schema_older: ")
    assert "`rotulus migrate`" in refused

    done = json.loads(output_of("migrate", "--json"))
    assert done == {
        "ledger": str(folder.ledger_path),
        "found_version": BEFORE,
        "version": LATER,
        "newest_version": LATER,
        "dry_run": False,
        "revisions": [{"version": LATER, "message": "Reviews."}],
    }
    assert "rows: 1" in output_of("verify")
    again = json.loads(output_of("migrate", "--json"))
    assert (again["found_version"], again["revisions"]) == (LATER, [])
    assert f"version: {LATER}" in output_of("migrate")


def test_a_dry_run_prints_sql_that_does_the_same_by_hand(folder):
    shown = output_of("migrate", "--dry-run")
    document = json.loads(output_of("migrate", "--dry-run", "--json"))
    assert (document["version"], document["newest_version"]) == (BEFORE, LATER)
    assert version(folder) == BEFORE
    [revision] = document["revisions"]
    for statement in revision["statements"]:
        assert f"{statement};\n" in shown
    with closing(sqlite3.connect(folder.ledger_path, isolation_level=None)) as connection:
        connection.executescript(f"BEGIN; {shown} PRAGMA user_version = {LATER}; COMMIT")
    assert "rows: 1" in output_of("verify")


def test_a_plan_says_who_goes_on_and_which_rows_are_gone_over(folder, tmp_path, monkeypatch):
    plan = json.loads(output_of("migrate", "--plan", "--json"))
    assert version(folder) == BEFORE
    assert (plan["found_version"], plan["newest_version"], plan["programs_from"]) == (
        BEFORE,
        LATER,
        LATER,
    )
    assert not plan["programs_of_found_version_go_on"]
    [revision] = plan["revisions"]
    assert revision["rows"] == {"nodes": 1, "kernel_event_log": 1}
    assert revision["goes_over_rows"] > len(revision["rows"])

    expanding = later_revision.write_expanding_revision(tmp_path / "expanding")
    monkeypatch.setattr(migrations, "VERSIONS", expanding)
    plan = json.loads(output_of("migrate", "--plan", "--json"))
    assert (plan["programs_from"], plan["programs_of_found_version_go_on"]) == (BEFORE, True)
    assert plan["revisions"][0]["rows"] == {"nodes": 1}, "an index is made"
    assert "programs_of_found_version_go_on: true" in output_of("migrate", "--plan").lower()


def test_nothing_is_migrated_beneath_a_tree_that_runs(folder):
    with folder.lock():
        assert "data_folder_busy" in output_of("migrate", exit_code=1)
        output_of("migrate", "--dry-run")
    assert version(folder) == BEFORE


def test_where_there_is_no_ledger_none_is_made(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    for arguments in (("migrate",), ("migrate", "--dry-run")):
        refused = output_of(*arguments, "--data-dir", str(elsewhere), exit_code=1)
        assert "ledger_unavailable: no ledger at" in refused
    assert not elsewhere.exists()


def test_a_tree_brings_its_own_file_forward_and_leaves_a_later_one_alone(folder, monkeypatch):
    bring_forward(folder.ledger_path)
    assert version(folder) == LATER
    bring_forward(folder.ledger_path)
    assert "rows: 1" in output_of("verify")
    monkeypatch.setattr(schema, "SCHEMA_VERSION", BEFORE)
    with pytest.raises(LedgerSchemaDiffers) as refused:
        bring_forward(folder.ledger_path)
    assert refused.value.code == "ledger_schema_newer"


def test_a_tree_leaves_what_is_not_there_to_its_gateway(folder, tmp_path):
    bring_forward(tmp_path / "nothing.db")
    assert not (tmp_path / "nothing.db").exists()
