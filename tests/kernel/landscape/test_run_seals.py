"""A run that has ended cannot be changed unseen: its digest is an operation of the log (L4)."""

# ruff: noqa: S608
# Every name that is put into a text here is one of the schema's.

import shutil
import sqlite3
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import Integer

from kernel.landscape.digest import digest_of
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.payloads import purge_payloads
from kernel.landscape.record_rules import KEYS, TABLES
from kernel.landscape.recorder import Recorder
from kernel.landscape.seals import seal_of, seal_to_state
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.model.result import RejectedResult
from kernel.verify import verify
from tests.kernel.build import FakeHost, submit
from tests.kernel.landscape.runs import begin, seal, seal_envelope, whole_run


def findings(ledger):
    with ledger.view() as view:
        return verify(view).findings


@pytest.mark.spec("L4")
def test_a_sealed_run_verifies_and_its_seal_is_on_the_log(ledger, recorder):
    whole_run(recorder)
    recorder.complete_run("run-1")
    seal(ledger)
    row = ledger.read(lambda view: seal_of(view, "run-1"))
    digest = ledger.read(lambda view: digest_of(view, "run-1"))
    assert (row["run_digest"], row["record_count"]) == (digest.run_digest, digest.record_count)
    assert findings(ledger) == ()


def test_a_run_is_sealed_once_and_not_while_it_runs(ledger, recorder):
    begin(recorder)
    recorder.flush()
    with pytest.raises(LandscapeRefused, match="is running"):
        ledger.read(lambda view: seal_to_state(view, "run-1"))
    recorder.complete_run("run-1")
    stated = ledger.read(lambda view: seal_to_state(view, "run-1"))
    seal(ledger)
    again = submit(ledger, seal_envelope(stated), submitter="orchestrator")
    assert isinstance(again, RejectedResult)
    assert again.rejection.reason_code == "landscape_run_sealed"


def test_the_digest_is_the_same_on_both_databases_and_however_records_are_grouped(ledger, tmp_path):
    other = Ledger.create(SqliteStore(tmp_path / "other.db"), FakeHost().host)
    digests = []
    for each, group_records in ((ledger, 7), (other, 1024)):
        recorder = Recorder(each, group_records=group_records)
        whole_run(recorder)
        recorder.complete_run("run-1")
        digests.append(each.read(lambda view: digest_of(view, "run-1")))
    other.close()
    assert digests[0] == digests[1]
    assert digests[0].record_count > 50


def test_a_purge_of_payloads_leaves_the_seal_standing(ledger, recorder):
    whole_run(recorder)
    recorder.complete_run("run-1")
    seal(ledger)
    assert purge_payloads(ledger, before_us=1 << 60).runs == ("run-1",)
    assert findings(ledger) == ()


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A file with a sealed run that has a record in every table."""
    path = tmp_path_factory.mktemp("sealed") / "ledger.db"
    ledger = Ledger.create(SqliteStore(path), FakeHost().host)
    recorder = Recorder(ledger)
    whole_run(recorder)
    recorder.flush()
    recorder.complete_run("run-1", "interrupted")
    seal(ledger)
    ledger.close()
    return path


@pytest.mark.spec("L3", "seed 003, Crash-on-Corruption")
@pytest.mark.parametrize("name", [*TABLES])
def test_a_changed_column_of_a_sealed_run_is_found_and_named(sealed, tmp_path, name):
    path = tmp_path / "ledger.db"
    shutil.copy(sealed, path)
    ledger = Ledger(SqliteStore(path, read_only=True), FakeHost().host)
    sealed_digest = ledger.read(lambda view: seal_of(view, "run-1"))["run_digest"]
    changed = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for column in TABLES[name].columns:
            if column.primary_key or column.info.get("after_the_end"):
                continue
            for how in ("changed", "emptied"):
                with _changed(db, name, column, how) as is_changed:
                    if is_changed:
                        _check_found(ledger, TABLES[name], sealed_digest)
                        changed += 1
    ledger.close()
    assert changed


@contextmanager
def _changed(db, name, column, how):
    """Change a column of one record for as long as the block lasts; yield whether it could be."""
    table, key = TABLES[name].name, KEYS[name]
    [(record_id, held)] = db.execute(
        f"SELECT {key}, {column.name} FROM {table} ORDER BY {column.name} IS NULL LIMIT 1"
    ).fetchall()
    value = held + 1 if isinstance(held, int) else f"{held or ''}x"
    if how == "emptied":
        value = None if column.nullable else 0 if isinstance(column.type, Integer) else ""
    update = f"UPDATE {table} SET {column.name} = ? WHERE {key} = ?"
    try:
        db.execute(update, (value, record_id))
    except sqlite3.IntegrityError:
        value = held
    yield value != held
    db.execute(update, (held, record_id))


def _check_found(ledger, table, sealed_digest):
    digest = ledger.read(_digest_or_damage)
    if isinstance(digest, RecordDamaged):
        assert (digest.table, digest.key.split("/")[0]) == (table.name, "run-1")
        assert digest.rule
    else:
        assert digest != sealed_digest


def _digest_or_damage(view):
    try:
        return digest_of(view, "run-1").run_digest
    except RecordDamaged as damaged:
        return damaged


@pytest.mark.spec("L4")
@pytest.mark.parametrize(
    ("statement", "table", "rule"),
    [
        ("UPDATE landscape_rows SET row_index = 5", "landscape_rows", "digest_differs"),
        ("UPDATE landscape_rows SET source_data_hash = 'x'", "landscape_rows", "field_differs"),
        ("DELETE FROM landscape_calls", "landscape_calls", "digest_differs"),
        ("DELETE FROM landscape_runs", "landscape_runs", "missing"),
        (
            "UPDATE landscape_seals SET run_digest = 'x'",
            "landscape_seals",
            "state_differs",
        ),
    ],
)
def test_verification_names_the_table_in_which_a_sealed_run_was_changed(
    sealed, tmp_path, statement, table, rule
):
    path = tmp_path / "ledger.db"
    shutil.copy(sealed, path)
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()
    ledger = Ledger(SqliteStore(path), FakeHost().host)
    try:
        named = {(finding.table, finding.rule) for finding in findings(ledger)}
    finally:
        ledger.close()
    assert (table, rule) in named


def test_every_table_of_records_is_digested():
    assert {*TABLES.values()} == {*schema.LANDSCAPE_TABLES}
