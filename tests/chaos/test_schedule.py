"""A seed is a schedule: the same for ever, every kind in it, nothing that overlaps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.faults import INFLICT
from tests.chaos.schedule import (
    KINDS,
    PAST_LEASE_S_MIN,
    SHAPES,
    SLOT_S_MIN,
    is_of_redis,
    kinds_of,
    schedule,
    seconds_min,
    shape_of,
)

SECONDS = max(seconds_min(kinds_of(shape)) for shape in SHAPES)
seeds = st.integers(min_value=0, max_value=2**64)
kinds = st.sampled_from(SHAPES).map(kinds_of)


@given(seeds, st.floats(min_value=SECONDS, max_value=4 * SECONDS), kinds)
def test_the_same_seed_is_the_same_schedule(seed, seconds, kinds):
    assert schedule(seed, seconds, kinds) == schedule(seed, seconds, kinds)


@given(seeds, kinds)
def test_another_seed_is_another_schedule(seed, kinds):
    assert schedule(seed, SECONDS, kinds) != schedule(seed + 1, SECONDS, kinds)


def test_seeds_take_turns_with_the_shapes():
    assert {shape_of(seed) for seed in range(len(SHAPES))} == set(SHAPES)


def test_every_kind_happens_on_a_shape_and_those_of_redis_alone_redden():
    assert {kind for shape in SHAPES for kind in kinds_of(shape)} == set(KINDS)
    assert all(is_of_redis(name) for name, kind in KINDS.items() if kind.reddens)
    assert not is_of_redis("pause_gateway")


@given(seeds, st.floats(min_value=SECONDS, max_value=4 * SECONDS), kinds)
def test_every_kind_comes_before_any_comes_twice(seed, seconds, kinds):
    faults = schedule(seed, seconds, kinds)
    assert {fault.kind for fault in faults[: len(kinds)]} == set(kinds)


@given(seeds, kinds)
def test_a_fault_ends_before_the_next_begins_and_all_end_within_the_time(seed, kinds):
    faults = schedule(seed, SECONDS, kinds)
    for fault, following in pairwise(faults):
        assert fault.at_s + fault.lasts_s <= following.at_s + 0.002
    assert faults[-1].at_s + faults[-1].lasts_s <= SECONDS + 0.002


@given(seeds)
def test_a_fault_names_whom_it_meets_and_goes_past_the_lease_where_its_kind_does(seed):
    for fault in schedule(seed, seconds_min(KINDS), KINDS):
        kind = KINDS[fault.kind]
        assert fault.target in kind.targets
        assert fault.lasts_s >= PAST_LEASE_S_MIN or not kind.past_lease
        assert (fault.delay_ms > 0) == kind.is_delay


def test_every_kind_can_be_inflicted():
    assert INFLICT.keys() == KINDS.keys()


@pytest.mark.parametrize(("short_s", "slot_s"), [(1, SLOT_S_MIN), (0, 1.0)])
def test_a_time_too_short_for_every_kind_is_refused(short_s, slot_s):
    kinds = kinds_of("single")
    with pytest.raises(ValueError, match="faults need"):
        schedule(1, seconds_min(kinds) - short_s, kinds, slot_s)
