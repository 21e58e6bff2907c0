"""A seed is a schedule: the same for ever, every kind in it, nothing that overlaps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.faults import INFLICT
from tests.chaos.schedule import KINDS, PAST_LEASE_S_MIN, SECONDS_MIN, SLOT_S_MIN, schedule

SECONDS = SECONDS_MIN
seeds = st.integers(min_value=0, max_value=2**64)


@given(seeds, st.floats(min_value=SECONDS, max_value=4 * SECONDS))
def test_the_same_seed_is_the_same_schedule(seed, seconds):
    assert schedule(seed, seconds) == schedule(seed, seconds)


@given(seeds)
def test_another_seed_is_another_schedule(seed):
    assert schedule(seed, SECONDS) != schedule(seed + 1, SECONDS)


@given(seeds, st.floats(min_value=SECONDS, max_value=4 * SECONDS))
def test_every_kind_comes_before_any_comes_twice(seed, seconds):
    faults = schedule(seed, seconds)
    assert {fault.kind for fault in faults[: len(KINDS)]} == set(KINDS)


@given(seeds)
def test_a_fault_ends_before_the_next_begins_and_all_end_within_the_time(seed):
    faults = schedule(seed, SECONDS)
    for fault, following in pairwise(faults):
        assert fault.at_s + fault.lasts_s <= following.at_s + 0.002
    assert faults[-1].at_s + faults[-1].lasts_s <= SECONDS + 0.002


@given(seeds)
def test_a_fault_names_whom_it_meets_and_goes_past_the_lease_where_its_kind_does(seed):
    for fault in schedule(seed, SECONDS):
        kind = KINDS[fault.kind]
        assert fault.target in kind.targets
        assert fault.lasts_s >= PAST_LEASE_S_MIN or not kind.past_lease
        assert (fault.delay_ms > 0) == kind.is_delay


def test_every_kind_can_be_inflicted():
    assert INFLICT.keys() == KINDS.keys()


@pytest.mark.parametrize(("seconds", "slot_s"), [(SECONDS - 1, SLOT_S_MIN), (SECONDS, 1.0)])
def test_a_time_too_short_for_every_kind_is_refused(seconds, slot_s):
    with pytest.raises(ValueError, match="faults need"):
        schedule(1, seconds, slot_s)
