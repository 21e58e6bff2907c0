"""Manifests: evaluated again from themselves, one a cycle, with what was put off (§14, §15)."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.audit.manifests import ManifestUnknown, manifest_of_cycle, manifests_of
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.records.dates import UNKNOWN_ZONE
from kernel.replay.judgement import replay_one
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from kernel.work.manifests import differences
from kernel.work.reports import BindingSuspended, CapacityRejected
from tests.kernel.attempts import given_up
from tests.kernel.binding_world import (
    EVENT,
    KINDS,
    ask,
    bound,
    disabled,
    furnish,
    rebound,
    report,
    status,
    work,
)
from tests.kernel.build import (
    accept,
    code_of,
    envelope,
    memory_ledger,
    receipts_of_kind,
    submit,
)
from tests.kernel.every import own, receipt

SIGNAL = {"ec_capacity_lease_state": "none", "queue_depth": 1, "inflight_operations": 2}


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    furnish(ledger, *(bound(kind, kind) for kind in KINDS))
    return ledger


def manifests(ledger):
    with ledger.view() as view:
        return [shown.body for shown in manifests_of(view, EVENT).manifests]


CHANGES = {
    "another reason": lambda body: body["binding_outcomes"][0].update(
        outcome_reason_code="binding_no_match"
    ),
    "another state": lambda body: body["binding_outcomes"][0].update(outcome_state="abandoned"),
    "another target": lambda body: body["binding_outcomes"][0].update(outcome_target_ref="x"),
    "other fields": lambda body: body["artifacts"][0]["fields"].update(court_id="ca9"),
    "no fields": lambda body: body["artifacts"].clear(),
    "another standing": lambda body: body["evaluations"][0]["evaluated_on"].update(
        standing="running"
    ),
    "another snapshot": lambda body: body["binding_generations"][0][
        "binding_snapshot_at_eval"
    ].update(sha256="0" * 64),
    "a further outcome": lambda body: body["binding_outcomes"].append(
        body["binding_outcomes"][0] | {"outcome_id": "another"}
    ),
    "a garbled standing": lambda body: body["evaluations"][0]["evaluated_on"].update(
        standing="nonsense"
    ),
}


@pytest.mark.spec("§15.3", "INV-K-MANIFEST-DURABLE-1")
@pytest.mark.parametrize("name", CHANGES)
def test_what_comes_out_otherwise_is_named(ledger, name):
    [request_id] = ask(ledger, "extraction_task")
    work(ledger, request_id)
    [body] = manifests(ledger)
    changed = copy.deepcopy(body)
    CHANGES[name](changed)
    with ledger.view() as view:
        assert differences(view, body) == []
        assert differences(view, changed) != []


@pytest.mark.spec("§15.3")
def test_a_manifest_is_replayed_after_its_bindings_and_artifacts_have_changed(ledger):
    for request_id in ask(ledger, *KINDS):
        work(ledger, request_id)
    for kind in KINDS:
        accept(ledger, rebound(kind, 2, kind, corpus_id="elsewhere"), disabled(kind))
    with ledger.view() as view:
        shown = manifest_of_cycle(view, EVENT, 1)
        assert differences(view, shown.body) == []
        verdict = replay_one(view, shown.operation_id, "record_only", ActiveModels({}))
    assert verdict.output_reproduced


@pytest.mark.spec("§14.3", "§13.7")
def test_what_is_suspended_is_pending_in_its_cycle_once_and_concluded_in_a_later_one(ledger):
    waits, ends = ask(ledger, "extraction_task", "corpus_document_membership")
    for _ in range(2):
        assert report(ledger, BindingSuspended(request_id=waits)) == ("recorded", None)
    work(ledger, ends)
    report(ledger, BindingSuspended(request_id=waits))
    [first] = manifests(ledger)
    assert (first["bindings_suspended_count"], first["bindings_evaluated_count"]) == (1, 1)
    states = {outcome["binding_id"]: outcome for outcome in first["binding_outcomes"]}
    assert states["extraction_task"]["outcome_state"] == "pending"
    reason = states["extraction_task"]["outcome_reason_code"]
    assert reason == "binding_suspended_capacity_pressure"
    work(ledger, waits)
    _, second = manifests(ledger)
    assert [outcome["outcome_state"] for outcome in second["binding_outcomes"]] == ["succeeded"]
    assert status(ledger, waits).state == "completed"
    with ledger.view() as view:
        assert verify(view).findings == ()


@pytest.mark.spec("§14.5", "§14.3")
def test_a_rejection_for_capacity_is_in_the_manifest_of_its_cycle(ledger):
    [request_id] = ask(ledger, "extraction_task")
    rejected = CapacityRejected(request_id=request_id, capacity_signal_at_rejection=SIGNAL)
    report(ledger, rejected)
    [first] = manifests(ledger)
    assert [outcome["outcome_reason_code"] for outcome in first["binding_outcomes"]] == [
        "capacity_rejected_mid_evaluation"
    ]
    assert len(receipts_of_kind(ledger, "binding_fire_capacity_rejected")) == 1
    work(ledger, request_id)
    assert [body["cycle"] for body in manifests(ledger)] == [1, 2]


SAME_DAY = {
    "docket_entry_date_utc": "2010-02-09T12:00:00Z",
    "docket_entry_date_originating_tz": UNKNOWN_ZONE,
    "docket_entry_date_originating_calendar_date": "2010-02-09",
}
FIRST = {"conflict_class": "field_value_disagree", "resolution_strategy": "first_writer_wins"}
REVIEW = {"conflict_class": "cardinality_conflict", "resolution_strategy": "user_review_required"}


@pytest.mark.spec("§15.1", "§15.5", "§15.6")
@pytest.mark.parametrize(
    ("stated", "outcome_state", "conflicts"),
    [
        (SAME_DAY | {"docket_entry_ref": EVENT}, "policy_blocked", [FIRST]),
        (SAME_DAY, "user_review_required", [FIRST, REVIEW]),
    ],
    ids=["first writer", "review"],
)
def test_a_fire_in_conflict_is_refused_and_every_class_of_conflict_is_in_the_manifest(
    ledger, stated, outcome_state, conflicts
):
    """Somebody who had not seen the fire has just written what it writes."""
    kind = "court_disposition_observation"
    said = {"disposition": "denied", "lifecycle_state": "observed", **stated}
    before = own("court_disposition_observation_write", f"court-disposition:{EVENT}", **said)
    accept(ledger, before)
    [request_id] = ask(ledger, kind)
    work(ledger, request_id)
    [manifest] = manifests(ledger)
    assert [each["outcome_state"] for each in manifest["binding_outcomes"]] == [outcome_state]
    assert manifest["semantic_conflicts"] == [
        conflict | {"affected_bindings": [kind]} for conflict in conflicts
    ]
    assert receipts_of_kind(ledger, "binding_fire_record") == []
    with ledger.view() as view:
        assert differences(view, manifest) == []
        assert verify(view).findings == ()


@pytest.mark.spec("§15.6")
def test_a_cycle_without_a_conflict_states_none(ledger):
    [request_id] = ask(ledger, "court_disposition_observation")
    work(ledger, request_id)
    [manifest] = manifests(ledger)
    assert manifest["semantic_conflicts"] == []


@pytest.mark.spec("§14.1", "V4-AT-26-FANOUT")
def test_a_cycle_has_fifty_outcomes_and_the_rest_their_own_manifest():
    ledger = memory_ledger()
    names = [f"b-{number}" for number in range(63)]
    furnish(ledger, *(bound(name, "extraction_task") for name in names))
    requests = ask(ledger, *names)
    for request_id in requests:
        work(ledger, request_id)
    first, second = manifests(ledger)
    counts = [
        (len(body["binding_outcomes"]), body["bindings_deferred_count"]) for body in (first, second)
    ]
    assert counts == [(50, 13), (13, 0)]
    assert (first["fan_out_cap"], "deferred_evaluation_at" in first) == (50, True)
    assert "deferred_evaluation_at" not in second
    outcomes = [
        outcome["outcome_id"] for body in (first, second) for outcome in body["binding_outcomes"]
    ]
    assert sorted(outcomes) == sorted(f"outcome:{request_id}" for request_id in requests)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "work", "suspend", "reject", "give up", "disable", "change"]),
        st.sampled_from(["extraction_task", "corpus_document_membership", "case_metadata_update"]),
    ),
    max_size=14,
)


@pytest.mark.spec("INV-K-MANIFEST-DURABLE-1", "§15.6")
@settings(max_examples=settings().max_examples // 3)
@given(STEPS)
def test_whatever_happens_each_binding_has_one_final_outcome_and_each_cycle_one_manifest(steps):
    ledger = memory_ledger()
    kinds = ["extraction_task", "corpus_document_membership", "case_metadata_update"]
    furnish(ledger, *(bound(kind, kind) for kind in kinds))
    requests, changes = {}, dict.fromkeys(kinds, 1)
    for step, kind in steps:
        if step == "ask":
            [requests[kind]] = ask(ledger, kind)
        elif step == "disable":
            accept(ledger, disabled(kind))
        elif step == "change":
            changes[kind] += 1
            accept(ledger, rebound(kind, changes[kind], kind))
        elif kind in requests and status(ledger, requests[kind]).state == "open":
            act(ledger, step, requests[kind])
    for request_id in requests.values():
        if status(ledger, request_id).state == "open":
            work(ledger, request_id)
    with ledger.view() as view:
        assert verify(view).findings == ()
        assert view.tables.count(TableQuery(schema.binding_cycle_outcomes)) == 0
        bodies = []
        if requests:
            bodies = [shown.body for shown in manifests_of(view, EVENT).manifests]
        assert all(differences(view, body) == [] for body in bodies)
    assert [body["cycle"] for body in bodies] == list(range(1, len(bodies) + 1))
    final = [
        outcome["outcome_id"]
        for body in bodies
        for outcome in body["binding_outcomes"]
        if outcome["outcome_state"] != "pending"
    ]
    assert sorted(final) == sorted(f"outcome:{request_id}" for request_id in requests.values())


def act(ledger, step, request_id):
    """Do one thing of a worker's with an open request."""
    if step == "work":
        work(ledger, request_id)
    elif step == "suspend":
        report(ledger, BindingSuspended(request_id=request_id))
    elif step == "reject":
        stated = CapacityRejected(request_id=request_id, capacity_signal_at_rejection=SIGNAL)
        report(ledger, stated)
    else:
        report(ledger, given_up(request_id=request_id, error_signature="broken"))


