"""What a file adds to the port: durability, locks, triggers, versions, and a commit that fails."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import get_args

import pytest
from sqlalchemy import delete, text, update

from kernel.audit.open_reviews import open_reviews
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.sqlite import store as sqlite
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import TableQuery
from kernel.records.legal_holds import open_holds
from kernel.records.reviews.evidence import STORES
from kernel.values.errors import (
    CommitOutcomeUnknown,
    LedgerCorrupt,
    LedgerFailed,
    LedgerHeld,
    LedgerSchemaDiffers,
    LedgerUnavailable,
)
from kernel.work import request_search
from kernel.work.request_lists import list_requests
from kernel.work.request_search import RequestSearch
from tests.connections import watch_sqlite
from tests.contract.nodes import add, names, node
from tests.contract.test_ledger_store import MISSHAPEN, row_of
from tests.kernel.build import abandoned


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def connections(monkeypatch):
    return watch_sqlite(monkeypatch)


@pytest.fixture
def store(connections, path):
    store = SqliteStore(path)
    yield store
    store.close()


def raw(path, *statements):
    """Run statements past the store, as somebody with the file could."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return [connection.execute(statement).fetchall() for statement in statements]
    finally:
        connection.close()


# Durability


def test_a_commit_is_synced_to_a_write_ahead_log(store, connections):
    with store.transaction():
        writer = connections.last
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.slow
def test_what_was_committed_outlives_a_process_that_dies_at_once(path):
    program = (
        "import os, pathlib, sys\n"
        "from kernel.ledger import schema\n"
        "from kernel.ledger.sqlite.store import SqliteStore\n"
        "store = SqliteStore(pathlib.Path(sys.argv[1]))\n"
        "row = {'node_id': 'a', 'node_kind': 'k', 'identity_key': None, 'updated_at': '2',\n"
        "       'record': b'', 'overlay_in_force': 0, 'overlay_target': None}\n"
        "with store.transaction() as tables: tables.insert(schema.nodes, row)\n"
        "with store.transaction() as tables:\n"
        "    tables.insert(schema.nodes, row | {'node_id': 'b'})\n"
        "    os._exit(9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=30)
    assert ended.returncode == 9
    assert names(SqliteStore(path)) == ["a"]


def test_closing_folds_the_write_ahead_log_into_the_file(store, path):
    add(store, "a")
    assert names(store) == ["a"]
    store.close()
    assert [file_path.name for file_path in path.parent.iterdir()] == ["ledger.db"]


def files_beside(path):
    return sorted(
        file_path.name for file_path in path.parent.iterdir() if file_path.suffix != ".copy"
    )


def names_in_a_copy(path):
    """What somebody has who copies the one file."""
    copy = path.with_name("ledger.copy")
    shutil.copyfile(path, copy)
    reader = SqliteStore(copy, read_only=True)
    all_names = names(reader)
    reader.close()
    return all_names


def test_who_only_reads_leaves_one_file_behind(store, path):
    add(store, "a")
    store.close()
    for _ in range(2):
        reader = SqliteStore(path, read_only=True)
        assert names(reader) == ["a"]
        reader.close()
        assert files_beside(path) == ["ledger.db"]


def test_a_copy_of_the_file_has_everything_though_a_reader_is_still_there(store, path):
    """A worker may outlive its gateway by a moment, and SQLite folds at the last connection."""
    add(store, "a")
    reader = SqliteStore(path, read_only=True)
    assert names(reader) == ["a"]
    add(store, "b")
    store.close()
    assert path.with_name("ledger.db-wal").stat().st_size == 0
    assert names_in_a_copy(path) == ["a", "b"]
    reader.close()


def test_of_two_who_write_the_last_leaves_one_file(store, path):
    second = SqliteStore(path)
    add(store, "a")
    add(second, "b")
    store.close()
    assert names(second) == ["a", "b"]
    second.close()
    assert files_beside(path) == ["ledger.db"]
    assert names_in_a_copy(path) == ["a", "b"]


def test_what_a_killed_writer_left_is_there_after_somebody_read_it(store, path):
    """Who only looks changes nothing: the file's bytes are evidence, and the log beside it."""
    add(store, "a")
    kept = {file_path.name: file_path.read_bytes() for file_path in path.parent.iterdir()}
    killed = path.parent / "killed"
    killed.mkdir()
    for name in ("ledger.db", "ledger.db-wal"):
        (killed / name).write_bytes(kept[name])
    reader = SqliteStore(killed / "ledger.db", read_only=True)
    assert names(reader) == ["a"]
    reader.close()
    for name in ("ledger.db", "ledger.db-wal"):
        assert (killed / name).read_bytes() == kept[name]


def test_a_new_file_and_what_is_beside_it_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "ledger.db")
        add(store, "a")
        modes = {
            file_path.name: stat.S_IMODE(file_path.stat().st_mode)
            for file_path in tmp_path.iterdir()
        }
        store.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("ledger.db", "ledger.db-shm", "ledger.db-wal"), 0o600)


