"""An erasure that is killed at any step leaves the payload, or its tombstone, and never half."""

import signal
from itertools import count

import pytest

from kernel.algebra.verbs import PAYLOAD_ERASE
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres.store import PostgresStore
from kernel.records.legal_holds import Grounds
from kernel.retention.erasure import ErasablePayload, erase
from kernel.verify import verify
from tests.kernel.build import adapt, create, receipts_of_kind, submit, submit_answered
from tests.kernel.deciding import deciding
from tests.system.faulty_store import CountedSteps, FaultyStore, step_in_ledger
from tests.system.killed_at_steps import (
    host_of,
    how_it_ended,
    in_a_process,
    killed_at_each_step,
    opened,
)

GROUNDS = Grounds("asked for by the person", "privacy office")
OPERATION = adapt("n", summary="x")
PAYLOAD = ErasablePayload("model_answer", f"{OPERATION['operation_id']}:0")
SAID = b"what the model said, word for word"


def erase_it(ledger, payload=PAYLOAD):
    with ledger.transaction() as transaction:
        return erase(transaction, payload, GROUNDS, deciding(transaction))


def tombstones(ledger):
    with ledger.view() as view:
        return sum(row["semantic_intent"] == PAYLOAD_ERASE for row in view.log_rows())


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
        assert tombstones(ledger) == (0 if is_there else 1)
        seen.add(is_there)
        assert erase_it(ledger).erased == is_there
        with ledger.view() as view:
            assert verify(view).ok
        ledger.close()
        assert SAID not in path.read_bytes()
    assert seen == {True, False}


def answered(ledger, number):
    """Put a model's answer of its own onto the record."""
    operation = adapt("n", summary=f"x{number}")
    submit_answered(ledger, operation, SAID + b" %d" % number)
    return ErasablePayload("model_answer", f"{operation['operation_id']}:0")


def killed_on_postgres(url, payload, step):
    """Tell whether a process was killed at a step of an erasure, or had fewer."""

    def run():
        steps = CountedSteps(step)
        ledger = Ledger(FaultyStore(PostgresStore(url), steps), host_of(step))
        step_in_ledger(steps)
        erase_it(ledger, payload)

    ended = how_it_ended(in_a_process(run))
    assert ended in (0, -signal.SIGKILL), step
    return ended != 0


@pytest.mark.nightly  # by day who is killed at any step on SQLite
@pytest.mark.spec("P6")
def test_who_is_killed_on_postgresql_has_erased_it_on_the_record_or_not_at_all(postgres_url):
    """A payload for each step, on one record: what every kill left is verified together."""
    ledger = Ledger.create(PostgresStore(postgres_url), host_of(0))
    submit(ledger, create("n", "Note"))
    payloads = []
    for step in count(1):
        payloads.append(answered(ledger, step))
        if not killed_on_postgres(postgres_url, payloads[-1], step):
            break
    with ledger.view() as view:
        assert verify(view).ok
        records = [
            view.record(schema.recorded_model_outputs, payload.payload_id) for payload in payloads
        ]
        kept = [view.blob(record["output_payload_blob_ref"]) for record in records]
    is_there = [blob is not None for blob in kept]
    assert is_there == sorted(is_there, reverse=True), "up to a step, and not from there on"
    assert {*is_there} == {True, False}
    assert len(receipts_of_kind(ledger, "payload_erased")) == is_there.count(False)
    assert tombstones(ledger) == is_there.count(False)
    assert [erase_it(ledger, payload).erased for payload in payloads] == is_there
    with ledger.view() as view:
        assert verify(view).ok
    ledger.close()
