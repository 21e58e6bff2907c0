"""An erasure that is killed at any step leaves the payload, or its tombstone, and never half."""

import pytest

from kernel.erasure import ErasablePayload, erase
from kernel.ledger import schema
from kernel.legal_holds import Grounds
from kernel.verify import verify
from tests.kernel.build import adapt, create, receipts_of_kind, submit, submit_answered
from tests.system.killed_at_steps import killed_at_each_step, opened

GROUNDS = Grounds("asked for by the person", "privacy office")
OPERATION = adapt("n", summary="x")
PAYLOAD = ErasablePayload("model_answer", f"{OPERATION['operation_id']}:0")
SAID = b"what the model said, word for word"


def erase_it(ledger):
    with ledger.transaction() as transaction:
        return erase(transaction, PAYLOAD, GROUNDS)


@pytest.mark.spec("P6")
def test_who_is_killed_has_erased_it_on_the_record_or_not_at_all(tmp_path):
    begun = tmp_path / "begun.db"
    ledger = opened(begun)
    submit(ledger, create("n", "Note"))
    submit_answered(ledger, OPERATION, SAID)
    ledger.close()
    seen = set()
    for step, path, _ in killed_at_each_step(begun, erase_it):
        ledger = opened(path, step + 1)
        with ledger.view() as view:
            record = view.record(schema.recorded_model_outputs, PAYLOAD.payload_id)
            is_there = view.blob(record["output_payload_blob_ref"]) == SAID
            assert verify(view).ok
        assert len(receipts_of_kind(ledger, "payload_erased")) == (0 if is_there else 1)
        seen.add(is_there)
        assert erase_it(ledger).erased == is_there
        with ledger.view() as view:
            assert verify(view).ok
        ledger.close()
        assert SAID not in path.read_bytes()
    assert seen == {True, False}
