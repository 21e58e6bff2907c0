"""On each database rows and records of thoughts leave once a segment has them, and no others."""

import pytest

from kernel.ledger import schema
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres.store import PostgresStore
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.retention.archival import Retention
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from tests.kernel.archives import archive_next, collect_next, memory_archive
from tests.kernel.build import FakeHost, create
from tests.kernel.honest import think
from workers.use_cases.log_archiving import archive_steps

TABLES = (schema.thought_records, schema.merkle_nodes)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "ledger.db")
    else:
        store = PostgresStore(request.getfixturevalue("postgres_url"))
    yield store
    store.close()


@pytest.mark.spec("§17.7")
def test_rows_leave_once_a_segment_has_them_and_go_on_to_verify(store):
    host = FakeHost()
    ledger = Ledger.create(store, host.host, memory_archive())
    with ledger.transaction() as transaction:
        for number in range(SEGMENT_ROWS + 2):
            Kernel().submit(transaction, create(f"n-{number}", "Note"), "orchestrator")
    assert archive_next(ledger)
    assert collect_next(ledger, host) == SEGMENT_ROWS
    with store.view() as tables:
        left = tables.scan(TableQuery(schema.kernel_event_log))
    assert [row["ec_sequence_number"] for row in left] == [SEGMENT_ROWS + 1, SEGMENT_ROWS + 2]
    with ledger.view() as view:
        assert len(view.log_rows(limit=1000)) == SEGMENT_ROWS + 2
        assert (verify(view).findings, verify(view).rows_archived) == ((), SEGMENT_ROWS)
    with pytest.raises(Exception, match="append only"), store.transaction() as tables:
        tables.delete(schema.kernel_event_log, SEGMENT_ROWS + 1)


@pytest.mark.spec("002 Retention tiers")
def test_records_leave_once_a_segment_has_them_and_no_others(store):
    ledger = Ledger.create(store, FakeHost().host, memory_archive())
    think(ledger)
    steps = [*archive_steps(ledger, Retention(rounds_kept=0, rounds_warm=0))]
    assert sum(step.thoughts_moved for step in steps) == 7
    with ledger.view() as view:
        assert (verify(view).findings, verify(view).thoughts_archived) == ((), 7)
    for table in TABLES:
        with store.view() as tables:
            left = tables.scan(TableQuery(table))
        assert {row["session_id"] for row in left} == {"audit-3"}
        for row in left:
            key = [row[column.name] for column in table.primary_key.columns]
            with pytest.raises(Exception, match="append only"), store.transaction() as tables:
                tables.delete(table, *key)
            with pytest.raises(Exception, match="append only"), store.transaction() as tables:
                tables.update(table, tuple(key), {"session_id": "audit-1"})
