"""`rotulus doctor`: each thing that can be wrong gets a line that says so, and what to do."""

import shutil
from pathlib import Path

import pytest

from kernel.ledger import schema
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import create, ledger_on, submit
from tests.kernel.tampering import Copy, flipped
from tests.ports import free_port
from tests.workers.cli.command import printed, rotulus
from workers.environment import diagnosis
from workers.environment.data_folder import DataFolder

GATEWAY = "http://127.0.0.1:9"
"""The port of `discard`, at which nobody listens."""


@pytest.fixture
def founded(data_folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> DataFolder:
    """A folder with a ledger of some rows."""
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", GATEWAY)
    ledger, _ = ledger_on(SqliteStore(data_folder.ledger_path))
    for number in range(3):
        submit(ledger, create(f"n-{number}", "Note"))
    ledger.close()
    return data_folder


def seen(code: int) -> dict[str, dict[str, str]]:
    """What is not well, by subject; of several lines about one subject the last."""
    diagnoses = printed("doctor", "--json", code=code)["diagnoses"]
    return {entry["subject"]: entry for entry in diagnoses if entry["state"] != "ok"}


@pytest.mark.usefixtures("founded")
def test_of_what_is_well_nothing_is_to_be_done():
    assert {entry["state"] for entry in seen(0).values()} == {"note"}
    shown = rotulus("doctor").stdout
    assert "the last 3 of 3 rows, their tiles and the schema verify" in shown
    assert "PROBLEM" not in shown


def test_a_row_that_was_changed_is_named(founded):
    copy = Copy(founded.ledger_path)
    row = copy.a_row(schema.kernel_event_log)
    copy.set(schema.kernel_event_log, row, row_bytes=flipped(row["row_bytes"]))
    copy.close()
    problem = seen(1)["record"]
    assert problem["what"].startswith("kernel_event_log 2")
    assert "rotulus verify" in problem["todo"]


def test_each_check_answers_though_another_cannot(founded):
    founded.ledger_path.write_bytes(b"no database at all" * 100)
    problems = seen(1)
    assert {"database", "record"} <= problems.keys()
    assert all(problems[subject]["todo"] for subject in ("database", "record"))
    assert "disk" not in problems


@pytest.mark.spec("§17.7")
def test_it_says_what_goes_to_the_archive_and_what_to_do_where_there_is_none(founded, monkeypatch):
    def told(code):
        diagnoses = printed("doctor", "--json", code=code)["diagnoses"]
        [entry] = [each for each in diagnoses if each["subject"] == "archive"]
        return entry

    entry = told(0)
    assert (entry["state"], entry["todo"]) == ("ok", "")
    assert entry["what"] == (
        f"rows of the log older than 90 days go to {founded.ledger_path.with_name('archive')}"
    )
    monkeypatch.setenv("ROTULUS_KERNEL_RETENTION_DAYS", "0")
    entry = told(0)
    assert entry["state"] == "note"
    assert "rotulus archive run --older-than" in entry["todo"]
    monkeypatch.setenv("ROTULUS_DATABASE_URL", f"postgresql://127.0.0.1:{free_port()}/nowhere")
    monkeypatch.delenv("ROTULUS_KERNEL_RETENTION_DAYS")
    entry = told(1)
    assert entry["state"] == "note"
    assert entry["what"].startswith("there is no place for an archive")
    assert "ROTULUS_ARCHIVE_URL" in entry["todo"]
    monkeypatch.setenv("ROTULUS_ARCHIVE_URL", "s3://bucket/segments")
    assert told(1)["what"] == "rows of the log older than 90 days go to s3://bucket/segments"


def test_a_full_disk_is_a_problem(founded, monkeypatch):
    monkeypatch.setattr(diagnosis, "FREE_BYTES_MIN", 2 * shutil.disk_usage("/").total)
    assert "rotulus archive run" in seen(1)["disk"]["todo"]


def test_a_folder_that_others_may_open_is_a_problem(founded):
    founded.path.chmod(0o755)
    assert "chmod 700" in seen(1)["folder"]["what"]


def test_keys_that_others_may_read_or_that_are_none_are_a_problem(founded, monkeypatch, tmp_path):
    key = tmp_path / "seal.key"
    key.write_text("no key")
    monkeypatch.setenv("ROTULUS_SEAL_KEY", str(key))
    assert "checkpoint_key_unusable" in seen(1)["keys"]["what"]
    inside = founded.path / "seal.key"
    printed("thought", "key", str(inside), "--name", "log.example", "--json")
    monkeypatch.setenv("ROTULUS_SEAL_KEY", str(inside))
    assert "data folder" in seen(0)["keys"]["what"]


@pytest.mark.usefixtures("founded")
def test_a_redis_that_is_away_is_a_problem_and_a_gateway_that_is_away_is_none(monkeypatch):
    monkeypatch.setenv("ROTULUS_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    problems = seen(1)
    assert problems["redis"]["state"] == "problem"
    assert problems["gateway"]["state"] == "note"


def test_where_nothing_is_yet_it_says_how_to_begin(monkeypatch, tmp_path):
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", GATEWAY)
    monkeypatch.setenv("ROTULUS_DATA_DIR", str(tmp_path / "nowhere"))
    problems = seen(1)
    assert "rotulus up" in problems["database"]["todo"]
    assert not Path(tmp_path / "nowhere").exists()
