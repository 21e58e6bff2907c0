"""What a verification found, on the record (§17.5)."""

import dataclasses

import orjson
import pytest

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from kernel.verify.reading import Finding, finding_document
from kernel.verify.violation import record_violation
from tests.kernel.build import adapt, code_of, create, everything, findings, memory_ledger, submit

pytestmark = pytest.mark.spec("§17.5")


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    submit(ledger, create("n", "Note"))
    return ledger


def damage(ledger):
    with ledger.transaction() as transaction:
        [row] = transaction.tables.scan(TableQuery(schema.nodes))
        transaction.tables.put(schema.nodes, row | {"record": b"{}"})


def test_a_sound_record_gets_no_receipt(ledger):
    before = everything(ledger)
    with ledger.transaction() as transaction:
        assert record_violation(transaction, verify(transaction)) is None
    assert everything(ledger) == before


def test_what_was_found_is_kept_in_the_chain_and_changes_nothing_of_what_is_found(ledger):
    damage(ledger)
    faults = findings(ledger)
    with ledger.transaction() as transaction:
        receipt_id = record_violation(transaction, verify(transaction))
    with ledger.view() as view:
        [row] = view.tables.scan(TableQuery(schema.receipts))
    receipt = orjson.loads(row["receipt_bytes"])
    assert receipt["receipt_id"] == receipt_id
    assert receipt["receipt_kind"] == "kernel_event_log_integrity_violation"
    assert "operation_id" not in receipt
    assert receipt["rows_verified"] == "1"
    assert receipt["findings"] == [finding_document(fault) for fault in faults]
    assert findings(ledger) == faults


def test_the_next_row_seals_it(ledger):
    damage(ledger)
    with ledger.transaction() as transaction:
        record_violation(transaction, verify(transaction))
    assert code_of(submit(ledger, create("m", "Note"), adapt("m", title="t"))[0]) is None
    with ledger.view() as view:
        [receipt] = view.tables.scan(TableQuery(schema.receipts))
        sealed = orjson.loads(view.log_tail(1)[0]["row_bytes"])["receipt_chain_head"]
    assert sealed == receipt["receipt_hash"]


def test_a_finding_may_name_what_no_text_holds(ledger):
    bad = Finding("nodes", "\x00\ud800", "missing", "m" * 9999)
    with ledger.transaction() as transaction:
        verification = dataclasses.replace(verify(transaction), findings=(bad,))
        assert record_violation(transaction, verification)
    assert findings(ledger) == ()
