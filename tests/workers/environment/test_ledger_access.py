"""The record at either place: a file in the data folder, or a database."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from kernel.ledger.ledger import Ledger
from kernel.values.errors import LedgerUnavailable
from tests.kernel.build import FakeHost, create, submit
from workers.cli.main import main
from workers.environment.ledger_access import ledger_place, open_store, printable_place
from workers.environment.ledger_verification import verify_file
from workers.environment.settings import load_settings


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path, monkeypatch):
    monkeypatch.setenv("ROTULUS_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("ROTULUS_DATABASE_URL", raising=False)
    if request.param == "postgres":
        monkeypatch.setenv("ROTULUS_DATABASE_URL", request.getfixturevalue("postgres_url"))
    return ledger_place(load_settings())


def test_a_database_is_the_place_when_one_is_set_and_a_file_otherwise(tmp_path):
    settings = load_settings(data_dir=tmp_path)
    assert ledger_place(settings) == tmp_path / "ledger.db"
    url = "postgresql://me:much-secret@db/roll"
    settings = settings.with_changes(database_url=SecretStr(url))
    assert ledger_place(settings) == SecretStr(url)


def test_a_place_is_shown_without_its_secrets():
    pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
    assert printable_place(Path("a") / "ledger.db") == "a/ledger.db"
    shown = printable_place(SecretStr("postgresql://me:much-secret@db/roll"))
    assert shown == "postgresql://db:5432/roll"


def test_a_record_is_written_and_verified_at_its_place(place):
    ledger = Ledger.create(open_store(place), FakeHost().host)
    submit(ledger, create("n", "Note"))
    ledger.close()
    verification = verify_file(place, lambda _done, _total: None)
    assert (verification.ok, verification.rows) == (True, 1)
    result = CliRunner().invoke(main, ["verify"])
    assert result.exit_code == 0, result.output
    assert "rows: 1" in result.output
    result = CliRunner().invoke(main, ["show", "log"])
    assert "create" in result.output


def test_a_handle_that_may_only_read_refuses_to_write(place):
    open_store(place).close()
    store = open_store(place, read_only=True)
    with pytest.raises(LedgerUnavailable), store.transaction():
        pass
    store.close()


def test_a_command_that_cannot_reach_the_database_says_so_on_one_line(monkeypatch):
    pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
    monkeypatch.setenv("ROTULUS_DATABASE_URL", "postgresql://me:much-secret@127.0.0.1:1/roll")
    result = CliRunner().invoke(main, ["verify"])
    assert result.exit_code == 1
    assert "ledger_unavailable: postgresql://127.0.0.1:1/roll" in result.output
    assert "much-secret" not in result.output
