"""Each column of each table damaged: whoever reads it stops and names it (seed 003, Tier 1).

A reader either answers as before, because it does not read the column, or stops with the table, the
key and the rule. What it never does is answer otherwise, or end with anything else.
"""

# ruff: noqa: S608
# Every name that is put into a text here is one of the schema's.

import sqlite3
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import Integer

from kernel.landscape import recent_runs, reports
from kernel.landscape.contracts import contract_of, nodes_with_schema
from kernel.landscape.digest import digest_of
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.export import export_run
from kernel.landscape.lineage import explain
from kernel.landscape.listing import page_of
from kernel.landscape.open_lineage import open_lineage_events
from kernel.landscape.open_work import (
    edge_ids,
    members_of,
    open_operations,
    rows_behind,
    source_rows,
)
from kernel.landscape.overview import node_counts, record_counts, runs_page, tokens_page
from kernel.landscape.prov_json import prov_document
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.landscape.run_checkpoints import newest_checkpoint, topology_of
from kernel.landscape.seals import seal_to_state
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import whole_run

NOW_US = 1 << 60

pytestmark = pytest.mark.spec("L3", "seed 003, Crash-on-Corruption")


def _page(name):
    return lambda view: page_of(view, "run-1", name, {}, after=None, limit=500)


def _rows_of(view, name):
    """The records of a table as they are stored: what a reader is asked about is no damage."""
    return view.tables.scan(TableQuery(TABLES[name]))


READERS = {
    **{name: _page(name) for name in TABLES},
    "digest": lambda view: digest_of(view, "run-1"),
    "seal": lambda view: seal_to_state(view, "run-1"),
    "export": lambda view: [*export_run(view, "run-1")],
    "open_lineage": lambda view: [*open_lineage_events(view, "run-1", producer="urn:x")],
    "prov": lambda view: [*prov_document(view, "run-1")],
    "summary": lambda view: reports.summary_of(view, "run-1"),
    "outcomes": lambda view: reports.outcomes_of(view, "run-1"),
    "graph": lambda view: reports.graph_of(view, "run-1"),
    "performance": lambda view: reports.performance_of(view, "run-1"),
    "errors": lambda view: reports.errors_of(view, "run-1", kind="all", limit=9),
    "causes": lambda view: reports.error_causes_of(view, "run-1"),
    "llm": lambda view: reports.llm_usage_of(view, "run-1"),
    "failures": lambda view: reports.failure_of(view, "run-1", limit=9),
    "activity": lambda view: recent_runs.activity_since(view, 0),
    "problems": lambda view: recent_runs.problems_now(view, NOW_US),
    "node_counts": lambda view: node_counts(view, "run-1"),
    "record_counts": lambda view: record_counts(view, "run-1"),
    "runs_page": lambda view: runs_page(view, status=None, before_us=None, limit=9),
    "tokens_page": lambda view: tokens_page(view, "run-1", after=None, limit=99),
    "contract": lambda view: (contract_of(view, "run-1"), nodes_with_schema(view, "run-1")),
    "topology": lambda view: topology_of(view, "run-1"),
    "source_rows": lambda view: [*source_rows(view, "run-1")],
    "edge_ids": lambda view: edge_ids(view, "run-1"),
    "resume": lambda view: newest_checkpoint(view, "run-1", topology_of(view, "run-1")),
    "rows_behind": lambda view: rows_behind(view, "run-1", None),
    "open_operations": lambda view: open_operations(view, "run-1", "sure"),
    "explained_rows": lambda view: [
        explain(view, row["row_id"], run_id="run-1") for row in _rows_of(view, "rows")
    ],
    "explained_batches": lambda view: [
        explain(view, row["batch_id"], run_id="run-1") for row in _rows_of(view, "batches")
    ],
    "batch_members": lambda view: [
        members_of(view, "run-1", row["batch_id"]) for row in _rows_of(view, "batches")
    ],
    "explained_run": lambda view: explain(view, "run-1"),
    "explained_node": lambda view: explain(view, "classify", run_id="run-1"),
}


ASKED_BY_NAME = {
    *("explained_node", "explained_rows", "explained_batches", "batch_members"),
    *("tokens_page", "open_operations", "failures", "errors", "causes"),
}
"""Readers that look for records of one thing: they do not meet what names another one."""

