"""The lifecycle of a binding with one artifact (§13.2): every pair of states, allowed or not."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.model.bindings.lifecycle import (
    START,
    STATES,
    STEPS,
    TRANSITIONS,
    PairTransitionDisallowed,
    follow,
    state_now,
)

pytestmark = pytest.mark.spec("004 §13.2")

STATES_OF_13_2 = [
    *("pending_intake", "ready_to_evaluate", "evaluated", "fired"),
    *("matched_no_fire", "no_match", "disabled", "superseded"),
]
FOLLOWING_OF_13_2 = {
    "pending_intake": ["ready_to_evaluate", "disabled", "superseded"],
    "ready_to_evaluate": ["evaluated", "disabled", "superseded"],
    "evaluated": ["fired", "matched_no_fire", "no_match", "disabled", "superseded"],
    "fired": ["disabled", "superseded"],
    "matched_no_fire": ["disabled", "superseded"],
    "no_match": ["disabled", "superseded"],
    "disabled": ["superseded"],
    "superseded": ["disabled"],
}
"""The words of §13.2, "any state" written out."""

DISALLOWED_OF_13_2 = [
    ("fired", "ready_to_evaluate"),
    ("fired", "no_match"),
    ("disabled", "ready_to_evaluate"),
]

REACHED = st.sampled_from([state for state in STATES if state not in ("disabled", "superseded")])
"""What a pair's own steps lead to."""


def test_the_states_are_the_eight():
    assert list(STATES) == STATES_OF_13_2
    assert START == "pending_intake"


@pytest.mark.parametrize(("state", "following"), [*product(STATES_OF_13_2, repeat=2)])
def test_each_state_follows_each_other_or_does_not(state, following):
    if following in FOLLOWING_OF_13_2[state]:
        assert follow(state, following) == following
        return
    with pytest.raises(PairTransitionDisallowed) as refused:
        follow(state, following)
    assert refused.value.code == "binding_lifecycle_transition_disallowed"
    assert state in str(refused.value)


@pytest.mark.parametrize(("state", "following"), DISALLOWED_OF_13_2)
def test_what_the_specification_disallows_by_name_is_not_in_the_table(state, following):
    assert (state, following) not in TRANSITIONS


@given(REACHED, st.sampled_from("12"), st.sampled_from(["1", "2", None]), st.booleans())
def test_what_becomes_of_the_binding_is_a_transition_of_each_of_its_pairs(
    state, generation_id, in_force, enabled
):
    now = state_now(state, generation_id, in_force=in_force, enabled=enabled)
    assert now == state or (state, now) in TRANSITIONS
    assert (now == "superseded") == (generation_id != in_force)
    assert (now == "disabled") == (generation_id == in_force and not enabled)


@given(REACHED)
def test_enabling_again_does_not_bring_a_pair_of_before_back(state):
    disabled = state_now(state, "1", in_force="1", enabled=False)
    enabled_again = state_now(state, "1", in_force="2", enabled=True)
    assert (disabled, enabled_again) == ("disabled", "superseded")
    assert (disabled, enabled_again) in TRANSITIONS


@given(st.data())
def test_a_pair_ends_in_one_outcome_whatever_way_it_takes(data):
    state, taken = START, [START]
    while state in STEPS:
        state = follow(state, data.draw(st.sampled_from(STEPS[state])))
        taken.append(state)
    assert taken[:3] == ["pending_intake", "ready_to_evaluate", "evaluated"]
    assert taken[3:] in (["fired"], ["matched_no_fire"], ["no_match"])
