"""Evidence is confirmed apart from it, by a person or by the safe path (INV-K-OUTCOME-1, §13.6)."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commit.review_units import (
    AdjudicateUnit,
    AutoConfirmUnit,
    DecideAsSeenUnit,
    DismissOutcomeUnit,
)
from actors.commit.rollback_units import RollbackOperationUnit
from actors.commit.work_units import RequestWorkUnit
from actors.errors import IntentInvalid
from actors.orchestrator.intents import Adjudicate
from kernel.audit.open_reviews import open_reviews
from kernel.audit.recent_decisions import recent_decisions
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import SubmissionResult
from kernel.records.reviews.errors import ReviewRefused
from kernel.records.reviews.evidence import IDENTITY_CONFIDENCE_MIN, Evidence, why_a_person_decides
from kernel.verify import verify
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from kernel.work.requests import WorkRequest
from tests.actors.harness import bench_on
from tests.actors.intents import put, source
from tests.evidence import SIGNED, UNSIGNED, candidate, observation, with_filings
from tests.kernel.build import accept, code_of, submit
from tests.kernel.every import DECIDED, own, ruling


@pytest.fixture
def ledger(own_ledger: Ledger) -> Ledger:
    return with_filings(own_ledger)


def do(ledger: Ledger, unit: Any) -> Any:
    with bench_on(ledger) as context:
        return unit.run(context)


def decide(ledger: Ledger, record_id: str = "r", decision: str = "confirm", **changes: Any) -> Any:
    stated = {
        "intent_key": f"{record_id}:{decision}",
        "kind": "relationship",
        "record_id": record_id,
        "decision": decision,
        "adjudicated_by": "A. Clerk",
        "grounds": "the order names document 5",
        "normalized_label": "rules_on",
    }
    return do(ledger, AdjudicateUnit(Adjudicate.model_validate(stated | changes)))


def state(ledger: Ledger, name: str = "r", table: Any = schema.filing_relationships) -> Any:
    with ledger.view() as view:
        record = view.record(table, name)
        return None if record is None else record["payload"].get("lifecycle_state")


def waiting(ledger: Ledger, kind: Any = "relationship") -> list[str]:
    with ledger.view() as view:
        return [item["record_id"] for item in open_reviews(view, kind).items]


def whole(ledger: Ledger) -> None:
    with ledger.view() as view:
        assert verify(view).findings == ()


# --- a person decides -----------------------------------------------------------------------------


@pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")
def test_a_person_confirms_a_candidate_with_its_provenance(ledger: Ledger) -> None:
    accept(ledger, candidate(ledger))
    assert waiting(ledger) == ["r"]
    result = decide(ledger)
    assert isinstance(result, SubmissionResult), result
    with ledger.view() as view:
        payload = view.record(schema.filing_relationships, "r")["payload"]
        envelope = view.envelope(result.operation_id)
    assert payload["lifecycle_state"] == "confirmed"
    assert payload["normalized_label"] == "rules_on"
    assert payload["adjudication"] == {
        "adjudicated_by": "A. Clerk",
        "grounds": "the order names document 5",
        "basis": "user_confirmation",
    }
    assert (envelope["actor"], envelope["source_refs"]) == ("user", ["order"])
    assert waiting(ledger) == []
    do(ledger, RollbackOperationUnit(result.operation_id))
    assert waiting(ledger) == ["r"]
    whole(ledger)


@pytest.mark.spec("INV-K-OUTCOME-1", "K6")
def test_the_same_decision_is_taken_once(ledger: Ledger) -> None:
    accept(ledger, candidate(ledger))
    first, again = decide(ledger), decide(ledger)
    assert again == first
    assert again.duplicate
    assert decide(ledger, decision="reject").rejection.reason_code == "outcome_evidence_missing"
    with pytest.raises(IntentInvalid):
        decide(ledger, "nobody")


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_a_person_rejects_evidence_and_it_stays_on_the_record(ledger: Ledger) -> None:
    accept(ledger, candidate(ledger), observation(ledger))
    decide(ledger, decision="reject", normalized_label=None)
    decide(ledger, "o", "reject", kind="observation", normalized_label=None)
    assert state(ledger) == "rejected"
    assert state(ledger, "o", schema.court_disposition_observations) == "withdrawn"
    assert waiting(ledger) == waiting(ledger, "observation") == []
    whole(ledger)


@pytest.mark.spec("INV-K-OUTCOME-1", "§4.3.18")
def test_a_confirmed_observation_that_says_what_it_is_about_becomes_a_ruling(
    ledger: Ledger,
) -> None:
    accept(ledger, observation(ledger))
    scope = {"kind": "observation", "scope_targets": ["motion"], "normalized_label": "granted"}
    result = decide(ledger, "o", **scope)
    assert isinstance(result, SubmissionResult), result
    with ledger.view() as view:
        payload = view.record(schema.ruling_dispositions, "ruling:o")["payload"]
        [row] = [row for row in view.log_rows() if row["operation_id"] == result.operation_id]
    assert row["semantic_intent"] == "ruling_disposition_write"
    assert payload["primary_source_citation"] == {"court_disposition_observation_id": "o"}
    assert (payload["scope_targets"], payload["normalized_label"]) == (["motion"], "granted")
    assert state(ledger, "o", schema.court_disposition_observations) == "confirmed"
    do(ledger, RollbackOperationUnit(result.operation_id))
    assert waiting(ledger, "observation") == ["o"]
    whole(ledger)


# --- what the kernel refuses ----------------------------------------------------------------------

CONFIRMED = {
    "lifecycle_state": "confirmed",
    "normalized_label": "rules_on",
    "adjudication": DECIDED,
}


@pytest.mark.spec("INV-K-OUTCOME-1")
@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({}, None, None),
        ({"normalized_label": None}, "outcome_label_missing", "normalized_label"),
        ({"normalized_label": " "}, "outcome_label_missing", "normalized_label"),
        ({"adjudication": None}, "outcome_adjudication_missing", "adjudication.adjudicated_by"),
        (
            {"adjudication": DECIDED | {"grounds": ""}},
            "outcome_adjudication_missing",
            "adjudication.grounds",
        ),
        (
            {"adjudication": DECIDED | {"basis": "auto_confirmation"}},
            "outcome_confirmation_required",
            "adjudication.basis",
        ),
        ({"target_filing_unit_id": "other"}, "outcome_evidence_missing", "lifecycle_state"),
        ({"identity_confidence": 1.0}, "outcome_evidence_missing", "lifecycle_state"),
        ({"lifecycle_state": None}, None, None),
    ],
)
def test_a_confirmation_that_lacks_what_it_needs_is_refused(
    ledger: Ledger, changes: dict[str, Any], code: str | None, field: str | None
) -> None:
    accept(ledger, candidate(ledger))
    result = submit(ledger, candidate(ledger, **CONFIRMED | changes))
    assert code_of(result) == code
    if code is not None:
        assert result.rejection.check == "V6"
        assert result.rejection.field == f"primitive_effects.0.payload.{field}"
        assert state(ledger) == "candidate"


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_a_relationship_without_its_filing_or_its_source_is_not_confirmed(ledger: Ledger) -> None:
    until = {"target_filing_unit_id": None, "unmatched_expires_at": "2026-03-01T00:00:00Z"}
    accept(ledger, candidate(ledger, "u", **until), candidate(ledger, "s", source_refs=None))
    unmatched = submit(ledger, candidate(ledger, "u", **until | CONFIRMED))
    assert code_of(unmatched) == "outcome_citation_missing"
    assert isinstance(decide(ledger, "s"), SubmissionResult)
    do_over = candidate(ledger, "s-2", source_refs=None)
    accept(ledger, do_over)
    unproved = submit(ledger, candidate(ledger, "s-2", source_refs=None, **CONFIRMED))
    assert code_of(unproved) == "outcome_provenance_missing"


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_evidence_is_not_confirmed_by_the_operation_that_writes_it(ledger: Ledger) -> None:
    assert code_of(submit(ledger, candidate(ledger, **CONFIRMED))) == "outcome_evidence_missing"
    both = candidate(ledger)
    second = candidate(ledger, **CONFIRMED)["primitive_effects"][0] | {"effect_id": "second"}
    both["primitive_effects"].append(second)
    assert code_of(submit(ledger, both)) == "outcome_evidence_missing"
    assert state(ledger) is None


@pytest.mark.spec("INV-K-OUTCOME-1")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"primary_source_citation": {"court_order_ref": "order"}}, None),
        ({"primary_source_citation": None}, "outcome_citation_missing"),
        ({"primary_source_citation": {}}, "outcome_citation_missing"),
        ({"primary_source_citation": {"court_order_ref": "motion"}}, "outcome_citation_missing"),
        (
            {
                "primary_source_citation": {
                    "court_order_ref": "order",
                    "court_disposition_observation_id": "seen",
                }
            },
            "outcome_citation_missing",
        ),
        (
            {"primary_source_citation": {"court_disposition_observation_id": "gone"}},
            "outcome_citation_missing",
        ),
        ({"normalized_label": None}, "outcome_label_missing"),
        ({"adjudication": None}, "outcome_adjudication_missing"),
    ],
)
def test_a_ruling_has_its_primary_source_its_label_and_who_decided(
    ledger: Ledger, changes: dict[str, Any], code: str | None
) -> None:
    accept(ledger, observation(ledger, "seen"))
    assert code_of(submit(ledger, ruling(targets=("motion",), **changes))) == code


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_an_observation_that_was_withdrawn_is_cited_by_no_ruling(ledger: Ledger) -> None:
    accept(ledger, observation(ledger, "seen"))
    decide(ledger, "seen", "reject", kind="observation")
    assert code_of(submit(ledger, ruling(targets=("motion",)))) == "outcome_citation_missing"


# --- the safe path --------------------------------------------------------------------------------


@pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")
@given(
    st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.95, 0.9499]),
    st.booleans(),
    st.lists(st.text(min_size=1, max_size=3), max_size=2),
)
def test_the_safe_path_is_open_where_all_three_hold_and_nowhere_else(
    confidence: float | None,
    is_signed: bool,  # noqa: FBT001 - drawn
    contested: list[str],
) -> None:
    evidence = Evidence(confidence, "s" if is_signed else None, "words", tuple(contested))
    is_sure = confidence is not None and IDENTITY_CONFIDENCE_MIN <= confidence <= 1
    expected = is_sure and is_signed and not contested
    assert (why_a_person_decides(evidence) is None) == expected


@pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")
def test_the_safe_path_confirms_by_an_operation_that_names_the_evidence(ledger: Ledger) -> None:
    fired = accept(ledger, candidate(ledger))
    result = do(ledger, AutoConfirmUnit("relationship", "r"))
    assert isinstance(result, SubmissionResult), result
    assert result.operation_id != fired
    with ledger.view() as view:
        payload = view.record(schema.filing_relationships, "r")["payload"]
        envelope = view.envelope(result.operation_id)
    assert envelope["actor"] == "system"
    assert fired in envelope["causal_parent_operation_ids"]
    assert payload["adjudication"]["basis"] == "auto_confirmation"
    assert payload["adjudication"]["evidence"] == {
        "identity_confidence": 0.96,
        "signed_source_ref": "order",
        "signature": "Signed by Judge A. Roe on 3/4/2021.",
        "contested_by": [],
    }
    assert waiting(ledger) == []
    assert do(ledger, AutoConfirmUnit("relationship", "r")) == "not_open"
    whole(ledger)


KEPT_BACK = {
    "no confidence": ({"identity_confidence": None}, "identity_confidence_unstated"),
    "too little": ({"identity_confidence": 0.94}, "identity_confidence_below_threshold"),
    "not signed": ({"artifact": "draft"}, "source_not_signed"),
    "it says so itself": ({"contested_signals": ["two motions"]}, "contested"),
}


@pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")
@pytest.mark.parametrize("case", KEPT_BACK)
def test_what_is_not_safe_waits_for_a_person(ledger: Ledger, case: str) -> None:
    changes, reason = KEPT_BACK[case]
    accept(ledger, candidate(ledger, **changes))
    assert do(ledger, AutoConfirmUnit("relationship", "r")) == reason
    assert state(ledger) == "candidate"
    with ledger.view() as view:
        [item] = open_reviews(view, "relationship").items
    assert item["reason"] == reason
    # Whoever else writes the confirmation is refused as well.
    forced = candidate(ledger, **changes, **CONFIRMED | {"adjudication": BY_RULE})
    result = submit(ledger, forced | {"actor": "system"}, submitter="orchestrator")
    assert code_of(result) == "outcome_confirmation_required"
    assert reason in result.rejection.message


BY_RULE = DECIDED | {"basis": "auto_confirmation"}


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_two_candidates_of_one_artifact_for_different_filings_contest_each_other(
    ledger: Ledger,
) -> None:
    accept(ledger, candidate(ledger), candidate(ledger, "rival", target_filing_unit_id="other"))
    assert do(ledger, AutoConfirmUnit("relationship", "r")) == "contested"
    decide(ledger, "rival", "reject")
    assert isinstance(do(ledger, AutoConfirmUnit("relationship", "r")), SubmissionResult)


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_a_source_that_is_contradicted_or_taken_back_confirms_nothing(ledger: Ledger) -> None:
    accept(ledger, candidate(ledger))
    ends = {"source_node_id": "draft", "target_node_id": "order", "edge_type": "contradicts"}
    accept(ledger, own("edge_write", "against", **ends))
    assert do(ledger, AutoConfirmUnit("relationship", "r")) == "contested"
    accept(ledger, own("quarantine", "order", quarantine_reason="doubtful"))
    assert do(ledger, AutoConfirmUnit("relationship", "r")) == "source_not_signed"


@pytest.mark.spec("INV-K-OUTCOME-1")
@pytest.mark.parametrize(
    ("text", "kind", "is_signed"),
    [
        (SIGNED, "observation", True),
        ("Signed by Magistrate Judge Doe", "observation", True),
        ("MOTION to Dismiss. /s/ B. Doe", "observation", False),
        ("MOTION to Dismiss. /s/ B. Doe", "relationship", True),
        ("The paper was not Signed by the parties", "relationship", False),
        ("signed by judge", "relationship", False),
        (UNSIGNED, "relationship", False),
    ],
)
def test_a_source_is_signed_where_its_own_words_say_by_whom(
    ledger: Ledger,
    text: str,
    kind: str,
    is_signed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    put(ledger, source("paper", text))
    make = candidate if kind == "relationship" else observation
    accept(ledger, make(ledger, "x", "paper", identity_confidence=0.99))
    result = do(ledger, AutoConfirmUnit(kind, "x"))  # type: ignore[arg-type]
    assert result == "source_not_signed" if not is_signed else isinstance(result, SubmissionResult)


@pytest.mark.spec("INV-K-OUTCOME-1")
def test_nobody_but_a_person_rejects_or_rules_without_an_observation(ledger: Ledger) -> None:
    accept(ledger, candidate(ledger))
    rejected = candidate(ledger, lifecycle_state="rejected", adjudication=BY_RULE)
    order = {"primary_source_citation": {"court_order_ref": "order"}}
    for document in (rejected, ruling(targets=("motion",), adjudication=BY_RULE, **order)):
        result = submit(ledger, document | {"actor": "system"}, submitter="orchestrator")
        assert code_of(result) == "outcome_confirmation_required"


# --- the queue ------------------------------------------------------------------------------------


@pytest.mark.spec("§13.6")
def test_pages_of_any_length_show_everything_once_in_one_order(ledger: Ledger) -> None:
    names = [f"r-{number:02}" for number in range(12)]
    for name in reversed(names):
        accept(ledger, candidate(ledger, name))
    decide(ledger, "r-05")
    expected = [name for name in names if name != "r-05"]
    for limit in (1, 3, 100):
        shown: list[str] = []
        after: str | None = ""
        while after is not None:
            with ledger.view() as view:
                page = open_reviews(view, "relationship", after=after, limit=limit)
            shown += [item["record_id"] for item in page.items]
            after = page.next_after
        assert shown == expected


_requests = itertools.count()


@pytest.mark.spec("§13.5", "§13.6")
def test_an_outcome_that_a_person_has_to_look_at_waits_until_it_is_settled(ledger: Ledger) -> None:
    for outcome_state in ("succeeded", "user_review_required"):
        number = next(_requests)
        content = {
            "binding_id": "b",
            "source_event_id": f"e-{number}",
            "target_kind": "relationship_candidate",
        }
        request = WorkRequest(BINDING_QUEUE, f"k-{number}", content)
        [recorded] = do(ledger, RequestWorkUnit([request]))
        result = {"outcome_state": outcome_state, "outcome_reason_code": "binding_case_unknown"}
        with ledger.transaction() as transaction:
            close(transaction, recorded.request_id, "completed", result=result)
    with ledger.view() as view:
        [item] = open_reviews(view, "outcome").items
    assert (item["reason"], item["kind"]) == ("binding_case_unknown", "outcome")
    settled = do(ledger, DismissOutcomeUnit(item["record_id"], "the case is entered now"))
    assert isinstance(settled, SubmissionResult), settled
    assert waiting(ledger, "outcome") == []
    with ledger.view() as view:
        # A page reads what waits, so that nothing of what was settled costs it anything.
        assert view.tables.count(TableQuery(schema.outcomes_to_review)) == 0
    again = do(ledger, DismissOutcomeUnit("receipt:nobody's", "x"))
    assert again.rejection.reason_code == "envelope_adjudication_unknown"
    whole(ledger)


@pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")
def test_what_is_confirmed_is_no_candidate_again(ledger: Ledger) -> None:
    accept(ledger, candidate(ledger))
    decide(ledger)
    assert state(ledger) == "confirmed"
    assert code_of(submit(ledger, candidate(ledger))) == "filing_relationship_transition_disallowed"
    assert state(ledger) == "confirmed"


def decide_as_seen(ledger: Ledger, seen: str, by: str, decision: str = "confirm") -> Any:
    stated = {
        "intent_key": f"{seen}:{decision}",
        "kind": "observation",
        "record_id": "o",
        "decision": decision,
        "adjudicated_by": by,
        "grounds": f"{by} has read it",
    }
    return do(ledger, DecideAsSeenUnit(Adjudicate.model_validate(stated), seen))


@pytest.mark.spec("§13.6")
def test_what_others_decided_meanwhile_is_said_and_not_written_over(ledger: Ledger) -> None:
    accept(ledger, observation(ledger))
    with ledger.view() as view:
        seen = open_reviews(view, "observation").items[0]["written_by_operation_id"]
    assert isinstance(decide_as_seen(ledger, seen, "ada"), SubmissionResult)
    with ledger.view() as view:
        record = view.record(schema.court_disposition_observations, "o")
    assert record is not None
    # A confirmation without a label confirms what was read.
    assert record["payload"]["normalized_label"] == "granted"
    for decision in ("confirm", "reject"):
        with pytest.raises(ReviewRefused, match="by ada: ada has read it") as refused:
            decide_as_seen(ledger, seen, "bea", decision)
        assert refused.value.code == "review_decided_meanwhile"
    assert state(ledger, "o", schema.court_disposition_observations) == "confirmed"
    with ledger.view() as view:
        [decision] = recent_decisions(view)["decisions"]
    said = ("kind", "record_id", "decision", "decided_by", "grounds", "undone_by_operation_id")
    assert [decision[name] for name in said] == [  # type: ignore[literal-required]
        *("observation", "o", "confirmed", "ada", "ada has read it", None)
    ]
    whole(ledger)


@pytest.mark.spec("§13.6")
def test_what_was_written_anew_is_looked_at_again(ledger: Ledger) -> None:
    accept(ledger, observation(ledger))
    with ledger.view() as view:
        seen = open_reviews(view, "observation").items[0]["written_by_operation_id"]
    accept(ledger, observation(ledger, disposition="denied"))
    with pytest.raises(ReviewRefused, match="look at it again"):
        decide_as_seen(ledger, seen, "ada")
    assert waiting(ledger, "observation") == ["o"]
