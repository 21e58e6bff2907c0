"""The database itself holds records of runs to what they name of their run."""

import sqlite3
from contextlib import closing

import pytest

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import whole_run

DANGLING = {
    "a token of no row": "UPDATE landscape_tokens SET row_id = 'nowhere'",
    "a call of no state": "UPDATE landscape_calls SET state_id = 'x' WHERE state_id IS NOT NULL",
    "nodes gone": "DELETE FROM landscape_nodes",
}


@pytest.fixture
def run(store):
    """A whole run on the store."""
    recorder = Recorder(Ledger.create(store, FakeHost().host))
    whole_run(recorder)
    recorder.complete_run("run-1")


@pytest.fixture
def connection(run, adapter, tmp_path, request):
    """A connection of a stranger to the rules of this program."""
    if adapter == "sqlite":
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            yield connection
        return
    psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
    with psycopg.connect(request.getfixturevalue("postgres_url"), autocommit=True) as connection:
        yield connection


@pytest.mark.spec("seed 003, Composite Key Queries")
@pytest.mark.parametrize("change", DANGLING.values(), ids=DANGLING)
@pytest.mark.parametrize("adapter", ["sqlite", "postgres"], indirect=True)
def test_what_would_name_nothing_is_refused_by_the_database(connection, change):
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        connection.execute(change)
