"""`rotulus authority`: the sweeps on a ledger file with nothing running."""

import json
import os

import pytest
import structlog
from click.testing import CliRunner

from kernel.host import iso_time
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import SqliteStore
from tests.kernel.build import START_US, FakeHost, adapt, code_of, create, drain, link, submit
from workers.cli.main import main
from workers.environment.data_folder import DataFolder
from workers.environment.system_host import system_host


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("ROTULUS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ROTULUS_DATA_DIR", str(tmp_path / "data"))
    yield
    structlog.reset_defaults()


@pytest.fixture
def folder(tmp_path):
    folder = DataFolder(tmp_path / "data")
    folder.make()
    ledger = Ledger.create(SqliteStore(folder.ledger_path), FakeHost().host)
    for document in (
        create("claim", "VersionedClaim", authority=1, last_decay_at=iso_time(START_US)),
        create("done", "ConsolidatedUnderstanding"),
        create("bare", "ConsolidatedUnderstanding", cu_authority_strategy="scheduled_nightly_only"),
        link("1", "claim", "done"),
        adapt("claim", note="n"),
    ):
        assert code_of(submit(ledger, document)) is None
    drain(ledger)
    ledger.close()
    return folder


def asked(*words):
    result = CliRunner().invoke(main, ["authority", *words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def open_items(folder):
    ledger = Ledger(SqliteStore(folder.ledger_path, read_only=True), system_host())
    with ledger.view() as view:
        found = {request.item_key for request in view.open_requests()}
    ledger.close()
    return found


@pytest.mark.spec("§8.2")
def test_the_tick_asks_for_what_is_due_and_once(folder):
    first = asked("tick")
    assert first["trigger_source_id"].startswith("authority_decay_tick:")
    assert open_items(folder) == {"bare", "done"}
    assert first["requested"] == 2
    assert asked("tick")["requested"] == 0


@pytest.mark.spec("§8.6")
def test_the_backfill_says_how_far_it_is(folder):
    first = asked("backfill")
    assert first["requested"] == 1
    assert open_items(folder) == {"bare"}
    counted = {"understandings": 2, "materialized": 1, "requested": 1, "share": 0.5, "ready": False}
    assert first["progress"] == counted
    assert asked("backfill") == {**first, "requested": 0, "operations": 0}


def test_without_a_ledger_there_is_nothing_to_sweep(tmp_path):
    (tmp_path / "data").mkdir(mode=0o700)
    result = CliRunner().invoke(main, ["authority", "tick"])
    assert result.exit_code == 1
    assert "ledger_unavailable" in result.output
