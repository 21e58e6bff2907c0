"""Fires of bindings on every store: five target kinds, one effect each, evidence (§13.5, §13.6)."""

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings.dispatch import TARGETS
from kernel.verify import verify
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.extractions.requests import request_extraction
from kernel.work.manifests import differences
from tests.kernel.binding_world import (
    CASE,
    EVENT,
    KINDS,
    ask,
    bound,
    disabled,
    furnish,
    handed_in,
    rebound,
    report,
    status,
    work,
)
from tests.kernel.build import accept, adapt, create, everything, ledger_on, receipts_of_kind


@pytest.fixture
def ledger(store) -> Ledger:
    ledger, _ = ledger_on(store)
    furnish(ledger, *(bound(kind, kind) for kind in KINDS))
    return ledger


def envelopes_since(ledger: Ledger, sequence: int):
    with ledger.view() as view:
        rows = view.log_rows(after=sequence, limit=100)
        return [view.envelope(row["operation_id"]) for row in rows]


def head(ledger: Ledger) -> int:
    with ledger.view() as view:
        return view.head().ec_sequence_number


def check(ledger: Ledger) -> None:
    with ledger.view() as view:
        assert verify(view).findings == ()


@pytest.mark.spec("INV-K-TARGET-1", "§13.5", "§15.4", "INV-K-MANIFEST-DURABLE-1")
@pytest.mark.parametrize("kind", KINDS)
def test_a_fire_is_one_effect_of_its_target_kind_its_record_and_the_manifest(ledger, kind):
    before = head(ledger)
    [request_id] = ask(ledger, kind)
    outcome, _ = work(ledger, request_id)
    assert outcome == "completed"
    *fires, record, manifest = envelopes_since(ledger, before)
    target = TARGETS[kind]
    assert [[effect["effect_kind"] for effect in fire["primitive_effects"]] for fire in fires] == (
        [] if kind == "extraction_task" else [[target.effect_kind]]
    )
    [stated] = record["primitive_effects"]
    assert (record["semantic_intent"], stated["effect_kind"]) == (
        "binding_fire_record",
        "receipt_only",
    )
    known = status(ledger, request_id)
    assert known.state == "completed"
    assert known.result is not None
    assert known.result["outcome_state"] == "succeeded"
    assert known.result["outcome_reason_code"] == "binding_fired"
    assert known.operation_id == (fires or [record])[0]["operation_id"]
    assert manifest["operation_kind"] == "binding_evaluation_manifest_emit"
    assert manifest["target_refs"] == [EVENT]
    assert manifest["source_refs"] == [kind]
    [body] = [effect["payload"] for effect in manifest["primitive_effects"]]
    assert stated["payload"]["manifest_id"] == body["manifest_id"]
    assert known.result["evaluation"]["manifest_id"] == body["manifest_id"]
    [named] = body["evaluations"]
    assert named["fire_record_operation_id"] == record["operation_id"]
    assert record["operation_id"] in manifest["causal_parent_operation_ids"]
    if fires:
        assert named["operation_id"] == fires[0]["operation_id"]
        assert fires[0]["operation_id"] in record["causal_parent_operation_ids"]
    with ledger.view() as view:
        assert differences(view, body) == []
    check(ledger)


@pytest.mark.spec("INV-K-TARGET-1")
def test_only_a_membership_makes_a_member(ledger):
    before = everything(ledger)["corpus_membership_records"]
    others = [kind for kind in KINDS if kind != "corpus_document_membership"]
    for request_id in ask(ledger, *others):
        work(ledger, request_id)
    assert everything(ledger)["corpus_membership_records"] == before
    [request_id] = ask(ledger, "corpus_document_membership")
    work(ledger, request_id)
    with ledger.view() as view:
        member = view.record(schema.corpus_membership_records, f"corpus:watched|{EVENT}")
    assert member is not None
    assert member["state"] == "candidate"
    check(ledger)


@pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")
def test_what_fires_make_is_evidence_and_nothing_is_decided(ledger):
    for request_id in ask(ledger, *KINDS):
        work(ledger, request_id)
    with ledger.view() as view:
        assert view.tables.count(TableQuery(schema.ruling_dispositions)) == 0
        observation = view.record(
            schema.court_disposition_observations, f"court-disposition:{EVENT}"
        )
        [row] = view.tables.scan(TableQuery(schema.filing_relationships))
        relationship = view.record(schema.filing_relationships, row["filing_relationship_id"])
        case = view.node(CASE)
    assert observation is not None
    assert observation["payload"]["lifecycle_state"] == "observed"
    assert observation["payload"]["disposition"] == "granted"
    assert relationship is not None
    assert relationship["payload"]["lifecycle_state"] == "candidate"
    assert relationship["payload"]["identity_confidence"] == 0.95
    assert case is not None
    assert case["payload"]["court_id"] == "azb"
    assert "In re X" in case["payload"]["caption"]
    check(ledger)


@pytest.mark.spec("§13.5")
def test_an_extraction_task_asks_for_its_extraction_in_the_same_transaction(ledger):
    [request_id] = ask(ledger, "extraction_task")
    work(ledger, request_id)
    with ledger.view() as view:
        [task] = view.open_requests(queue=EXTRACTION_QUEUE)
    content = task.document["content"]
    assert content["extraction_run_id"] == status(ledger, request_id).result["outcome_target_ref"]
    assert (content["source_ref"], content["corpus_id"]) == (EVENT, "corpus:watched")
    assert content["cause"] == "binding_fired"
    check(ledger)


@pytest.mark.spec("§13.5", "§16.2")
@pytest.mark.parametrize(
    ("understanding", "feeds"),
    [
        (create("u", "ConsolidatedUnderstanding"), "u"),
        (create("u", "Note"), None),
        (create("of-another-case", "ConsolidatedUnderstanding"), None),
    ],
)
def test_an_extraction_feeds_the_understanding_that_its_artifact_names(
    ledger, understanding, feeds
):
    accept(ledger, understanding, adapt(EVENT, understanding_id="u"))
    [request_id] = ask(ledger, "extraction_task")
    work(ledger, request_id)
    with ledger.view() as view:
        [task] = view.open_requests(queue=EXTRACTION_QUEUE)
    assert task.document["content"].get("understanding_id") == feeds
    check(ledger)


@pytest.mark.spec("§13.5", "INV-EXT-4")
def test_an_extraction_that_somebody_asked_for_is_the_one_that_a_fire_would_ask_for(ledger):
    with ledger.transaction() as transaction:
        requested = request_extraction(transaction, EVENT, corpus_id="corpus:watched")
    [request_id] = ask(ledger, "extraction_task")
    work(ledger, request_id)
    known = status(ledger, request_id).result
    assert known["outcome_reason_code"] == "binding_target_exists"
    assert known["outcome_target_ref"] == requested.extraction_run_id
    with ledger.view() as view:
        assert len(view.open_requests(queue=EXTRACTION_QUEUE)) == 1
    check(ledger)


@pytest.mark.spec("§13.5", "§10")
def test_of_an_artifact_without_a_text_that_can_be_read_no_extraction_is_asked_for(ledger):
    accept(ledger, create("bare", "SourceArtifact", content="not wrapped", source_kind="docket"))
    by_kind = {"include": [{"kind": "source_kind", "value": "docket"}]}
    accept(ledger, bound("of-bare", "extraction_task", selector_list=by_kind))
    [request_id] = ask(ledger, "of-bare", source_event_id="bare")
    work(ledger, request_id)
    known = status(ledger, request_id).result
    assert known["outcome_reason_code"] == "binding_target_incomplete"
    with ledger.view() as view:
        assert view.open_requests(queue=EXTRACTION_QUEUE) == []
    check(ledger)