def test_a_closed_store_opens_itself_again(store):
    add(store, "a")
    store.close()
    add(store, "b")
    assert names(store) == ["a", "b"]


@pytest.mark.parametrize("name", ["a b", "100%", "what?", "no#1", "é%41", "q&mode=memory"])
def test_a_path_of_any_name_is_one_file(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    store = SqliteStore(folder / f"{name}.db")
    add(store, "a")
    reader = SqliteStore(folder / f"{name}.db", read_only=True)
    assert names(store) == names(reader) == ["a"]
    reader.close()
    store.close()
    assert [file_path.name for file_path in folder.iterdir()] == [f"{name}.db"]


def test_more_readers_than_are_kept_idle_may_read_at_once(store, connections):
    add(store, "a")
    views = [store.view() for _ in range(sqlite.IDLE_READERS_MAX + 2)]
    assert [view.__enter__().count(TableQuery(schema.nodes)) for view in views] == [1] * len(views)
    for view in views:
        view.__exit__(None, None, None)
    assert len(connections.open) == sqlite.IDLE_READERS_MAX + 1, "and the writer's"
    assert names(store) == ["a"]


# The right to write


@pytest.mark.spec("K18")
def test_a_read_only_handle_reads_and_refuses_to_write(store, path):
    add(store, "a")
    reader = SqliteStore(path, read_only=True)
    assert names(reader) == ["a"]
    with pytest.raises(LedgerUnavailable) as refused, reader.transaction():
        pass
    assert refused.value.code == "ledger_read_only"
    with reader.view() as tables:
        for write in (
            lambda: tables.insert(schema.nodes, node("b")),
            lambda: tables.put(schema.nodes, node("a")),
            lambda: tables.update(schema.nodes, ("a",), {"record": b"x"}),
            lambda: tables.delete_before(schema.ephemeral_receipts, "expires_at_us", 1),
        ):
            with pytest.raises(LedgerFailed, match="readonly"):
                write()
    reader.close()
    assert names(store) == ["a"]


@pytest.mark.spec("K18")
def test_the_snapshots_of_a_writing_handle_cannot_write_either(store):
    with store.view() as tables, pytest.raises(LedgerFailed, match="readonly"):
        tables.insert(schema.nodes, node("a"))


def test_a_read_only_handle_needs_a_ledger_that_exists(path):
    with pytest.raises(LedgerUnavailable):
        SqliteStore(path, read_only=True)
    assert not path.exists()


# History


def filled(store, tested):
    """One row in each append-only table, but for where a row of the tested one has moved to."""
    with store.transaction() as tables:
        for table in schema.APPEND_ONLY_TABLES:
            if table.name == tested.info.get("moves_to"):
                continue
            row = {
                column.name: b"x" if column.type.python_type is bytes else 1
                for column in table.columns
            }
            tables.insert(table, row)


@pytest.mark.parametrize(("table", "changes"), MISSHAPEN)
def test_a_value_without_its_shape_is_not_stored(store, table, changes):
    with (
        pytest.raises(sqlite3.IntegrityError, match="CHECK"),
        store.transaction() as tables,
    ):
        tables.insert(table, row_of(table) | changes)


@pytest.mark.parametrize("table", schema.APPEND_ONLY_TABLES, ids=lambda table: table.name)
def test_history_refuses_to_be_changed_or_deleted(store, path, table):
    filled(store, table)
    key = [column.name for column in table.primary_key.columns]
    column = list(table.columns)[-1].name
    with store.view() as tables:
        [row] = tables.scan(TableQuery(table))
    refused = pytest.raises(sqlite3.IntegrityError, match="append only")
    for statement in (update(table).values({column: text(column)}), delete(table)):
        with refused:
            raw(path, str(statement))
    with refused, store.transaction() as tables:
        tables.put(table, row)
    with refused, store.transaction() as tables:
        tables.update(table, tuple(row[name] for name in key), {column: row[column]})
    with store.view() as tables:
        assert tables.scan(TableQuery(table)) == [row]


def test_the_log_its_receipts_effects_outcomes_belief_and_groups_are_history():
    assert {table.name for table in schema.APPEND_ONLY_TABLES} == {
        "kernel_event_log",
        "causal_parents",
        "receipts",
        "applied_effects",
        "outbox_outcomes",
        "belief_events",
        "archived_rows",
        "merkle_nodes",
        "thought_records",
        "landscape_record_groups",
    }


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (schema.kernel_event_log, {"rules_version": 0}),
        (schema.outbox, {"open": 2}),
        (schema.outbox, {"state": 5}),
        (schema.nodes, {"record": None}),
    ],
)
def test_a_value_that_the_schema_does_not_admit_is_not_taken_for_a_duplicate(store, table, changes):
    row = {column.name: 1 for column in table.columns} | changes
    with pytest.raises(sqlite3.IntegrityError), store.transaction() as tables:
        tables.insert(table, row)