def test_an_event_without_a_manifest_is_an_error_that_says_so(ledger):
    with ledger.view() as view, pytest.raises(ManifestUnknown) as refused:
        manifests_of(view, "nobody")
    assert refused.value.code == "binding_manifest_unknown"
    [request_id] = ask(ledger, "extraction_task")
    work(ledger, request_id)
    with ledger.view() as view, pytest.raises(ManifestUnknown):
        manifest_of_cycle(view, EVENT, 2)


@pytest.mark.parametrize(
    ("cycle", "code"),
    [(3, "binding_manifest_cycle_not_next"), ("first", "receipt_body_invalid")],
)
def test_a_manifest_is_of_the_cycle_in_which_its_event_is(ledger, cycle, code):
    [request_id] = ask(ledger, "extraction_task")
    work(ledger, request_id)
    [manifest] = manifests(ledger)
    stated = receipt(**manifest | {"cycle": cycle, "manifest_id": "again"})
    document = envelope(
        "binding_fire_record", [stated | {"receipt_subkind": "binding_evaluation_manifest"}]
    )
    document["operation_kind"] = "binding_evaluation_manifest_emit"
    result = submit(ledger, document | {"actor": "system"}, submitter="orchestrator")
    assert (code_of(result), result.rejection.field) == (code, "payload.cycle")
    assert manifests(ledger) == [manifest]