@pytest.mark.spec("§13.5")
@pytest.mark.parametrize("kind", KINDS)
def test_what_exists_is_not_made_again(ledger, kind):
    [first] = ask(ledger, kind)
    work(ledger, first)
    accept(ledger, bound("again", kind))
    [second] = ask(ledger, "again")
    before = head(ledger)
    work(ledger, second)
    known = status(ledger, second)
    assert known.result["outcome_state"] == "deduplicated"
    assert known.result["outcome_reason_code"] == "binding_target_exists"
    assert known.result["outcome_target_ref"] == status(ledger, first).result["outcome_target_ref"]
    assert known.operation_id is None
    [manifest] = envelopes_since(ledger, before)
    assert manifest["operation_kind"] == "binding_evaluation_manifest_emit"
    check(ledger)


@pytest.mark.spec("§13.2", "§13.4")
@pytest.mark.parametrize(
    ("change", "reason", "state"),
    [
        (None, "binding_unknown", "abandoned"),
        (lambda: disabled("b"), "binding_disabled", "abandoned"),
        (lambda: rebound("b", 2, "extraction_task"), "binding_superseded", "abandoned"),
        (
            lambda: rebound(
                "b",
                2,
                "extraction_task",
                selector_list={"include": [{"kind": "court_id", "value": "ca9"}]},
            ),
            "binding_no_match",
            "succeeded",
        ),
    ],
)
def test_what_does_not_fire_says_why(ledger, change, reason, state):
    accept(ledger, bound("b", "extraction_task"))
    binding_id = "nobody" if change is None else "b"
    content = {"binding_generation_id": "1"} if reason == "binding_superseded" else {}
    [request_id] = ask(ledger, binding_id, **content)
    if change is not None:
        accept(ledger, change())
    before = head(ledger)
    work(ledger, request_id)
    known = status(ledger, request_id)
    assert (known.result["outcome_reason_code"], known.result["outcome_state"]) == (reason, state)
    [manifest] = envelopes_since(ledger, before)
    body = manifest["primitive_effects"][0]["payload"]
    with ledger.view() as view:
        assert differences(view, body) == []
    check(ledger)


def test_a_missing_artifact_is_an_outcome(ledger):
    [request_id] = ask(ledger, "extraction_task", source_event_id="e", artifact_ref="nowhere")
    work(ledger, request_id)
    assert status(ledger, request_id).result["outcome_reason_code"] == "binding_artifact_unknown"
    check(ledger)


@pytest.mark.spec("§13.7", "INV-K-MANIFEST-DURABLE-1")
def test_the_last_outcome_of_a_cycle_brings_its_manifest_and_the_next_cycle_has_its_own(ledger):
    first, second = ask(ledger, "extraction_task", "corpus_document_membership")
    work(ledger, first)
    assert receipts_of_kind(ledger, "binding_evaluation_manifest") == []
    work(ledger, second)
    [manifest] = receipts_of_kind(ledger, "binding_evaluation_manifest")
    assert [outcome["binding_id"] for outcome in manifest["binding_outcomes"]] == sorted(
        ["extraction_task", "corpus_document_membership"],
        key=lambda kind: {"extraction_task": first, "corpus_document_membership": second}[kind],
    )
    assert (manifest["cycle"], manifest["bindings_evaluated_count"]) == (1, 2)
    [third] = ask(ledger, "case_metadata_update")
    work(ledger, third)
    manifests = receipts_of_kind(ledger, "binding_evaluation_manifest")
    assert sorted(stated["cycle"] for stated in manifests) == [1, 2]
    with ledger.view() as view:
        assert view.tables.count(TableQuery(schema.binding_cycle_outcomes)) == 0
    check(ledger)


def test_a_second_delivery_fires_nothing(ledger):
    [request_id] = ask(ledger, "corpus_document_membership")
    stated = handed_in(ledger, request_id)
    report(ledger, stated)
    before = everything(ledger)
    assert report(ledger, stated) == ("closed", None)
    assert everything(ledger) == before