@pytest.mark.spec("§6.5")
@pytest.mark.parametrize("pages", [0, 3], ids=["in a page of the table", "in pages of its own"])
def test_content_that_was_erased_is_in_the_file_no_longer(store, path, pages):
    content = b"known to nobody any more " + b"." * pages * sqlite.PAGE_BYTES + b" to its last word"
    rows = [
        {"blob_ref": name, "salt": b"salt", "content": content if name == "b" else b"kept"}
        for name in "abc"
    ]
    with store.transaction() as tables:
        tables.insert_many(schema.blobs, rows)
    with store.transaction() as tables:
        tables.delete(schema.blobs, "b")
    store.close()
    left = path.read_bytes()
    assert b"kept" in left
    assert b"known to nobody" not in left
    assert b"last word" not in left


# Files that are not this ledger


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, "ledger_schema_older"),
        (schema.SCHEMA_VERSION + 1, "ledger_schema_newer"),
        (9999, "ledger_schema_newer"),
        (-1, "ledger_schema_unknown"),
    ],
)
def test_another_schema_version_is_refused_and_left_alone(store, path, version, code, read_only):
    add(store, "a")
    store.close()
    raw(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(LedgerSchemaDiffers) as refused:
        SqliteStore(path, read_only=read_only)
    assert refused.value.code == code
    assert path.read_bytes() == before
    raw(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION}")
    assert names(SqliteStore(path)) == ["a"]


def test_a_writer_whose_tables_were_migrated_meanwhile_is_refused(store, path):
    add(store, "a")
    raw(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    with pytest.raises(LedgerSchemaDiffers) as refused, store.transaction():
        pytest.fail("it was let write")
    assert refused.value.code == "ledger_schema_newer"
    raw(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION}")
    add(store, "b")
    assert names(store) == ["a", "b"]


def test_a_file_without_tables_is_no_ledger_to_read(path):
    raw(path, "PRAGMA journal_mode = WAL")
    with pytest.raises(LedgerUnavailable, match="no ledger at"):
        SqliteStore(path, read_only=True)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path, read_only):
    path.write_bytes(b"minutes of the meeting " * 100)
    with pytest.raises(LedgerCorrupt) as refused:
        SqliteStore(path, read_only=read_only)
    assert refused.value.code == "ledger_file_damaged"
    assert path.read_bytes() == b"minutes of the meeting " * 100


def test_a_folder_that_is_not_there_is_refused(path):
    with pytest.raises(LedgerUnavailable):
        SqliteStore(path.parent / "nowhere" / "ledger.db")


# Locks

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""


@pytest.mark.slow
def test_a_lock_that_another_process_keeps_makes_the_ledger_unavailable(monkeypatch, path):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.05)
    store = SqliteStore(path)
    add(store, "a")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        entered = False
        with pytest.raises(LedgerUnavailable) as refused, store.transaction():
            entered = True
        with pytest.raises(LedgerUnavailable):
            SqliteStore(path)
        assert names(store) == ["a"], "a reader does not wait for the writer"
        holder.communicate(b"")
    assert not entered
    assert refused.value.code == "ledger_unavailable"
    add(store, "b")
    assert names(store) == ["a", "b"]


