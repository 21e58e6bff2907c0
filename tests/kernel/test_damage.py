"""Damaged files: each kind is a finding with a code of its own, and none is a traceback."""

import random
import shutil
import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.damage import file_faults
from kernel.ledger.sqlite.store import SqliteStore
from kernel.verify.expected import ExpectedHead
from tests.kernel.build import FakeHost, create, submit
from workers.cli.main import main
from workers.environment.ledger_verification import verify_file


def write(path, count, *, close=True):
    host = FakeHost()
    ledger = Ledger.create(SqliteStore(path), host.host)
    for number in range(count):
        submit(ledger, create(f"{path.parent.name}-{number}", "Note", text="x" * 500))
    if close:
        ledger.close()
    return ledger


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "ledger.db", 12)
    return tmp_path / "ledger.db"


def found_in(path, **options):
    return verify_file(path, lambda _done, _total: None, **options)


def rules_of(path):
    return {finding.rule for finding in found_in(path).findings}


def test_a_sound_file_has_no_findings(path):
    assert found_in(path).findings == ()
    assert file_faults(path) == []


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


def zeros_in_the_middle(path):
    content = bytearray(path.read_bytes())
    content[8192 : len(content) - 8192] = bytes(len(content) - 2 * 8192)
    path.write_bytes(content)


def noise(path):
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


DAMAGES = {
    "file_truncated": cut,
    "file_zeroed": zeros,
    "not_a_database": noise,
    "file_empty": lambda path: path.write_bytes(b""),
    "page_damaged": zeros_in_the_middle,
}


@pytest.mark.parametrize("rule", DAMAGES)
def test_a_damaged_file_is_a_finding_with_a_code(path, rule):
    DAMAGES[rule](path)
    assert rule in rules_of(path) | (
        {"page_damaged"} if "schema_unreadable" in rules_of(path) else set()
    )


def test_a_program_is_told_in_the_same_way(path):
    noise(path)
    ended = CliRunner().invoke(main, ["verify", "--data-dir", str(path.parent), "--json"])
    assert ended.exit_code == 1
    assert '"not_a_database"' in ended.output
    assert ended.exception is None or isinstance(ended.exception, SystemExit)


def test_no_ledger_is_an_error_and_no_finding(tmp_path):
    ended = CliRunner().invoke(main, ["verify", "--data-dir", str(tmp_path)])
    assert ended.exit_code == 1
    assert "ledger_unavailable" in ended.output


def test_a_version_that_only_the_header_states_is_a_finding(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 3")
    assert rules_of(path) == {"schema_differs"}


# --- the write-ahead log ----------------------------------------------------------------------


@pytest.fixture
def beside_wal(tmp_path):
    """A ledger as a killed process leaves it: what was written last is in the log alone."""
    folder = tmp_path / "running"
    folder.mkdir()
    write(folder / "ledger.db", 12)
    ledger = write(folder / "ledger.db", 15, close=False)
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("ledger.db", "ledger.db-wal"):
        shutil.copy(folder / name, killed / name)
    ledger.close()
    return killed / "ledger.db"


def wal_of(path):
    return path.with_name(f"{path.name}-wal")


def test_a_write_ahead_log_that_fits_is_read(beside_wal):
    damage = found_in(beside_wal)
    assert damage.findings == ()
    assert damage.rows == 15


@pytest.mark.parametrize("position", [0, 3, 9, 17, 25, 31])
def test_a_write_ahead_log_without_a_sound_header_does_not_fit(beside_wal, position):
    content = bytearray(wal_of(beside_wal).read_bytes())
    content[position] ^= 1
    wal_of(beside_wal).write_bytes(content)
    assert "wal_does_not_fit" in rules_of(beside_wal)


def test_a_write_ahead_log_of_other_pages_does_not_fit(beside_wal, tmp_path):
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE a (b)")
        shutil.copy(wal_of(other), wal_of(beside_wal))
    assert "wal_does_not_fit" in rules_of(beside_wal)


def test_the_write_ahead_log_of_another_ledger_is_found(beside_wal, path):
    """Its pages fit one by one; beside those that it does not hold they come to nothing."""
    shutil.copy(wal_of(beside_wal), wal_of(path))
    assert rules_of(path)


def test_commits_behind_a_damaged_frame_are_missed(beside_wal):
    """SQLite reads as if they had never been answered."""
    content = bytearray(wal_of(beside_wal).read_bytes())
    content[32 + (len(content) - 32) // 2] ^= 1
    wal_of(beside_wal).write_bytes(content)
    assert "wal_damaged" in rules_of(beside_wal)


def test_a_write_ahead_log_cut_at_its_end_is_that_of_a_killed_process(beside_wal):
    content = wal_of(beside_wal).read_bytes()
    wal_of(beside_wal).write_bytes(content[:-100])
    assert file_faults(beside_wal) == []


# --- a head that was kept ---------------------------------------------------------------------


def test_a_tail_that_was_cut_off_is_found_against_a_kept_head(tmp_path):
    path = tmp_path / "ledger.db"
    write(path, 3)
    before = shutil.copy(path, tmp_path / "before.db")
    write(path, 5)
    kept = ExpectedHead.parse(found_in(path).head)
    assert found_in(path, expect_head=kept).ok
    [finding] = found_in(before, expect_head=kept).findings
    assert (finding.table, finding.rule) == ("kernel_event_log", "head_not_found")


def test_another_record_is_found_against_a_kept_head(tmp_path, path):
    other = tmp_path / "other" / "ledger.db"
    other.parent.mkdir()
    write(other, 12)
    kept = ExpectedHead.parse(found_in(path).head)
    [finding] = found_in(other, expect_head=kept).findings
    assert (finding.key, finding.rule) == ("12", "head_not_found")


def test_an_older_head_still_holds(path):
    with closing(sqlite3.connect(path)) as db:
        sequence, row_hash = db.execute(
            "SELECT ec_sequence_number, row_hash FROM kernel_event_log LIMIT 1 OFFSET 4"
        ).fetchone()
    assert found_in(path, expect_head=ExpectedHead(sequence, row_hash)).ok
    assert found_in(path, expect_head=ExpectedHead(0, "0" * 64)).ok


@pytest.mark.parametrize(
    "text", ["", "1", "1:ab", "-1:" + "0" * 64, "01:" + "0" * 64, "1:" + "G" * 64]
)
def test_a_head_of_another_form_is_refused(text, tmp_path):
    arguments = ["--data-dir", str(tmp_path), "--expect-head", text]
    assert CliRunner().invoke(main, ["verify", *arguments]).exit_code == 2


def test_the_command_prints_the_head_that_it_expects_again(path):
    arguments = ["--data-dir", str(path.parent)]
    output = CliRunner().invoke(main, ["verify", *arguments]).output
    [head] = [line.split(": ")[1] for line in output.splitlines() if line.startswith("head: ")]
    assert CliRunner().invoke(main, ["verify", *arguments, "--expect-head", head]).exit_code == 0
    wrong = head[:-1] + ("0" if head[-1] != "0" else "1")
    assert CliRunner().invoke(main, ["verify", *arguments, "--expect-head", wrong]).exit_code == 1
