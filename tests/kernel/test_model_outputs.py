"""What models answered: recorded once, counted, kept as long as anybody needs it, then erased."""

from dataclasses import replace

import pytest

from kernel.ledger import schema
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.replay.judgement import replay_one
from kernel.retention import model_retention
from kernel.retention.model_retention import (
    GRACE_US,
    OutputFacts,
    PastSegment,
    collect_answers,
    due_answers,
    is_collectable,
    release_segment,
)
from kernel.values.model_registry import ActiveModels
from tests.kernel.archives import release
from tests.kernel.build import (
    adapt,
    answered,
    code_of,
    create,
    findings,
    ledger_on,
    memory_ledger,
    output,
    receipts_of_kind,
    submit,
    submit_answered,
)

RETIRED = ActiveModels({})
IN_USE = ActiveModels({"claude-opus-4-7": "claude-opus-4-7"})


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    submit(ledger, create("n", "Note"))
    return ledger


def put(ledger, content=b"answer"):
    with ledger.transaction() as transaction:
        return transaction.put_blob(content)


def stating(document, *outputs):
    return document | {"recorded_model_outputs": list(outputs)}


def record(ledger, key):
    with ledger.view() as view:
        return view.record(schema.recorded_model_outputs, key)


@pytest.mark.spec("§6.4", "§17.1")
def test_an_answer_is_recorded_with_a_durable_receipt_for_each(ledger):
    document = adapt("n", summary="x")
    result = submit_answered(
        ledger, document, b"one", b"two", resolved_output_visibility_class="public_open"
    )
    kinds = [receipt["receipt_kind"] for receipt in result.emitted_receipts]
    assert kinds == ["recorded_model_output"] * 2
    assert {receipt["retention_class"] for receipt in result.emitted_receipts} == {"durable"}
    held = record(ledger, f"{document['operation_id']}:0")
    assert (held["reference_count"], held["state"]) == (1, "recorded")
    assert held["resolved_output_visibility_class"] == "public_open"
    assert held["updated_by_operation_id"] == document["operation_id"]
    with ledger.view() as view:
        assert view.blob(held["output_payload_blob_ref"]) == b"one"
    assert findings(ledger) == ()


@pytest.mark.spec("§6.5")
def test_a_reference_is_an_operation_that_names_the_output(ledger):
    named, other = adapt("n", a=1), adapt("n", a=2)
    stated = output(named["operation_id"], put(ledger))
    first = submit(ledger, stating(named, stated, stated), submitter="orchestrator")
    again = submit(ledger, stating(other, stated), submitter="orchestrator")
    assert [len(result.emitted_receipts) for result in (first, again)] == [1, 0]
    assert record(ledger, stated["recorded_output_id"])["reference_count"] == 2
    assert findings(ledger) == ()


def test_an_id_that_names_another_output_already_is_refused(ledger):
    named, other = adapt("n", a=1), adapt("n", a=2)
    stated = output(named["operation_id"], put(ledger))
    submit(ledger, stating(named, stated), submitter="orchestrator")
    changed = stated | {"model_provider": "another"}
    result = submit(ledger, stating(other, stated, changed), submitter="orchestrator")
    assert code_of(result) == "recorded_model_output_conflict"
    assert result.rejection.field == "recorded_model_outputs.1"
    assert record(ledger, stated["recorded_output_id"])["reference_count"] == 1


@pytest.mark.spec("§6.4")
def test_an_answer_that_nobody_put_is_refused(ledger):
    document = adapt("n", a=1)
    kept = output(document["operation_id"], put(ledger))
    lost = output(document["operation_id"], "ab" * 32, "lost")
    result = submit(ledger, stating(document, kept, lost), submitter="orchestrator")
    assert code_of(result) == "envelope_schema_invalid"
    assert result.rejection.field == "recorded_model_outputs.1.output_payload_blob_ref"
    # Whoever put an answer takes it back when its envelope was refused.
    assert [finding.table for finding in findings(ledger)] == ["blobs"]
    with ledger.transaction() as transaction:
        transaction.drop_blob(kept["output_payload_blob_ref"])
    assert findings(ledger) == ()


@pytest.mark.spec("§6.4", "K18")
def test_answers_are_the_orchestrators_to_capture(ledger):
    document = adapt("n", a=1)
    stated = output(document["operation_id"], put(ledger))
    result = submit(ledger, stating(document, stated))
    assert code_of(result) == "envelope_actor_unauthorized"


@pytest.mark.spec("§6.5")
@pytest.mark.parametrize(
    ("count", "since_us", "eligible", "now_us", "collectable"),
    [
        (0, 0, False, GRACE_US, True),
        (0, 0, False, GRACE_US - 1, False),
        (0, 5, False, GRACE_US + 4, False),
        (0, 0, True, GRACE_US, False),
        (1, None, False, 10 * GRACE_US, False),
        (0, None, False, 10 * GRACE_US, False),
    ],
)
def test_an_answer_goes_when_all_three_conditions_hold(
    count, since_us, eligible, now_us, collectable
):
    facts = OutputFacts(count, since_us, eligible)
    assert is_collectable(facts, now_us) == collectable


@pytest.fixture
def shared():
    """An output that two operations name, on a ledger with a clock."""
    ledger, host = ledger_on(MemoryStore())
    submit(ledger, create("n", "Note"))
    documents = [adapt("n", a=1), adapt("n", a=2)]
    by = documents[0]["operation_id"]
    stated = output(by, put(ledger), recorded_output_id="shared:output")
    for document in documents:
        result = submit(ledger, stating(document, stated), submitter="orchestrator")
        assert code_of(result) is None
    return ledger, host, [stated_document["operation_id"] for stated_document in documents], stated