class WatchedLock:
    """A lock that counts who has come to it."""

    def __init__(self):
        self._lock = threading.Lock()
        self.comers = threading.Semaphore(0)

    def __enter__(self):
        self.comers.release()
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_threads_that_wait_behind_one_that_waits_for_the_file_are_refused_with_it(
    monkeypatch, path
):
    lock = WatchedLock()
    monkeypatch.setattr(sqlite, "threading", SimpleNamespace(Lock=lambda: lock))
    store = SqliteStore(path)
    begins = []

    def begin(writer):
        begins.append(writer)
        for _ in range(3):
            assert lock.comers.acquire(timeout=20)
        raise LedgerUnavailable("database is locked")

    def refused(name):
        with pytest.raises(LedgerHeld) as refusal:
            add(store, name)
        return str(refusal.value)

    with monkeypatch.context() as held, ThreadPoolExecutor() as threads:
        held.setattr(sqlite, "begin_immediate", begin)
        messages = list(threads.map(refused, "abc"))
    assert len(begins) == 1
    assert all("for 4.0 s or more" in message for message in messages)
    add(store, "d")
    assert names(store) == ["d"]


def contended(refusals):
    """Return what refuses the change of the journal so many times."""
    left = iter(range(refusals))

    def refuse(sql):
        if "journal_mode" in sql and next(left, None) is not None:
            raise sqlite3.OperationalError("database is locked")

    return refuse


@pytest.mark.parametrize("refusals", [0, 1, sqlite.WAL_ATTEMPTS_MAX - 1])
def test_a_new_file_that_others_open_too_gets_its_write_ahead_log_all_the_same(
    connections, path, refusals
):
    connections.before = contended(refusals)
    SqliteStore(path).close()
    changes = [sql for sql, *_ in connections.statements if "journal_mode" in sql]
    assert len(changes) == refusals + 1
    assert raw(path, "PRAGMA journal_mode") == [[("wal",)]]


def test_a_write_ahead_log_that_is_refused_for_ever_is_given_up(connections, path):
    connections.before = contended(sqlite.WAL_ATTEMPTS_MAX)
    with pytest.raises(LedgerUnavailable, match="database is locked"):
        SqliteStore(path)
    assert connections.open == []


# A COMMIT that fails


@pytest.mark.spec("K25")
@pytest.mark.parametrize("after_the_fact", [False, True])
def test_a_failed_commit_has_an_unknown_outcome_and_the_next_transaction_works(
    store, connections, after_the_fact
):
    add(store, "a")
    error = sqlite3.OperationalError("disk I/O error")
    connections.last.fail_on("COMMIT", error, after_the_fact=after_the_fact)
    with pytest.raises(CommitOutcomeUnknown) as failed:
        add(store, "b")
    assert failed.value.code == "commit_outcome_unknown"
    there = ["a", "b"] if after_the_fact else ["a"]
    with store.transaction() as tables:
        assert [row["node_id"] for row in tables.scan(TableQuery(schema.nodes))] == there
        tables.insert(schema.nodes, node("c"))
    assert names(store) == [*there, "c"]


def test_an_error_that_ended_the_transaction_reaches_the_caller_and_the_next_one_works(
    store, connections
):
    with abandoned(store.transaction()) as tables:
        tables.insert(schema.nodes, node("a"))
        connections.last.execute("ROLLBACK")  # as SQLite does by itself on some errors
    add(store, "b")
    assert names(store) == ["b"]


# What is asked of a record that only grows


def plans_of(store, connections, path, ask):
    """Return the plan of each statement of a question, a list of its steps."""
    with store.view() as tables:
        connections.statements.clear()
        ask(LedgerView(tables))
        statements = list(connections.statements)
    with closing(sqlite3.connect(path)) as connection:
        return [
            [
                step[-1]
                for step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
            ]
            for sql, values in statements
        ]


@pytest.mark.parametrize(
    ("ask", "step"),
    [
        (
            lambda view: view.epoch_marker("e", "epoch_close"),
            "kernel_event_log_by_epoch_intent (commit_epoch_id=? AND semantic_intent=?)",
        ),
        (
            lambda view: view.epoch_rows("e", limit=9),
            "kernel_event_log_by_epoch (commit_epoch_id=?)",
        ),
    ],
)
def test_an_epoch_is_found_by_its_own_index_however_many_there_were(
    store, connections, path, ask, step
):
    [plan] = plans_of(store, connections, path, ask)
    assert plan == [f"SEARCH kernel_event_log USING INDEX {step}"]


