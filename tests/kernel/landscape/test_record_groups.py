"""What a transaction wrote of a run is a group, and no record changes without its group."""

# ruff: noqa: S106, S608
# A token is none of a password. Every name that is put into a text here is one of the schema's.

import io
import shutil
import sqlite3
from contextlib import closing

import orjson
import pytest

from kernel.landscape.export import export_run, import_run
from kernel.landscape.record_anchors import anchor_groups, count_unanchored_groups, earlier_runs
from kernel.landscape.record_chain import FINISHED, entry_of, newest_group
from kernel.landscape.record_group import unfinished_statuses
from kernel.landscape.record_rules import KEYS, TABLES
from kernel.landscape.recorder import Recorder
from kernel.landscape.run_checkpoints import reopen_run
from kernel.ledger import schema
from kernel.ledger.landscape_tables import CHANGING
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.values.canonical import GENESIS_HASH, sha256_hex
from kernel.verify import verify
from kernel.verify.since import KeptTree, verify_since
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.jobs import seal_receipts
from tests.kernel.landscape.runs import begin_with_token, seal, step, whole_run
from tests.kernel.tampering import Copy, forge_record

pytestmark = pytest.mark.spec("seed 003, Crash-on-Corruption", "L4")

GROUPS = schema.landscape_record_groups
NEWEST = "SELECT max(group_sequence) FROM landscape_record_groups"


def findings(ledger):
    with ledger.view() as view:
        return [(each.table, each.rule) for each in verify(view, fold=False).findings]


def groups_of(ledger):
    return ledger.read(lambda view: view.tables.scan(TableQuery(GROUPS)))


def open_work(recorder):
    """Begin a run that has what is not finished in each table that may have it."""
    begin_with_token(recorder)
    recorder.begin_node_state("run-1", "t", "parse", 0, {"text": "x"}, state_id="state")
    operation = recorder.begin_operation("run-1", "source", "source_load", input_data={"p": 1})
    recorder.create_batch("run-1", "gather", batch_id="batch")
    recorder.flush()
    return operation["operation_id"]


def finish_work(recorder, operation_id):
    """Go on with it, and end the run, each step in a transaction of its own."""
    recorder.complete_node_state("run-1", "state", "pending", duration_us=1)
    recorder.flush()
    recorder.complete_node_state("run-1", "state", "completed", output={"y": 1}, duration_us=2)
    recorder.complete_operation("run-1", operation_id, "completed", duration_us=3)
    recorder.update_batch("run-1", "batch", "executing", trigger_type="count")
    recorder.flush()
    recorder.complete_batch("run-1", "batch", trigger_reason="1 of 1")
    recorder.record_token_outcome("run-1", "t", "completed", sink_name="sure")
    recorder.complete_run("run-1")


@pytest.mark.parametrize("group_records", [1, 7, 1024])
def test_a_run_verifies_while_it_goes_on_when_it_failed_when_it_is_resumed_and_sealed(
    ledger, group_records
):
    recorder = Recorder(ledger, group_records=group_records)
    operation_id = open_work(recorder)
    assert findings(ledger) == []
    seal_receipts(ledger)
    recorder.complete_run("run-1", "interrupted")
    assert ledger.read(count_unanchored_groups) == 1
    seal_receipts(ledger)
    reopen_run(ledger, "run-1")
    finish_work(recorder, operation_id)
    assert findings(ledger) == []
    seal(ledger)
    seal_receipts(ledger)
    with ledger.view() as view:
        verification = verify(view)
    assert verification.findings == ()
    assert (verification.run_groups, verification.run_groups_not_under_the_tree) == (
        len(groups_of(ledger)),
        0,
    )


