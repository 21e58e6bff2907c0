"""`rotulus ledger`: what a ledger that went back has lost, and going on from it (§17)."""

import pytest

from kernel.ledger.head_watch import Answered, Memory, Remembered
from kernel.ledger.ledger import Head, LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.records.head_acceptance import record_finding
from tests.kernel.build import create, ledger_on, submit
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.folder_client import FolderClient
from workers.cli import gateway_call
from workers.environment.data_folder import DataFolder

pytestmark = pytest.mark.spec("§17")

GROUNDS = ("--reason", "the disk was lost", "--authority", "ada")


@pytest.fixture
def went_back(data_folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> DataFolder:
    """A folder whose gateway has found that its ledger went back."""
    ledger, _ = ledger_on(SqliteStore(data_folder.ledger_path))
    submit(ledger, create("kept", "Note"))
    now = ledger.read(LedgerView.head)
    known = Head(9, "a" * 64, 0, "0" * 64, 0, now.committed_at_us + 10**9)
    lost = (Answered("operation", "op-9", 9, "s-1"), Answered("outcome", "request:7", 0))
    with ledger.transaction() as transaction:
        assert record_finding(transaction, "a", Memory(known, now, (Remembered(known, lost),)))
    ledger.close()
    monkeypatch.setattr(gateway_call, "GatewayClient", lambda *_, **__: FolderClient(data_folder))
    return data_folder


@pytest.mark.usefixtures("went_back")
def test_what_is_lost_is_listed_and_accepted_with_the_reason():
    shown = rotulus("ledger", "lost").stdout
    assert "a knew 9 rows and found 1" in shown
    assert "op-9" in shown
    assert "accept-head" in shown
    answer = printed("ledger", "accept-head", *GROUNDS, "--json")
    assert (answer["changed"], answer["stands"]) == (True, False)
    assert [each["name"] for each in answer["lost"]] == ["op-9", "request:7"]
    assert "accept-head" not in rotulus("ledger", "lost").stdout


@pytest.mark.usefixtures("went_back")
def test_a_doctor_says_so_without_a_gateway():
    diagnoses = printed("doctor", "--json", code=1)["diagnoses"]
    [problem] = [each for each in diagnoses if "went back" in each["what"]]
    assert (problem["subject"], problem["state"]) == ("record", "problem")
    assert "rotulus ledger" in problem["todo"]


@pytest.mark.usefixtures("data_folder")
def test_a_ledger_that_did_not_go_back_has_lost_nothing(data_folder: DataFolder):
    ledger_on(SqliteStore(data_folder.ledger_path))[0].close()
    assert rotulus("ledger", "lost").stdout == "Nobody has found that the ledger went back.\n"
