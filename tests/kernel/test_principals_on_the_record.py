"""Whose key brought an operation is sealed with it, and each principal has keys of its own."""

import orjson
import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.transaction.rules import RULES
from kernel.values.idempotency_keys import RUNTIME_FORM, answer_key, scoped_key
from kernel.verify import verify
from tests.kernel.build import create, findings, memory_ledger, submit

ADA, BOB = "person:ada", "service:bob"


def row_of(ledger: Ledger, result: SubmissionResult):
    with ledger.view() as view:
        return view.log_row_of(result.operation_id)


def same_key(node_id: str, key: str = "chosen"):
    return create(node_id, "Note", envelope={"idempotency_key": key})


@pytest.mark.spec("§2.1", "K30")
def test_the_row_and_the_envelope_of_an_operation_seal_whose_key_brought_it():
    ledger = memory_ledger()
    result = submit(ledger, create("n", "Note"), principal=ADA)
    row = row_of(ledger, result)
    assert orjson.loads(row["row_bytes"])["principal"] == ADA
    with ledger.view() as view:
        blob = view.tables.get(schema.blobs, row["envelope_payload_blob_ref"])
    assert orjson.loads(blob["content"])["principal"] == ADA
    assert findings(ledger) == ()


def test_where_access_is_open_nothing_is_said_of_a_principal():
    ledger = memory_ledger()
    result = submit(ledger, create("n", "Note"))
    assert b"principal" not in row_of(ledger, result)["row_bytes"]
    with ledger.view() as view:
        answers = view.tables.scan(TableQuery(schema.idempotency_records))
    assert not any(row["idempotency_key"].startswith(RUNTIME_FORM) for row in answers)


@pytest.mark.spec("§20")
@pytest.mark.parametrize(("stated", "principal"), [(ADA, None), (ADA, BOB), ("", None), (7, BOB)])
@pytest.mark.parametrize("submitter", ["caller", "orchestrator"])
def test_a_stated_principal_that_differs_is_refused_on_the_record(stated, principal, submitter):
    ledger = memory_ledger()
    document = create("n", "Note") | {"principal": stated}
    result = submit(ledger, document, submitter=submitter, principal=None)
    if principal is not None:
        result = submit(ledger, document, submitter=submitter, principal=principal)
    assert isinstance(result, RejectedResult)
    expected = "principal_differs" if isinstance(stated, str) and stated else None
    assert expected is None or result.rejection.reason_code == expected
    assert result.rejection.field == "principal"
    with ledger.view() as view:
        assert view.node("n") is None
    assert findings(ledger) == ()


@pytest.mark.spec("K6", "§2.5")
def test_two_principals_who_choose_the_same_key_do_not_meet_and_one_meets_itself():
    ledger = memory_ledger()
    first = submit(ledger, same_key("of-ada"), principal=ADA)
    second = submit(ledger, same_key("of-bob"), principal=BOB)
    third = submit(ledger, same_key("of-nobody"))
    assert [each.duplicate for each in (first, second, third)] == [False, False, False]
    again = same_key("of-ada") | {"operation_id": first.operation_id}
    assert submit(ledger, again, unseen=True, principal=ADA).operation_id == first.operation_id
    conflict = submit(ledger, same_key("other"), principal=BOB)
    assert conflict.rejection.reason_code == "envelope_idempotency_conflict"
    assert findings(ledger) == ()


@pytest.mark.spec("K6")
def test_nobody_states_the_key_of_anothers_scope():
    ledger = memory_ledger()
    submit(ledger, same_key("of-ada"), principal=ADA)
    for principal in (None, BOB):
        stated = scoped_key(ADA, "chosen")
        result = submit(ledger, same_key("stolen", stated), principal=principal)
        assert result.rejection.reason_code == "envelope_idempotency_key_reserved"
    assert answer_key("orchestrator", f"{RUNTIME_FORM}seal_run:1", principal=ADA) == (
        f"{RUNTIME_FORM}seal_run:1"
    )
    # The id of a principal has no colon, so no two pairs have one key.
    assert scoped_key("person:a", "b:c") != scoped_key("person:a", "b") + "c"


@pytest.mark.spec("K30")
def test_before_version_3_a_field_of_that_name_says_nothing():
    envelope = create("n", "Note") | {"principal": 7}
    for version in (1, 2):
        assert "principal" not in RULES[version].row_of_envelope(envelope)
        assert RULES[version].envelope.model_validate_json(orjson.dumps(envelope))
    assert RULES[3].row_of_envelope(envelope | {"principal": ADA})["principal"] == ADA


@pytest.mark.spec("§17.5")
@pytest.mark.parametrize("column", ["row_bytes", "idempotency_key"])
def test_another_principal_on_the_record_is_found(column):
    ledger = memory_ledger()
    result = submit(ledger, same_key("n"), principal=ADA)
    sequence = result.ec_sequence_number
    with ledger.store.transaction() as tables:
        if column == "row_bytes":
            old = row_of(ledger, result)["row_bytes"]
            changed = old.replace(ADA.encode(), b"person:eve")
            tables.update(schema.kernel_event_log, (sequence,), {"row_bytes": changed})
        else:
            key = scoped_key(BOB, "chosen")
            tables.update(schema.idempotency_records, (sequence,), {"idempotency_key": key})
    with ledger.view() as view:
        damaged = {claim.table for claim in verify(view).findings}
    table = "kernel_event_log" if column == "row_bytes" else "idempotency_records"
    assert table in damaged