@pytest.mark.spec("§13.6")
@pytest.mark.parametrize("kind", [*STORES, "membership"])
def test_what_waits_is_found_by_its_own_index_however_much_was_decided(
    store, connections, path, kind
):
    table = STORES[kind].table if kind in STORES else schema.corpus_membership_records
    [plan] = plans_of(store, connections, path, lambda view: open_reviews(view, kind, after="e"))
    step = f"{table.name}_open (is_open=? AND {key_names(table)[0]}>?)"
    assert plan == [f"SEARCH {table.name} USING INDEX {step}"]


def test_what_an_operation_informed_is_found_by_its_name_alone(store, connections, path):
    [[step]] = plans_of(
        store,
        connections,
        path,
        lambda view: view.sequences_caused_by("op", after=7, limit=9),
    )
    assert step == (
        "SEARCH causal_parents USING COVERING INDEX sqlite_autoindex_causal_parents_1"
        " (parent_operation_id=? AND ec_sequence_number>?)"
    )


SEARCHED = {
    "state": "open",
    "queue": "a-queue",
    "item_key": "item",
    "tag": "customer=acme",
    "error_signature": "broken",
}
ALONG = {
    "tag": "request_tags USING COVERING INDEX request_tags_by_tag (tag=? AND state=? AND queue=?",
    "error_signature": "dead_letters USING COVERING INDEX dead_letters_by_signature (settled=?"
    " AND queue=? AND error_signature=?",
    "failed": "request_failures USING COVERING INDEX request_failures_by_signature"
    " (error_signature=? AND queue=?",
    "item_key": "outbox USING COVERING INDEX outbox_by_item (queue=? AND item_key=? AND open=?",
    "queue": "outbox USING COVERING INDEX outbox_by_state (state=? AND queue=?",
    "state": "outbox USING COVERING INDEX outbox_by_state (state=? AND queue=?",
}


@pytest.mark.parametrize("with_queue", [False, True])
@pytest.mark.parametrize("state", [None, *get_args(request_search.StateAsked)])
@pytest.mark.parametrize("by", ["tag", "error_signature", "item_key", None])
def test_each_combination_that_is_offered_is_read_along_an_index_in_its_order(
    store, connections, path, by, state, with_queue, monkeypatch
):
    monkeypatch.setattr(request_search, "recorded_queues", lambda _: ["a-queue", "b-queue"])
    stated = {name: SEARCHED[name] for name in (by, "queue" if with_queue else None) if name}
    search = RequestSearch(**stated, state=state)
    plans = plans_of(
        store, connections, path, lambda view: list_requests(view, search, after=9, limit=3)
    )
    along = next((ALONG[name] for name in ALONG if name in stated), state and ALONG["state"])
    if along is None:
        along = "outbox USING COVERING INDEX sqlite_autoindex_outbox_2 ("
        assert plans == [[f"SEARCH {along}request_sequence<?)"]]
    else:
        leads = {along}
        if by == "error_signature":
            of_dead = state in (None, "dead_letter", "standing")
            leads = {ALONG["failed"], *([along] if of_dead else [])}
        assert {step for [step] in plans} == {
            f"SEARCH {lead} AND request_sequence<?)" for lead in leads
        }


def test_a_time_is_found_by_halving_and_not_by_reading_what_is_newer(store, connections, path):
    search = RequestSearch(from_us=5, before_us=7)
    plans = plans_of(
        store, connections, path, lambda view: list_requests(view, search, after=9, limit=3)
    )
    newest, *steps = [step for [step] in plans]
    index = "outbox USING COVERING INDEX sqlite_autoindex_outbox_2"
    assert newest == f"SCAN {index}", "one row of it, the last"
    assert {step.partition(" (")[0] for step in steps} <= {f"SEARCH {index}", f"SCAN {index}"}


@pytest.mark.parametrize(
    ("ask", "step"),
    [
        (
            open_holds,
            "receipts USING INDEX receipts_by_kind (receipt_kind=? AND receipt_sequence>?)",
        ),
        (
            LedgerView.quarantines,
            "receipts USING INDEX receipts_by_kind (receipt_kind=? AND receipt_sequence>?)",
        ),
    ],
)
def test_what_is_of_a_kind_is_read_in_its_order_however_much_there_is(
    store, connections, path, ask, step
):
    assert plans_of(store, connections, path, ask)[0] == [f"SEARCH {step}"]