def test_a_group_names_its_records_in_the_order_of_its_bytes_and_the_group_before(ledger):
    recorder = Recorder(ledger)
    begin_with_token(recorder)
    recorder.flush()
    recorder.create_row("run-1", "source", 1, {"row": "s"}, row_id="s")
    recorder.flush()
    first, second = groups_of(ledger)
    stated = orjson.loads(second["group_bytes"])
    assert first["prior_group_hash"] == GENESIS_HASH
    assert stated["prior_group_hash"] == first["group_hash"] == sha256_hex(first["group_bytes"])
    row = ledger.read(lambda view: view.tables.get(TABLES["rows"], "run-1", "s"))
    assert stated["records"] == {"landscape_rows": entry_of(TABLES["rows"], [row])}
    assert stated["records"]["landscape_rows"]["keys"] == ["s"]


def test_what_is_refused_is_in_no_group_and_what_is_written_beside_it_is(ledger):
    recorder = Recorder(ledger)
    begin_with_token(recorder)
    recorder.flush()
    recorder.create_token("run-1", "nowhere", token_id="refused")
    recorder.create_token("run-1", "r", token_id="taken")
    with pytest.raises(Exception, match="nowhere"):
        recorder.flush()
    keys = [orjson.loads(row["group_bytes"])["records"] for row in groups_of(ledger)[1:]]
    assert [entries["landscape_tokens"]["keys"] for entries in keys] == [["taken"]]
    assert findings(ledger) == []


def test_two_runs_in_one_transaction_have_a_group_each(ledger):
    recorder = Recorder(ledger)
    for run_id in ("run-1", "run-2"):
        begin_with_token(recorder, run_id)
    recorder.flush()
    assert [row["run_id"] for row in groups_of(ledger)] == ["run-1", "run-2"]
    assert findings(ledger) == []


def test_an_imported_run_is_in_the_chain(ledger, tmp_path):
    other = Ledger.create(SqliteStore(tmp_path / "other.db"), FakeHost().host)
    recorder = Recorder(other)
    whole_run(recorder)
    recorder.complete_run("run-1", "failed")
    lines = other.read(lambda view: b"".join(export_run(view, "run-1")))
    other.close()
    import_run(ledger, io.BytesIO(lines))
    assert {row["run_id"] for row in groups_of(ledger)} == {"run-1"}
    assert findings(ledger) == []


def test_a_record_is_finished_in_a_group_where_no_recorder_may_change_it():
    assert FINISHED.keys() == CHANGING.keys()
    for table in map(schema.metadata.tables.get, FINISHED):
        statuses = {*table.columns["status"].info["values"], *unfinished_statuses(table)}
        reopened = {"failed", "interrupted"} if table is TABLES["runs"] else set()
        assert {*FINISHED[table.name]} == statuses - {*unfinished_statuses(table)} - reopened


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """A file with an unfinished run that has a record in every table, sealed as at a stop."""
    path = tmp_path_factory.mktemp("unfinished") / "ledger.db"
    ledger = Ledger.create(SqliteStore(path), FakeHost().host)
    submit(ledger, create("n-1", "Note"))
    recorder = Recorder(ledger)
    whole_run(recorder)
    recorder.flush()
    recorder.create_row("run-1", "source", 7, {"row": "late"}, row_id="late")
    recorder.flush()
    seal_receipts(ledger)
    with ledger.view() as view:
        assert verify(view).findings == ()
    ledger.close()
    return path


@pytest.fixture
def copy(unfinished, tmp_path):
    path = tmp_path / "ledger.db"
    shutil.copy(unfinished, path)
    return Copy(path)


@pytest.mark.parametrize("name", [*TABLES])
def test_every_changed_column_of_an_unfinished_run_is_found_and_its_table_named(copy, name):
    table, changed = TABLES[name], 0
    copy.close()
    ledger = Ledger(SqliteStore(copy.path, read_only=True), FakeHost().host)
    with closing(sqlite3.connect(copy.path, isolation_level=None)) as db:
        for column in table.columns:
            if column.primary_key or column.info.get("after_the_end"):
                continue
            [(key, held)] = db.execute(
                f"SELECT {KEYS[name]}, {column.name} FROM {table.name} LIMIT 1"
            ).fetchall()
            value = held + 1 if isinstance(held, int) else f"{held or ''}x"
            update = f"UPDATE {table.name} SET {column.name} = ? WHERE {KEYS[name]} = ?"
            try:
                db.execute(update, (value, key))
            except sqlite3.IntegrityError:
                continue
            assert str(table.name) in {where for where, _ in findings(ledger)}, column.name
            db.execute(update, (held, key))
            changed += 1
    assert findings(ledger) == []
    ledger.close()
    assert changed


