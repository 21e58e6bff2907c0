"""A docket's plan is the same every time, and every span in it points at the words it names."""

from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.dockets.dockets_for_tests import raw_docket, raw_entry, read_one
from tests.workers.dockets.rule_examples import EXAMPLES
from workers.dockets.plan import (
    CreateUnderstanding,
    DocketPlan,
    PlannedCaption,
    PlannedCase,
    PlannedClaim,
    PlannedPhase,
    PlannedSource,
    PlannedSuccession,
    Strike,
    plan_docket,
)
from workers.dockets.postures import UNIVERSE_VERSION, universe
from workers.dockets.reader import Docket, read_dockets

PHASES = [PlannedPhase] * 3
PETITION = raw_entry("Chapter 7 Voluntary Petition . Fee $299. Filed by Widgets, Inc.")
DISMISSAL = raw_entry("ORDER Dismissing Case Debtor. (xx)", date_filed="2020-03-01")
SEALED = raw_entry("(FILED UNDER SEAL) Exhibit to Motion", date_filed="2020-02-01")


def check(plan: DocketPlan, docket: Docket) -> None:
    """Whatever the docket, its plan holds together."""
    texts = {
        f"docket-entry:{docket.source_id}#{entry.position}": entry.description
        for entry in docket.entries
    }
    created: set[str] = set()
    for step in plan.steps():
        match step:
            case PlannedCase():
                assert step.case_ref.startswith(f"{docket.court_id}:")
            case PlannedCaption():
                assert docket.case_name in step.text
                created.add(step.node_id)
            case PlannedPhase():
                assert step.artifact_ref in created
            case PlannedSource():
                assert step.preceding_entry is None or step.preceding_entry in created
                assert texts[step.node_id] == step.description
                created.add(step.node_id)
            case CreateUnderstanding():
                assert step.node_id not in created
                (span,) = step.source_spans
                assert span.source_ref in created
                assert 0 <= span.offset < span.offset + span.length <= len(texts[span.source_ref])
                created.add(step.node_id)
            case PlannedClaim():
                assert {step.source_node_id, step.understanding_node_id} <= created
                assert step.span.of(texts[step.source_node_id]) == step.text
                created.add(step.node_id)
            case PlannedSuccession():
                assert step.cause.source_node_id in created
                assert set(step.undone).isdisjoint(name for _, name in step.carried)
            case Strike():
                source = step.justification.source_node_id
                assert source in created
                assert step.justification.span.of(texts[source]).strip()
                assert set(step.eliminated) <= set(plan.declare.hypotheses)
    keys = [plan.declare.intent_key, *(step.intent_key for step in plan.steps())]
    assert len(set(keys)) == len(keys)
    observations = [step.observation_id for step in plan.steps() if isinstance(step, Strike)]
    assert len(set(observations)) == len(observations)


def test_a_plan_declares_the_postures_of_its_court():
    docket = read_one(raw_docket())
    plan = plan_docket(docket)
    assert plan.declare.session_id == plan.session_id
    assert plan.declare.hypotheses == universe("bankruptcy")
    assert plan.declare.ontology == {
        "hypothesis_space_id": "case-postures/bankruptcy",
        "hypothesis_version": UNIVERSE_VERSION,
        "causal_graph_ref": "none",
        "causal_graph_version": "0",
    }
    assert plan.declare.metadata == {
        "source_id": "test/one",
        "docket_number": "20-10001",
        "court_id": "tstb",
        "case_name": "Invented Widgets, Inc.",
    }
    assert plan.entries == ()


def test_an_entry_becomes_source_then_understanding_then_claim_then_strikes():
    plan = plan_docket(read_one(raw_docket([DISMISSAL, PETITION])))
    assert [entry.position for entry in plan.entries] == [1, 0]
    assert [[type(step) for step in entry.steps] for entry in plan.entries] == [
        [PlannedSource, CreateUnderstanding, PlannedClaim, *PHASES, Strike],
        [PlannedSource, PlannedClaim, *PHASES, Strike],
    ]
    assert [type(step) for step in plan.opening] == [PlannedCase, PlannedCaption, *PHASES]


def test_the_ids_can_be_read():
    plan = plan_docket(read_one(raw_docket([DISMISSAL])))
    [entry] = plan.entries
    source, understanding, claim, *_, strike = entry.steps
    assert isinstance(source, PlannedSource)
    assert source.node_id == "docket-entry:test/one#0"
    assert isinstance(understanding, CreateUnderstanding)
    assert understanding.node_id == "understanding:test/one"
    assert isinstance(claim, PlannedClaim)
    assert claim.node_id == "claim:test/one#0"
    assert (claim.text, claim.essentiality, claim.authority) == (
        "ORDER Dismissing Case Debtor.",
        "core",
        0.95,
    )
    assert isinstance(strike, Strike)
    assert (strike.source_id, strike.observation_id) == ("test/one", "test/one#0:case_dismissed")
    assert strike.justification.span.of(source.description) == "ORDER Dismissing Case"
    assert "ended_by_dismissal" not in strike.eliminated