def sweep(ledger, registry, now_us):
    with ledger.view() as view:
        due = due_answers(view, registry, now_us)
    return [] if due is None else collected(ledger, due)


def collected(ledger, due):
    with ledger.transaction() as transaction:
        return collect_answers(transaction, due)


@pytest.mark.spec("§6.5", "§17.7")
def test_an_answer_is_collected_seven_days_after_its_last_reference_and_stays_verifiable(shared):
    ledger, host, operations, stated = shared
    name, blob_ref = stated["recorded_output_id"], stated["output_payload_blob_ref"]
    release(ledger, operations[0])
    assert sweep(ledger, RETIRED, host.time_us + 10 * GRACE_US) == []
    host.time_us += GRACE_US
    release(ledger, operations[1])
    released_us = host.time_us
    assert sweep(ledger, RETIRED, released_us + GRACE_US - 1) == []
    assert sweep(ledger, IN_USE, released_us + GRACE_US + 1) == []
    before = record(ledger, name)
    assert sweep(ledger, RETIRED, released_us + GRACE_US) == [name]
    assert sweep(ledger, RETIRED, released_us + 2 * GRACE_US) == []
    assert record(ledger, name) == before
    with ledger.view() as view:
        assert view.blob(blob_ref) is None
        rows = view.tables.scan(
            TableQuery(schema.receipts, {"receipt_kind": "recorded_model_output_collected"})
        )
        assert len(rows) == 1
        replay = replay_one(view, operations[0], "record_only", IN_USE)
    assert replay.block_reason == "recorded_output_unavailable"
    submit(ledger, adapt("n", a=3))
    assert findings(ledger) == ()


def test_an_operation_is_released_once_though_two_rows_of_the_log_are_its_own(shared):
    ledger, _, operations, stated = shared
    assert [release(ledger, operations[0]) for _ in range(2)] == [1, 0]
    again = PastSegment(1000, ((operations[0], (stated["recorded_output_id"],)),))
    with ledger.transaction() as transaction:
        assert release_segment(transaction, again) == 0
    assert len(receipts_of_kind(ledger, "operation_archived")) == 1
    assert findings(ledger) == ()


def test_bytes_that_two_outputs_share_stay_while_one_of_them_is_needed(shared):
    ledger, host, operations, stated = shared
    sharing = adapt("n", a=3)
    by, blob_ref = sharing["operation_id"], stated["output_payload_blob_ref"]
    other = output(by, blob_ref, recorded_output_id="other:output")
    submit(ledger, stating(sharing, other), submitter="orchestrator")
    for name in operations:
        release(ledger, name)
    assert sweep(ledger, RETIRED, host.time_us + 2 * GRACE_US) == []
    release(ledger, sharing["operation_id"])
    gone = sweep(ledger, RETIRED, host.time_us + 2 * GRACE_US)
    assert sorted(gone) == ["other:output", "shared:output"]
    assert findings(ledger) == ()


def test_what_is_needed_again_after_it_was_due_stays(shared):
    ledger, host, operations, stated = shared
    for name in operations:
        release(ledger, name)
    with ledger.view() as view:
        due = due_answers(view, RETIRED, host.time_us + 2 * GRACE_US)
    again = adapt("n", a=3)
    other = output(again["operation_id"], stated["output_payload_blob_ref"], recorded_output_id="o")
    submit(ledger, stating(again, other), submitter="orchestrator")
    assert collected(ledger, due) == []
    release(ledger, again["operation_id"])
    assert collected(ledger, replace(due, registry=IN_USE)) == []
    assert sorted(sweep(ledger, RETIRED, host.time_us + 2 * GRACE_US)) == ["o", "shared:output"]
    assert collected(ledger, due) == []
    assert findings(ledger) == ()


def test_answers_are_collected_a_bounded_number_at_a_time(ledger, monkeypatch):
    monkeypatch.setattr(model_retention, "COLLECTED_AT_ONCE", 2)
    for number in range(5):
        document = adapt("n", a=number)
        submit_answered(ledger, document, b"answer %d" % number)
        release(ledger, document["operation_id"])
    now_us = ledger.host.now_us() + 2 * GRACE_US
    assert [len(sweep(ledger, RETIRED, now_us)) for _ in range(4)] == [2, 2, 1, 0]


def test_an_answer_that_is_gone_without_a_receipt_is_a_finding(shared):
    ledger, _, _, stated = shared
    with ledger.transaction() as transaction:
        transaction.drop_blob(stated["output_payload_blob_ref"])
    [finding] = findings(ledger)
    assert (finding.table, finding.rule) == ("blobs", "missing")
    assert finding.key == stated["output_payload_blob_ref"]


def test_an_answer_whose_bytes_were_changed_is_a_finding_and_not_replayed(shared):
    ledger, _, operations, stated = shared
    key = (stated["output_payload_blob_ref"],)
    with ledger.transaction() as transaction:
        transaction.tables.update(schema.blobs, key, {"content": b"forged"})
    assert [(finding.table, finding.rule) for finding in findings(ledger)] == [
        ("blobs", "bytes_changed")
    ]
    with ledger.view() as view:
        assert replay_one(view, operations[0], "record_only", IN_USE).difference is not None


@pytest.mark.spec("§6.4", "K18")
def test_what_a_model_answered_is_stated_by_the_orchestrator_alone(ledger):
    document = answered(create("said", "Note"))
    rejection = submit(ledger, document).rejection
    assert (rejection.check, rejection.reason_code, rejection.field) == (
        "V1",
        "envelope_actor_unauthorized",
        "recorded_model_outputs",
    )
    assert code_of(submit(ledger, document, submitter="orchestrator")) is None