@pytest.mark.parametrize(
    ("statement", "table", "rule"),
    [
        ("DELETE FROM landscape_calls", "landscape_calls", "missing"),
        ("DELETE FROM landscape_runs", "landscape_runs", "missing"),
        (
            (
                "INSERT INTO landscape_rows SELECT run_id, 'more', source_node_id, 99,"
                " source_data_hash, source_data_ref, created_at_us FROM landscape_rows LIMIT 1"
            ),
            "landscape_rows",
            "extra",
        ),
        ("UPDATE landscape_runs SET config_hash = lower(hex(zeroblob(32)))", None, None),
        (
            "UPDATE landscape_runs SET status = 'failed', completed_at_us = 1",
            "landscape_runs",
            "state_differs",
        ),
        (
            "DELETE FROM landscape_record_groups WHERE group_sequence = 1",
            "landscape_record_groups",
            "gap",
        ),
        (
            f"DELETE FROM landscape_record_groups WHERE group_sequence = ({NEWEST})",
            "landscape_record_groups",
            "missing",
        ),
        (
            "UPDATE landscape_record_groups SET run_id = 'run-2' WHERE group_sequence = 1",
            "landscape_record_groups",
            "column_differs",
        ),
        *(
            (
                f"UPDATE landscape_record_groups SET {change} WHERE group_sequence = 1",
                "landscape_record_groups",
                rule,
            )
            for change, rule in (
                ("group_bytes = X'7b7d'", "bytes_changed"),
                ("group_hash = 'x'", "bytes_changed"),
                ("prior_group_hash = 'x'", "column_differs"),
                ("group_sequence = 7", "gap"),
            )
        ),
    ],
)
def test_whatever_is_done_to_records_or_groups_is_found(copy, statement, table, rule):
    copy.run(statement)
    named = {(each.table, each.rule) for each in copy.verify(fold=False).findings}
    assert (table or "landscape_runs", rule or "digest_differs") in named


def test_who_computes_the_groups_anew_contradicts_the_anchor_that_the_tree_commits_to(copy):
    forge_record(copy, TABLES["rows"], "late", source_data_hash="ab" * 32)
    faults = copy.verify(fold=False).findings
    assert {(each.table, each.rule) for each in faults} == {
        ("landscape_record_groups", "link_broken")
    }


def test_what_is_recorded_behind_the_anchor_can_be_changed_until_the_next_one(unfinished, tmp_path):
    path = tmp_path / "ledger.db"
    shutil.copy(unfinished, path)
    ledger = Ledger(SqliteStore(path), FakeHost().host)
    Recorder(ledger, group_records=1).create_row("run-1", "source", 8, {"row": "x"}, row_id="x")
    assert ledger.read(count_unanchored_groups) == 1
    ledger.close()
    copy = Copy(path)
    forge_record(copy, TABLES["rows"], "x", source_data_hash="ab" * 32)
    assert copy.verify(fold=False).findings == ()


def test_a_state_that_was_open_at_a_checkpoint_keeps_its_input_when_it_is_finished(tmp_path):
    """The columns that stay are in each group that has it, under the checkpoint the first one."""
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(SqliteStore(path), FakeHost().host)
    recorder = Recorder(ledger)
    operation_id = open_work(recorder)
    seal_receipts(ledger)
    finish_work(recorder, operation_id)
    assert findings(ledger) == []
    ledger.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE landscape_node_states SET input_hash = ?", ("ab" * 32,))
        db.commit()
    ledger = Ledger(SqliteStore(path), FakeHost().host)
    with ledger.view() as view:
        faults = verify(view, fold=False).findings
    ledger.close()
    messages = [each.message for each in faults if each.rule == "digest_differs"]
    assert [f"group {number} " in message for number, message in enumerate(messages, 1)] == [
        True
    ] * 3


