"""`rotulus backup` and `rotulus restore`."""

from contextlib import closing

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import create, submit
from tests.workers.cli.command import printed, rotulus
from workers.environment.checkpoint_key import create_key
from workers.environment.system_host import system_host


@pytest.fixture
def record(data_folder):
    """A ledger of two rows in the data folder."""
    with closing(Ledger.create(SqliteStore(data_folder.ledger_path), system_host())) as ledger:
        for number in range(2):
            submit(ledger, create(f"n-{number}", "Note"))
    return data_folder


def test_a_backup_is_checked_and_restored_by_the_commands_that_are_printed(record, tmp_path):
    place, folder = str(tmp_path / "place"), tmp_path / "restored"
    missing = rotulus("restore", place, "--check")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "backup_missing" in missing.stderr
    assert "`rotulus backup --output PLACE` makes one" in missing.stderr
    backup = printed("backup", "--output", place, "--json")
    assert backup["head"].startswith("2:")
    assert printed("restore", place, "--check", "--json")["verifies"]
    restored = printed("restore", place, "--to", str(folder), "--json")
    assert (restored["backup"], restored["findings"]) == (backup["backup"], [])
    verified = printed("verify", "--data-dir", str(folder), "--json")
    assert (verified["head"], verified["tree_head"]) == (backup["head"], backup["tree_head"])
    again = rotulus("restore", place, "--to", str(folder))
    assert again.exit_code == 1
    assert "restore_target_in_use" in again.stderr


def test_a_key_is_named_by_the_environment_and_its_name_is_in_the_backup(record, tmp_path):
    place, key = str(tmp_path / "place"), tmp_path / "backup.key"
    key.write_text("5e" * 32)
    create_key(tmp_path / "log.key", "example.com/log")
    environment = {
        "ROTULUS_BACKUP_KEY": str(key),
        "ROTULUS_CHECKPOINT_KEY": str(tmp_path / "log.key"),
    }
    made = rotulus("backup", "--output", place, **environment)
    assert made.exit_code == 0, made.output
    assert "is_encrypted: true" in made.stdout
    for name in environment:
        assert name in made.stdout
    refused = rotulus("restore", place, "--check")
    assert refused.exit_code == 1
    assert "backup_key_invalid" in refused.stderr
    key_alone = {"ROTULUS_BACKUP_KEY": str(key)}
    folder = str(tmp_path / "restored")
    restored = rotulus("restore", place, "--to", folder, **key_alone)
    assert restored.exit_code == 0, restored.output
    assert "set ROTULUS_CHECKPOINT_KEY" in restored.stdout


def test_a_damaged_backup_ends_the_check_with_1(record, tmp_path):
    place = tmp_path / "place"
    printed("backup", "--output", str(place), "--json")
    piece = next(place.rglob("*.piece"))
    piece.write_bytes(piece.read_bytes()[1:])
    [damaged] = printed("restore", str(place), "--check", "--json", code=1)["damaged"]
    assert piece.stem in damaged


def test_one_of_to_and_check_is_needed(tmp_path):
    for options in ((), ("--check", "--to", str(tmp_path / "x"))):
        refused = rotulus("restore", str(tmp_path), *options)
        assert refused.exit_code == 2
        assert "one of --to and --check" in refused.stderr


def test_without_a_ledger_there_is_no_backup(data_folder, tmp_path):
    refused = rotulus("backup", "--output", str(tmp_path / "place"))
    assert refused.exit_code == 1
    assert "ledger_unavailable" in refused.stderr
    assert not (tmp_path / "place" / "manifests").exists()