ASKED_BY_VALUE = {
    ("problems", "token_outcomes", "outcome"),
    ("problems", "operations", "status"),
    ("open_operations", "operations", "status"),
    *((reader, "node_states", "status") for reader in ("failures", "errors", "causes")),
}
"""Which reader asks a table for the records that have one value in a column."""


class NamedTables:
    """The tables of a snapshot, which note the names of those that are read."""

    def __init__(self, tables):
        self._tables = tables
        self.read = set()

    def __getattr__(self, method):
        call = getattr(self._tables, method)

        def noted(read, *key):
            self.read.add((read.table if isinstance(read, TableQuery) else read).name)
            return call(read, *key)

        return noted


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A run with a record in every table: its file, what each reader says of it and reads."""
    path = tmp_path_factory.mktemp("damage") / "ledger.db"
    ledger = Ledger.create(SqliteStore(path), FakeHost().host)
    recorder = Recorder(ledger)
    whole_run(recorder)
    recorder.begin_operation("run-1", "sure", "sink_write", input_data={"path": "b"})
    failing = recorder.create_batch("run-1", "gather")
    recorder.update_batch("run-1", failing["batch_id"], "failed")
    recorder.complete_run("run-1", "interrupted")
    said = {}
    with ledger.view() as view:
        for reader, read in READERS.items():
            named = NamedTables(view.tables)
            said[reader] = (read(LedgerView(named)), named.read)
    yield path, ledger, said
    ledger.close()


def not_its_type(column, rowid):
    """A value of another type than the column's; SQLite keeps it as it is."""
    return b"%d" % rowid


def against_its_rule(column, rowid):
    """A value of the column's type that its rule does not admit."""
    if column.name.startswith("is_"):
        return 2
    if isinstance(column.type, Integer):
        return -rowid
    return "{" if column.name.endswith("_json") else f"\0{rowid}"


@contextmanager
def changed(db, table, column, value_of):
    """Damage a column of every record that has it, for as long as the block lasts."""
    rows = db.execute(f"SELECT {column.name}, rowid FROM {table.name}").fetchall()
    held = [row for row in rows if row[0] is not None] or rows
    update = f"UPDATE {table.name} SET {column.name} = ? WHERE rowid = ?"
    db.executemany(update, [(value_of(column, rowid), rowid) for _, rowid in held])
    try:
        yield
    finally:
        db.executemany(update, held)


@pytest.mark.parametrize("damage", [not_its_type, against_its_rule])
@pytest.mark.parametrize("name", [*TABLES])
def test_who_reads_a_damaged_column_stops_and_names_it(damaged, name, damage):
    path, ledger, said = damaged
    table = TABLES[name]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for column in table.columns:
            if column.name == "run_id":
                continue  # see the next test
            with changed(db, table, column, damage), ledger.view() as view:
                stopped = [
                    _stops(view, reader, expected, table, column)
                    for reader, (expected, tables) in said.items()
                    if table.name in tables
                ]
            assert any(stopped), f"{table.name}.{column.name} is read by nobody"


def _stops(view, reader, expected, table, column):
    """Read; return whether the reader stopped, and as it should."""
    name = table.name.removeprefix("landscape_")
    answer = _answer(view, reader)
    if isinstance(answer, RecordDamaged):
        named = answer.table == table.name and column.name in answer.rule
        misses = ("not in landscape_", "no parent is recorded", "is not there", "are expected of")
        assert named or any(each in answer.rule for each in misses), (reader, str(answer))
        assert answer.key.startswith("run-1"), (reader, str(answer))
        return named
    by_name = reader in ASKED_BY_NAME and (column.primary_key or column.foreign_keys)
    by_value = (reader, name, column.name) in ASKED_BY_VALUE
    assert answer == expected or by_name or by_value, (reader, name, column.name)
    return False


def _answer(view, reader):
    try:
        return READERS[reader](view)
    except (RecordDamaged, LandscapeRefused) as error:
        return error


@pytest.mark.parametrize("name", [*TABLES])
def test_a_record_of_another_run_or_of_another_key_makes_another_digest(damaged, name):
    path, ledger, said = damaged
    table = TABLES[name]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for column in table.primary_key.columns:
            other = changed(db, table, column, lambda _, rowid: f"other-{rowid}")
            with other, ledger.view() as view:
                assert _answer(view, "digest") != said["digest"][0], (name, column.name)