def test_a_verification_since_a_kept_head_checks_the_groups_behind_it(unfinished, tmp_path):
    path = tmp_path / "ledger.db"
    shutil.copy(unfinished, path)
    ledger = Ledger(SqliteStore(path), FakeHost().host)
    with ledger.view() as view:
        tree = view.log_tree()
        kept = KeptTree(tree.size, tree.root())
    Recorder(ledger, group_records=1).create_row("run-1", "source", 8, {"row": "x"}, row_id="x")
    seal_receipts(ledger)
    with ledger.view() as view:
        honest = verify_since(view, kept)
    ledger.close()
    assert (honest.findings, honest.run_groups_not_under_the_tree) == ((), 0)
    copy = Copy(path)
    copy.run("UPDATE landscape_rows SET row_index = 77 WHERE row_id = 'x'")
    copy.close()
    ledger = Ledger(SqliteStore(path), FakeHost().host)
    with ledger.view() as view:
        [fault] = verify_since(view, kept).findings
    ledger.close()
    assert (fault.table, fault.rule) == ("landscape_rows", "digest_differs")


@pytest.fixture
def earlier(unfinished, tmp_path):
    """A ledger with a run that was recorded before there were groups."""
    path = tmp_path / "earlier.db"
    shutil.copy(unfinished, path)
    copy = Copy(path)
    copy.run("DELETE FROM landscape_record_groups")
    copy.run("DELETE FROM receipts")
    copy.run("DELETE FROM landscape_seals")
    copy.close()
    ledger = Ledger(SqliteStore(path), FakeHost().host)
    yield ledger
    ledger.close()


def of_groups(ledger):
    return [each for each in findings(ledger) if each[0].startswith("landscape_")]


@pytest.mark.parametrize("how", ["recorded", "ended", "reopened"])
def test_whoever_writes_of_a_run_from_before_there_were_groups_takes_it_in(earlier, how):
    assert earlier.read(earlier_runs) == ["run-1"]
    assert of_groups(earlier) == []
    with earlier.view() as view:
        [reason] = [each for each in verify(view, fold=False).not_checked if "group" in each]
    assert reason.startswith("the records of 1 runs")
    if how == "reopened":
        reopen_run(earlier, "run-1")
    elif how == "ended":
        Recorder(earlier).complete_run("run-1", "failed")
    else:
        Recorder(earlier, group_records=1).create_row("run-1", "source", 8, {"row": "x"})
    assert earlier.read(earlier_runs) == []
    assert of_groups(earlier) == []
    with earlier.transaction() as transaction:
        assert anchor_groups(transaction)
        assert not anchor_groups(transaction)
    newest = earlier.read(lambda view: newest_group(view.tables))
    assert newest["group_sequence"] > len(TABLES)
    with earlier.store.transaction() as tables:
        tables.update(TABLES["calls"], _key_of_a_call(tables), {"latency_us": 5})
    assert of_groups(earlier) == [("landscape_calls", "digest_differs")]


def _key_of_a_call(tables):
    row = tables.scan(TableQuery(TABLES["calls"]))[0]
    return row["run_id"], row["call_id"]


def test_a_recorded_step_after_a_stop_goes_on_as_before(unfinished, tmp_path):
    path = tmp_path / "ledger.db"
    shutil.copy(unfinished, path)
    ledger = Ledger(SqliteStore(path), FakeHost().host)
    reopen_run(ledger, "run-1")
    recorder = Recorder(ledger)
    token = recorder.create_token("run-1", "late")
    step(recorder, token, "sure", 0, {"x": 1})
    recorder.record_token_outcome("run-1", token["token_id"], "completed", sink_name="sure")
    recorder.flush()
    seal_receipts(ledger)
    with ledger.view() as view:
        assert verify(view).findings == ()
    ledger.close()
