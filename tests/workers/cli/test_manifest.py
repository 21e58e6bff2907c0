"""`rotulus audit manifest`: what bindings made of an event, and whether it comes out again."""

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.binding_world import EVENT, KINDS, ask, bound, furnish, work
from tests.kernel.build import FakeHost
from tests.workers.cli.command import printed, rotulus


@pytest.fixture
def folder(data_folder):
    ledger = Ledger.create(SqliteStore(data_folder.ledger_path), FakeHost().host)
    furnish(ledger, *(bound(kind, kind) for kind in KINDS))
    for request_id in ask(ledger, *KINDS):
        work(ledger, request_id)
    ledger.close()
    return data_folder


@pytest.mark.spec("§15.3", "§15.6")
def test_a_manifest_is_shown_and_every_outcome_comes_out_again(folder):
    shown = printed("audit", "manifest", EVENT, "--replay", "--json")
    [manifest] = shown["manifests"]
    assert manifest["manifest"]["bindings_evaluated_count"] == len(KINDS)
    assert shown["differences"] == {"1": []}
    result = rotulus("audit", "manifest", EVENT, "--cycle", "1", "--replay")
    assert result.exit_code == 0
    assert "every outcome reproduced byte for byte: yes" in result.output
    assert result.output.count("binding_fired") == len(KINDS)


def test_an_unknown_event_is_an_error_with_its_code(folder):
    for arguments in (["nobody"], [EVENT, "--cycle", "2"]):
        result = rotulus("audit", "manifest", *arguments)
        assert result.exit_code == 1
        assert "binding_manifest_unknown" in result.output
