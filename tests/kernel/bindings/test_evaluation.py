"""Stage 2 and dispatch as functions: what is selected, and what comes of it (§13.4, §13.5)."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.model.bindings.dispatch import (
    STANDINGS,
    TARGETS,
    EvaluatedOn,
    Identity,
    Refused,
    outcome_for,
)
from kernel.model.bindings.evaluation import MATCHED, SelectorMatch, evaluate
from kernel.model.bindings.lifecycle import STEPS
from kernel.model.bindings.outcomes import REASONS, OutcomeState, reason_of
from kernel.model.bindings.selectors import SELECTOR_KINDS, Selector, SelectorList
from kernel.model.bindings.source_binding import BindingTargetKind, read_source_binding
from kernel.values.canonical import canonicalize
from tests.kernel.binding_world import snapshot

VALUES = st.sampled_from(["a", "b", "c"])
SELECTORS = st.builds(
    Selector,
    st.sampled_from([kind for kind in SELECTOR_KINDS if kind != "source_path"]),
    VALUES,
)
LISTS = st.builds(
    SelectorList,
    st.lists(SELECTORS, min_size=1, max_size=6).map(tuple),
    st.lists(SELECTORS, max_size=3).map(tuple),
)
ARTIFACTS = st.dictionaries(st.sampled_from(list(SELECTOR_KINDS)), VALUES)
KINDS = get_args(BindingTargetKind)
IDENTITY = Identity("outcome:r", "event", "binding", "extraction_task")


@pytest.mark.spec("§13.4")
@given(LISTS, ARTIFACTS)
def test_a_verdict_is_that_of_the_selectors_and_names_what_decided(selectors, fields):
    verdict = evaluate(selectors, fields)
    assert verdict.matched == selectors.matches(fields)
    if verdict == MATCHED:
        return
    decided = {
        "include": lambda each: not each.matches(fields),
        "exclude": lambda each: each.matches(fields),
    }[verdict.decided_by]
    listed = getattr(selectors, verdict.decided_by)
    assert any(each.kind == verdict.kind and decided(each) for each in listed)


def test_the_first_kind_of_which_nothing_matches_decides():
    selectors = SelectorList((Selector("court_id", "a"), Selector("case_ref", "b")))
    assert evaluate(selectors, {"court_id": "a"}) == SelectorMatch(
        matched=False, decided_by="include", kind="case_ref"
    )


@pytest.mark.spec("INV-K-TARGET-1", "§13.5")
def test_the_table_of_target_kinds_is_that_of_the_specification():
    assert {kind: target.effect_kind for kind, target in TARGETS.items()} == {
        "corpus_document_membership": "membership_write",
        "case_metadata_update": "node_write",
        "relationship_candidate": "filing_relationship_write",
        "court_disposition_observation": "court_disposition_observation_write",
        "extraction_task": "receipt_only",
    }
    assert set(TARGETS) == set(STANDINGS) == set(KINDS)


@pytest.mark.spec("§13.5")
def test_every_outcome_state_has_a_reason_and_every_end_is_one_of_an_evaluated_pair():
    assert {reason.outcome_state for reason in REASONS.values()} == set(get_args(OutcomeState))
    ends = {reason.ends_as for reason in REASONS.values()} - {None}
    assert ends == set(STEPS["evaluated"])


def read(**changes):
    stated = {
        "binding": "in_force",
        "binding_generation_id": "1",
        "artifact_ref": "a",
        "artifact_version": 1,
        "artifact_digest": "0" * 64,
        "target_ref": "t",
    }
    return EvaluatedOn(**(stated | changes))


def standings():
    return [(kind, name) for kind in KINDS for name in STANDINGS[kind]]


@pytest.mark.spec("§13.5", "§13.2")
@pytest.mark.parametrize(("kind", "standing"), standings())
def test_what_stands_there_decides_whether_it_fires(kind, standing):
    binding = read_source_binding(snapshot(kind))
    outcome = outcome_for(IDENTITY, binding, {"court_id": "azb"}, read(standing=standing))
    code = STANDINGS[kind][standing]
    assert outcome.outcome_reason_code == code
    assert outcome.outcome_state == REASONS[code].outcome_state
    assert outcome.target_kind == kind
    missed = outcome_for(IDENTITY, binding, {"court_id": "ca9"}, read(standing=standing))
    assert (missed.outcome_state, missed.outcome_reason_code) == ("succeeded", "binding_no_match")
    assert missed.outcome_target_ref is None


@pytest.mark.spec("§13.5")
@pytest.mark.parametrize(
    ("check", "code", "state"),
    [
        ("V9", "envelope_access_overlay_blocked", "policy_blocked"),
        ("V12", "envelope_conflict_user_review_required", "user_review_required"),
        ("V12", "envelope_conflict_first_writer", "policy_blocked"),
    ],
)
def test_a_refusal_of_the_kernels_is_an_outcome_under_its_own_code(check, code, state):
    binding = read_source_binding(snapshot("extraction_task"))
    refused = read(standing="absent", refused=Refused(check=check, reason_code=code))
    outcome = outcome_for(IDENTITY, binding, {"court_id": "azb"}, refused)
    assert (outcome.outcome_state, outcome.outcome_reason_code) == (state, code)


def test_after_any_other_refusal_there_is_no_outcome():
    binding = read_source_binding(snapshot("extraction_task"))
    refused = read(standing="absent", refused=Refused(check="V11", reason_code="quota_exceeded"))
    with pytest.raises(ValueError, match="quota_exceeded"):
        outcome_for(IDENTITY, binding, {"court_id": "azb"}, refused)
    assert reason_of("quota_exceeded", "V11") is None


@given(
    st.sampled_from(standings()),
    st.sampled_from(["in_force", "unknown", "generation_unknown", "disabled", "superseded"]),
    ARTIFACTS,
    st.booleans(),
)
def test_an_outcome_is_the_same_bytes_from_what_a_manifest_keeps(stands, standing, fields, known):
    kind, state = stands
    binding = read_source_binding(snapshot(kind))
    stated = read(binding=standing, standing=state, artifact_ref="a" if known else None)
    again = EvaluatedOn.model_validate(stated.model_dump(mode="json", exclude_none=True))
    outcomes = [outcome_for(IDENTITY, binding, fields, each) for each in (stated, again)]
    first, second = (canonicalize(each.model_dump(mode="json")) for each in outcomes)
    assert first == second
