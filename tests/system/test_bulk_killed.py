"""A bulk operation whose process is killed goes on where it was, and does nothing twice."""

import subprocess
import sys
from pathlib import Path

import pytest

from actors.commit.bulk_units import PAGE_REQUESTS, BulkPageUnit
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.verify import verify
from kernel.work.bulk_operations import running
from kernel.work.request_search import RequestSearch, count_requests
from tests.actors.commit.test_bulk_units import begun, do, enqueued
from workers.environment.system_host import system_host

REQUESTS = 1100
PROGRAM = """
import sys
from actors.commit.bulk_units import BulkPageUnit
from kernel.ledger.ledger import Ledger
from kernel.work.bulk_operations import running
from tests.actors.commit.test_bulk_units import do
from tests.system.test_bulk_killed import store_at
from workers.environment.system_host import system_host

ledger = Ledger(store_at(sys.argv[1]), system_host())
while True:
    with ledger.view() as view:
        operations = running(view)
    for operation in operations:
        do(ledger, BulkPageUnit(operation.bulk_number, operation.cursor))
        print("page", flush=True)
"""


def store_at(place):
    if place.startswith("postgresql"):
        from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

        return PostgresStore(place)
    return SqliteStore(Path(place))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.nightly)])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
    return request.getfixturevalue("postgres").new_database()


@pytest.mark.slow
def test_it_goes_on_where_the_killed_process_was_and_each_request_ends_once(place):
    ledger = Ledger.create(store_at(place), system_host())
    for first in range(0, REQUESTS, 100):
        enqueued(ledger, 100, first=first)
    assert begun(ledger, "cancel").counted == REQUESTS
    ledger.close()
    command = [sys.executable, "-c", PROGRAM, place]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(2):
            assert child.stdout.readline() == b"page\n"
        child.kill()
    ledger = Ledger(store_at(place), system_host())
    with ledger.view() as view:
        [operation] = running(view)
        cancelled = RequestSearch(tag="customer=acme", state="cancelled")
        assert operation.done == count_requests(view, cancelled, REQUESTS)[0]
    assert operation.done >= 2 * PAGE_REQUESTS
    while operation.state == "running":
        operation = do(ledger, BulkPageUnit(operation.bulk_number, operation.cursor)).operation
    assert (operation.done, operation.refused, operation.ended_meanwhile) == (REQUESTS, 0, 0)
    with ledger.view() as view:
        assert count_requests(view, cancelled, 2 * REQUESTS) == (REQUESTS, True)
        assert verify(view).findings == ()
    ledger.close()
