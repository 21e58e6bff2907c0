"""A migration comes to the same on every store, and each finds an operation's row by its index."""

import sqlite3

import pytest

from kernel.audit.operations import AuditFilter, find_operations
from kernel.ledger import schema
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import DuplicateKey
from kernel.migration.job import migrate
from kernel.replay.judgement import replay_all
from kernel.transaction.kernel import Kernel
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from tests.kernel.build import adapt, create, everything, ledger_on, memory_ledger, submit
from tests.kernel.lites import lite, take

MADE = lite(create("n", "Note", title="old"), operation_id="made", idempotency_key="k:made")
CHANGED = lite(adapt("n", title="new"), operation_id="changed", idempotency_key="k:changed")
HELD = lite(create("m", "Note"), operation_id="held", idempotency_key="k:held", source_refs=None)
FIRST = create("before", "Note")
BETWEEN = create("between", "Note")


def migrated_on(ledger):
    submit(ledger, FIRST)
    take(ledger, MADE, HELD, CHANGED)
    submit(ledger, BETWEEN)
    return migrate(Kernel(), ledger)


@pytest.mark.spec("§2.8", "K24")
def test_every_store_holds_the_same_after_a_migration_and_it_verifies(store):
    ledger, _ = ledger_on(store)
    reference = memory_ledger()
    assert migrated_on(ledger) == migrated_on(reference)
    assert everything(ledger) == everything(reference)
    with ledger.view() as view:
        assert verify(view).findings == ()
        assert view.log_row_of("changed")["supersedes_sequence"] == 4
        entries = find_operations(view, AuditFilter(entity="n", to_sequence=4)).entries
        assert [entry.operation_id for entry in entries] == ["made", "changed"]
        every = replay_all(view, 1, 7, "record_only", ActiveModels({}))
        assert [replay.output_reproduced for replay in every] == [True, True, False, True, True]


@pytest.mark.spec("K24")
def test_no_store_takes_a_second_row_for_the_place_of_one_operation(store):
    ledger, _ = ledger_on(store)
    migrated_on(ledger)
    with ledger.view() as view:
        row = view.log_row_of("changed")
    twin = row | {"ec_sequence_number": 99, "prior_row_hash": "ab" * 32}
    with pytest.raises(DuplicateKey), store.transaction() as tables:
        tables.insert(schema.kernel_event_log, twin)
    ordinary = twin | {"operation_id": FIRST["operation_id"], "supersedes_sequence": 0}
    with pytest.raises(DuplicateKey), store.transaction() as tables:
        tables.insert(schema.kernel_event_log, ordinary)


def test_the_row_of_an_operation_is_found_in_one_index_without_sorting(tmp_path):
    SqliteStore(tmp_path / "ledger.db").close()
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM kernel_event_log WHERE operation_id = ?"
            " ORDER BY supersedes_sequence DESC LIMIT 1",
            ("o",),
        ).fetchall()
    connection.close()
    [step] = [plan_row[-1] for plan_row in plan]
    assert "USING INDEX" in step
    assert "operation_id=?" in step