@pytest.mark.spec("§13.3")
def test_every_phase_of_an_entry_finds_its_fields():
    [entry] = plan_docket(read_one(raw_docket([DISMISSAL]))).entries
    phases = {step.phase: step.fields for step in entry.steps if isinstance(step, PlannedPhase)}
    assert phases == {
        "post_doc25_conversion": {"content_type": "docket_entry/minute_order"},
        "post_group_o_normalization": {
            "filing_unit_kind": "order",
            "filing_role": "disposing",
            "legal_profile_kind": "bankruptcy",
        },
        "post_relationship_resolution": {"case_ref": "tstb:20-10001", "court_id": "tstb"},
    }


def test_an_entry_names_the_one_that_was_filed_before_it():
    plan = plan_docket(read_one(raw_docket([DISMISSAL, None, PETITION])))
    sources = [step for step in plan.steps() if isinstance(step, PlannedSource)]
    assert [(source.node_id, source.preceding_entry) for source in sources] == [
        ("docket-entry:test/one#2", None),
        ("docket-entry:test/one#0", "docket-entry:test/one#2"),
    ]


def test_a_sealed_entry_is_sealed_as_source_and_as_claim():
    plan = plan_docket(read_one(raw_docket([PETITION, SEALED])))
    classes = [
        step.visibility_class
        for step in plan.steps()
        if isinstance(step, PlannedSource | PlannedClaim)
    ]
    assert classes == ["public_open", "public_open", "sealed", "sealed"]


def test_two_equal_entries_are_two_sources():
    docket = read_one(raw_docket([PETITION, PETITION]))
    plan = plan_docket(docket)
    check(plan, docket)
    assert len({entry.node_id for entry in plan.entries}) == 2


def test_a_changed_entry_keeps_its_node_and_changes_its_intent():
    first, second = (
        plan_docket(read_one(raw_docket([raw_entry(text)]))).entries[0].steps[0]
        for text in ("Order one", "Order two")
    )
    assert isinstance(first, PlannedSource)
    assert isinstance(second, PlannedSource)
    assert first.node_id == second.node_id
    assert first.intent_key != second.intent_key


def test_dockets_of_other_sources_have_sessions_of_their_own():
    sessions = {plan_docket(read_one(raw_docket(source_id=name))).session_id for name in "abc"}
    assert len(sessions) == 3


@pytest.mark.parametrize("other", [{}, {"court_kind": "district"}, {"case_name": "Other"}])
def test_the_session_of_a_docket_follows_its_source_alone_and_never_changes(other):
    session = plan_docket(read_one(raw_docket(**other))).session_id
    assert session == UUID("63597d10-0b6e-54bf-8dfe-7c9976c7b76a")


DESCRIPTIONS = st.one_of(
    st.sampled_from([text for reads, leaves in EXAMPLES.values() for text in reads + leaves]),
    st.text(min_size=1, max_size=120).filter(str.strip),
)
ENTRIES = st.lists(
    st.builds(
        raw_entry,
        DESCRIPTIONS,
        date_filed=st.dates().map(str),
        date_entered=st.none() | st.datetimes().map(lambda moment: moment.isoformat()),
    ),
    max_size=8,
)
COURTS = st.sampled_from(
    [
        {},
        {"case_name": "Widgets - Adversary Proceeding"},
        {"court_kind": "district", "court_id": "tstd", "docket_number": "1:20-cv-1"},
        {"court_kind": "district", "court_id": "tstd", "docket_number": "1:20-cr-1"},
        {"court_kind": "appellate"},
        {"court_kind": "acms"},
        {"court_kind": "admiralty"},
    ]
)


@given(ENTRIES, COURTS)
def test_a_plan_holds_together_and_is_the_same_every_time(entries, court):
    line = orjson.dumps(raw_docket(entries, **court))
    (first,), (second,) = read_dockets([line]), read_dockets([line])
    assert isinstance(first, Docket)
    assert isinstance(second, Docket)
    plan = plan_docket(first)
    assert plan == plan_docket(second)
    check(plan, first)


def strikes_of(*entries):
    plan = plan_docket(read_one(raw_docket(list(entries))))
    return [step for step in plan.steps() if isinstance(step, Strike)]


def test_a_strike_says_its_rule_and_the_words_it_read():
    [strike] = strikes_of(raw_entry("Notice of Hearing"), DISMISSAL)
    body = strike.body()
    assert set(universe("bankruptcy")).difference(body["eliminated"]) == {"ended_by_dismissal"}
    assert body["source_id"] == "test/one"
    assert body["justification"] == {
        "rule": "case_dismissed",
        "reason": "The court dismissed the case.",
        "source_node_id": "docket-entry:test/one#1",
        "offset": 0,
        "length": 21,
        "words": "ORDER Dismissing Case",
    }


def test_the_words_of_a_sealed_entry_stay_where_they_are():
    [strike] = strikes_of(raw_entry("ORDER Dismissing Case Debtor. (FILED UNDER SEAL)"))
    justification = strike.body()["justification"]
    assert "words" not in justification
    assert justification["length"] == 21
