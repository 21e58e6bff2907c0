"""Payloads that are erased on the record, and legal holds, which win (P6)."""

import pytest

from kernel.ledger import schema
from kernel.records.legal_holds import (
    ErasureRefused,
    Grounds,
    LegalHold,
    lift_hold,
    open_holds,
    set_hold,
)
from kernel.retention.erasure import ErasablePayload, erase
from kernel.retention.model_retention import GRACE_US, collect_answers, due_answers
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from tests.kernel.archives import release
from tests.kernel.build import (
    adapt,
    create,
    findings,
    memory_ledger,
    output,
    receipts_of_kind,
    submit,
    submit_answered,
)
from tests.kernel.deciding import deciding

GROUNDS = Grounds("asked for by the person", "privacy office, case 12")
RETIRED = ActiveModels({})


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    submit(ledger, create("n", "Note"))
    return ledger


@pytest.fixture
def answered_output(ledger):
    document = adapt("n", summary="x")
    submit_answered(ledger, document, b"what the model said")
    return f"{document['operation_id']}:0"


def commitment(ledger, output_id):
    with ledger.view() as view:
        return view.record(schema.recorded_model_outputs, output_id)["output_payload_blob_ref"]


def erased(ledger, output_id):
    with ledger.transaction() as transaction:
        return erase(
            transaction, ErasablePayload("model_answer", output_id), GROUNDS, deciding(transaction)
        )


def held(ledger, hold_id, kind, subject_id):
    with ledger.transaction() as transaction:
        return set_hold(transaction, hold_id, (kind, subject_id), GROUNDS, deciding(transaction))


def lifted(ledger, hold_id):
    with ledger.transaction() as transaction:
        return lift_hold(transaction, hold_id, GROUNDS, deciding(transaction))


def refusal(act, *args):
    with pytest.raises(ErasureRefused) as refused:
        act(*args)
    return refused.value.code


@pytest.mark.spec("P6")
def test_an_answer_goes_with_its_salt_and_the_record_says_why(ledger, answered_output):
    blob_ref = commitment(ledger, answered_output)
    erasure = erased(ledger, answered_output)
    assert (erasure.commitment, erasure.erased) == (blob_ref, True)
    [receipt] = receipts_of_kind(ledger, "payload_erased")
    assert receipt["commitment"] == blob_ref
    assert (receipt["reason"], receipt["authority"]) == (GROUNDS.reason, GROUNDS.authority)
    with ledger.view() as view:
        assert view.blob_opening(blob_ref) is None
        assert verify(view).ok
    assert not erased(ledger, answered_output).erased
    assert len(receipts_of_kind(ledger, "payload_erased")) == 1


@pytest.mark.spec("P6")
def test_an_answer_that_is_gone_without_the_receipt_is_a_finding_and_one_that_came_back_too(
    ledger, answered_output
):
    blob_ref = commitment(ledger, answered_output)
    with ledger.view() as view:
        row = dict(view.tables.get(schema.blobs, blob_ref))
    with ledger.transaction() as transaction:
        transaction.drop_blob(blob_ref)
    assert [(finding.key, finding.rule) for finding in findings(ledger)] == [(blob_ref, "missing")]
    with ledger.transaction() as transaction:
        transaction.tables.append(schema.blobs, row)
    assert findings(ledger) == ()
    erased(ledger, answered_output)
    with ledger.transaction() as transaction:
        transaction.tables.append(schema.blobs, row)
    assert [(finding.key, finding.rule) for finding in findings(ledger)] == [(blob_ref, "extra")]


@pytest.mark.spec("P6")
@pytest.mark.parametrize("kind", ["ledger", "payload"])
def test_a_hold_wins_until_it_is_lifted(ledger, answered_output, kind):
    blob_ref = commitment(ledger, answered_output)
    subject_id = blob_ref if kind == "payload" else ""
    hold = held(ledger, "case-7", kind, subject_id)
    assert held(ledger, "case-7", kind, subject_id).hold_id == hold.hold_id
    assert refusal(erased, ledger, answered_output) == "payload_held"
    with ledger.view() as view:
        assert view.blob(blob_ref) == b"what the model said"
        [open_hold] = open_holds(view)
    assert isinstance(open_hold, LegalHold)
    assert (open_hold.subject_id, open_hold.authority) == (subject_id, GROUNDS.authority)
    assert [lifted(ledger, "case-7"), lifted(ledger, "case-7")] == [True, False]
    assert refusal(held, ledger, "case-7", kind, subject_id) == "legal_hold_exists"
    assert erased(ledger, answered_output).erased
    assert findings(ledger) == ()


@pytest.mark.spec("P6", "§6.5")
def test_what_is_held_is_not_collected_either(ledger):
    document = adapt("n", a=1)
    submit_answered(ledger, document, b"answer")
    release(ledger, document["operation_id"])
    held(ledger, "case-7", "ledger", "")

    def collected():
        with ledger.transaction() as transaction:
            now_us = transaction.host.now_us() + 2 * GRACE_US
            due = due_answers(transaction, RETIRED, now_us)
            return [] if due is None else collect_answers(transaction, due)

    assert collected() == []
    lifted(ledger, "case-7")
    assert collected() == [f"{document['operation_id']}:0"]


def test_an_envelope_that_an_output_names_as_its_answer_is_not_erased(ledger):
    with ledger.view() as view:
        envelope_ref = view.log_rows()[0]["envelope_payload_blob_ref"]
    document = adapt("n", a=1)
    stated = output(document["operation_id"], envelope_ref)
    submit(ledger, document | {"recorded_model_outputs": [stated]}, submitter="orchestrator")
    assert refusal(erased, ledger, stated["recorded_output_id"]) == "payload_not_erasable"
    with ledger.view() as view:
        assert view.blob(envelope_ref) is not None


def test_what_is_not_there_is_neither_erased_nor_held_nor_let_go(ledger):
    assert refusal(erased, ledger, "unknown") == "payload_unknown"
    assert refusal(held, ledger, "h", "payload", "0" * 64) == "payload_unknown"
    assert refusal(held, ledger, "h", "thought_session", "unknown") == "payload_unknown"
    assert refusal(held, ledger, "h", "ledger", "a name") == "payload_unknown"
    assert refusal(lifted, ledger, "h") == "legal_hold_unknown"
    for kind in ("payload_erased", "legal_hold_set", "legal_hold_lifted"):
        assert receipts_of_kind(ledger, kind) == []


def test_holds_have_a_limit(ledger, monkeypatch):
    monkeypatch.setattr("kernel.records.legal_holds.LEGAL_HOLDS_MAX", 2)
    monkeypatch.setattr("kernel.records.legal_holds.PAGE_ROWS", 1)
    for name in ("a", "b"):
        held(ledger, name, "ledger", "")
    assert refusal(held, ledger, "c", "ledger", "") == "legal_holds_too_many"
    lifted(ledger, "a")
    held(ledger, "c", "ledger", "")
    with ledger.view() as view:
        assert [hold.hold_id for hold in open_holds(view)] == ["b", "c"]
