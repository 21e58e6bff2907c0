"""`rotulus quarantine`, and what other commands do with rows that were found damaged (§17.5)."""

from collections.abc import Iterator

import pytest

from kernel.ledger import schema
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import create, ledger_on, submit
from tests.kernel.tampering import Copy
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.folder_client import FolderClient
from workers.cli import gateway_call
from workers.environment.data_folder import DataFolder

pytestmark = pytest.mark.spec("§17.5")

GROUNDS = ("--reason", "put back from a backup", "--authority", "ada")
BAD = 2


@pytest.fixture
def damaged(data_folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataFolder]:
    """A folder whose second row was changed, which a verification has put on the record."""
    ledger, _ = ledger_on(SqliteStore(data_folder.ledger_path))
    for number in range(4):
        submit(ledger, create(f"n-{number}", "Note"))
    ledger.close()
    monkeypatch.setattr(gateway_call, "GatewayClient", lambda *_, **__: FolderClient(data_folder))
    spoil(data_folder, b'"create"', b'"change"')
    printed("verify", "--record", "--json", code=1)
    return data_folder


def spoil(folder: DataFolder, old: bytes, new: bytes) -> None:
    copy = Copy(folder.ledger_path)
    [row] = [row for row in copy.rows(schema.kernel_event_log) if row["ec_sequence_number"] == BAD]
    assert old in row["row_bytes"]
    copy.set(schema.kernel_event_log, row, row_bytes=row["row_bytes"].replace(old, new))
    copy.close()


def operation_of(sequence: int) -> str:
    rows = printed("show", "log", "--json")["rows"]
    [row] = [row for row in rows if row["ec_sequence_number"] == str(sequence)]
    return str(row["operation_id"])


@pytest.mark.usefixtures("damaged")
def test_it_is_listed_with_its_rows_and_what_was_found():
    [quarantine] = printed("quarantine", "list", "--json")["quarantines"]
    assert quarantine["ranges"] == [{"first_sequence": "2", "last_sequence": "2"}]
    names, line = rotulus("quarantine", "list").stdout.splitlines()
    assert names.split() == ["quarantine", "rows", "since", "found"]
    assert line.split()[:2] == [quarantine["quarantine_id"], "2-2"]
    assert "bytes_changed" in line


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize("command", ["show log", "audit operations"])
def test_who_reads_it_is_told(command):
    assert "quarantined, found damaged: 2; " in rotulus(*command.split()).stdout
    shown = printed("show", "operation", operation_of(BAD))
    assert shown["row"]["quarantined"] is True


@pytest.mark.usefixtures("damaged")
def test_nothing_is_computed_from_it():
    bad = operation_of(BAD)
    for command in (
        ("audit", "replay", bad),
        ("audit", "replay", "--from", "1"),
        ("audit", "preview", bad),
        ("export",),
    ):
        refused = rotulus(*command)
        assert refused.exit_code == 1
        assert "Error: range_quarantined: row 2 of the log is quarantined" in refused.stderr
    assert "1 operations of quarantined rows" in rotulus("audit", "totals").stdout
    assert rotulus("audit", "replay", operation_of(3)).exit_code == 0


@pytest.mark.usefixtures("damaged")
def test_doctor_names_it_and_says_what_to_do():
    [quarantine] = printed("quarantine", "list", "--json")["quarantines"]
    problems = [
        entry
        for entry in printed("doctor", "--json", code=1)["diagnoses"]
        if entry["state"] == "problem" and entry["subject"] == "record"
    ]
    [problem] = problems
    assert problem["what"].startswith("row 2 of the log: quarantined since ")
    lift = f"rotulus quarantine lift {quarantine['quarantine_id']} --reason TEXT --authority NAME"
    assert problem["todo"].endswith(f"`{lift}`")


def test_it_is_lifted_with_a_reason_and_then_everything_goes_on(damaged):
    [quarantine] = printed("quarantine", "list", "--json")["quarantines"]
    name = quarantine["quarantine_id"]
    assert rotulus("quarantine", "lift", name, *GROUNDS[2:]).exit_code == 2
    blank = rotulus("quarantine", "lift", name, "--reason", " ", *GROUNDS[2:])
    assert blank.exit_code == 1
    unknown = rotulus("quarantine", "lift", "nobody", *GROUNDS)
    assert "quarantine_unknown" in unknown.stderr
    spoil(damaged, b'"change"', b'"create"')
    assert printed("quarantine", "lift", name, *GROUNDS, "--json") == {"changed": True}
    assert printed("quarantine", "list", "--json") == {"quarantines": []}
    assert rotulus("audit", "replay", operation_of(BAD)).exit_code == 0
    assert rotulus("export").exit_code == 0
    assert printed("verify", "--json")["verifies"] is True
