"""`rotulus authority`: the sweeps on a ledger file with nothing running."""

import pytest
from click.testing import CliRunner

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.host import iso_time
from tests.kernel.build import START_US, FakeHost, accept, adapt, create, drain, link
from tests.workers.cli.command import printed
from workers.cli.main import main
from workers.environment.system_host import system_host


@pytest.fixture
def folder(data_folder):
    ledger = Ledger.create(SqliteStore(data_folder.ledger_path), FakeHost().host)
    accept(
        ledger,
        create("claim", "VersionedClaim", authority=1, last_decay_at=iso_time(START_US)),
        create("done", "ConsolidatedUnderstanding"),
        create("bare", "ConsolidatedUnderstanding", cu_authority_strategy="scheduled_nightly_only"),
        link("1", "claim", "done"),
        adapt("claim", note="n"),
    )
    drain(ledger)
    ledger.close()
    return data_folder


def open_items(folder):
    ledger = Ledger(SqliteStore(folder.ledger_path, read_only=True), system_host())
    with ledger.view() as view:
        item_keys = {request.item_key for request in view.open_requests()}
    ledger.close()
    return item_keys


@pytest.mark.spec("§8.2")
def test_the_tick_asks_for_what_is_due_and_once(folder):
    first = printed("authority", "tick", "--json")
    assert first["trigger_source_id"].startswith("authority_decay_tick:")
    assert open_items(folder) == {"bare", "done"}
    assert first["requested"] == 2
    assert printed("authority", "tick", "--json")["requested"] == 0


@pytest.mark.spec("§8.6")
def test_the_backfill_says_how_far_it_is(folder):
    first = printed("authority", "backfill", "--json")
    assert first["requested"] == 1
    assert open_items(folder) == {"bare"}
    counted = {"understandings": 2, "materialized": 1, "requested": 1, "share": 0.5, "ready": False}
    assert first["progress"] == counted
    assert printed("authority", "backfill", "--json") == {**first, "requested": 0, "operations": 0}


def test_without_a_ledger_there_is_nothing_to_sweep(tmp_path):
    (tmp_path / "data").mkdir(mode=0o700)
    result = CliRunner().invoke(main, ["authority", "tick"])
    assert result.exit_code == 1
    assert "ledger_unavailable" in result.output
