"""On each database records of thoughts leave once a segment has them, and no others (seed 002)."""

import pytest

from kernel.archival import Retention
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres import PostgresStore
from kernel.ledger.sqlite import SqliteStore
from kernel.verify import verify
from tests.kernel.archives import memory_archive
from tests.kernel.build import FakeHost
from tests.kernel.honest import think
from workers.use_cases.log_archiving import archive_steps

pytestmark = pytest.mark.spec("002 Retention tiers")

TABLES = (schema.thought_records, schema.merkle_nodes)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "ledger.db")
    else:
        store = PostgresStore(request.getfixturevalue("postgres_url"))
    yield store
    store.close()


def test_records_leave_once_a_segment_has_them_and_no_others(store):
    ledger = Ledger.create(store, FakeHost().host, memory_archive())
    think(ledger)
    steps = [*archive_steps(ledger, Retention(rounds_kept=0, rounds_warm=0))]
    assert sum(step.thoughts_moved for step in steps) == 7
    with ledger.view() as view:
        assert (verify(view).findings, verify(view).thoughts_archived) == ((), 7)
    for table in TABLES:
        with store.view() as tables:
            left = tables.select(table)
        assert {row["session_id"] for row in left} == {"audit-3"}
        for row in left:
            key = [row[column.name] for column in table.primary_key.columns]
            with pytest.raises(Exception, match="append only"), store.transaction() as tables:
                tables.delete(table, *key)
            with pytest.raises(Exception, match="append only"), store.transaction() as tables:
                tables.update(table, tuple(key), {"session_id": "audit-1"})
