"""Capacity, reserves, and what work does under pressure (§14.2, §14.3, §8.3)."""

from itertools import pairwise
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.values.pressure import (
    NOTHING,
    RUN,
    SUSPEND_MS_MAX,
    THROTTLE_MS_MAX,
    THROTTLE_MS_MIN,
    Amount,
    Capacity,
    CapacityState,
    Course,
    capacity_signal,
    course_of,
)
from kernel.values.priorities import CAPACITY_PRIORITIES, capacity_priority_of

WHOLE = st.integers(0, 6)
HELD = st.tuples(*[st.builds(Amount, WHOLE, WHOLE.map(float))] * 3)


@st.composite
def capacities(draw):
    total = Amount(draw(WHOLE), float(draw(WHOLE)))
    first = Amount(draw(st.integers(0, total.slots)), float(draw(st.integers(0, int(total.cost)))))
    rest = total - first
    second = Amount(draw(st.integers(0, rest.slots)), float(draw(st.integers(0, int(rest.cost)))))
    return Capacity(total, {"critical": first, "user_initiated": second})


def state(slots_held=(0, 0, 0), *, slots=4, free_in_ms=300, critical=1, user=1):
    capacity = Capacity(
        Amount(slots, inf), {"critical": Amount(critical), "user_initiated": Amount(user)}
    )
    return CapacityState(
        capacity, tuple(Amount(slot) for slot in slots_held), (0, 0, 0), free_in_ms
    )


@pytest.mark.spec("§8.3", "§14.2")
@pytest.mark.parametrize(
    ("priority", "capacity_priority"),
    [
        ("user_initiated_critical", "critical"),
        ("user_active_session", "user_initiated"),
        ("high_access_frequency", "user_initiated"),
        ("background_normal", "background"),
        ("background_low_priority", "background"),
        ("critical", "critical"),
        ("user_initiated", "user_initiated"),
        ("background", "background"),
        ("normal", "user_initiated"),
        ("whatever", "background"),
    ],
)
def test_each_priority_has_one_of_the_three(priority, capacity_priority):
    assert capacity_priority_of(priority) == capacity_priority


@pytest.mark.spec("§8.3")
def test_a_reserve_is_used_by_its_own_priority_first_and_taken_by_nobody_below():
    assert [ceiling.slots for ceiling in state().capacity.ceilings()] == [2, 3, 4]
    # Critical work in its own reserve takes nothing from the others.
    assert state((2, 0, 1)).available("background").slots == 0
    assert state((1, 0, 1)).available("background").slots == 1
    # What it has beyond its reserve, the others miss.
    assert state((0, 0, 3)).available("background").slots == 1
    assert state((2, 0, 0)).available("critical").slots == 2
    assert state((2, 1, 0)).available("user_initiated").slots == 0
    assert state((2, 1, 0)).available("critical").slots == 1


@pytest.mark.spec("§8.3")
@given(
    capacity=capacities(),
    keeping=st.integers(0, 2),
    wishes=st.lists(st.tuples(st.integers(0, 2), st.builds(Amount, WHOLE, WHOLE.map(float)))),
)
def test_nobody_below_takes_what_is_kept_for_a_priority(capacity, keeping, wishes):
    """Those below are served as long as something is left for them."""
    held = [NOTHING, NOTHING, NOTHING]
    for rank, wanted in wishes:
        if rank < keeping and capacity.available(CAPACITY_PRIORITIES[rank], tuple(held)).covers(
            wanted
        ):
            held[rank] += wanted
    name = CAPACITY_PRIORITIES[keeping]
    assert capacity.available(name, tuple(held)).covers(capacity.reserves.get(name, NOTHING))


@given(capacity=capacities(), held=HELD)
def test_more_is_left_for_a_higher_priority(capacity, held):
    left = [capacity.available(name, held) for name in CAPACITY_PRIORITIES]
    for lower, higher in pairwise(left):
        assert higher.covers(lower)


@pytest.mark.parametrize(
    ("total", "reserve"),
    [
        (Amount(1), Amount(2)),
        (Amount(1, 1.0), Amount(1, 1.5)),
        (Amount(-1), NOTHING),
        (Amount(1), Amount(-1)),
        (Amount(1, nan), NOTHING),
        (Amount(inf, inf), Amount(inf, 0)),
    ],
)
def test_a_reserve_that_is_no_part_of_the_whole_is_refused(total, reserve):
    with pytest.raises(ValueError, match="a reserve is a part"):
        Capacity(total, {"critical": reserve})


@pytest.mark.spec("§14.3", "V4-K-CAPACITY")
@pytest.mark.parametrize("priority", CAPACITY_PRIORITIES)
def test_where_something_is_left_everybody_runs(priority):
    assert course_of(state(), priority) == RUN == Course("run", 0)


@pytest.mark.spec("§14.3", "V4-K-CAPACITY")
def test_under_pressure_background_suspends_users_are_throttled_and_critical_runs_through():
    full = state((2, 2, 1))
    assert course_of(full, "background") == Course("suspend", 300)
    assert course_of(full, "user_initiated") == Course("throttle", 300)
    assert course_of(full, "critical") == RUN


@pytest.mark.spec("§8.3")
def test_background_feels_the_pressure_before_users_do():
    filling = state((2, 0, 0))
    assert course_of(filling, "background").action == "suspend"
    assert course_of(filling, "user_initiated") == RUN


@pytest.mark.spec("§14.3")
@pytest.mark.parametrize("free_in_ms", [None, 0, 1, 500, 10**9])
def test_a_pause_is_as_long_as_it_takes_within_its_bounds(free_in_ms):
    full = state((4, 0, 0), free_in_ms=free_in_ms)
    throttled, suspended = (course_of(full, priority) for priority in CAPACITY_PRIORITIES[1::-1])
    assert THROTTLE_MS_MIN <= throttled.for_ms <= THROTTLE_MS_MAX
    assert THROTTLE_MS_MIN <= suspended.for_ms <= SUSPEND_MS_MAX
    if free_in_ms == 500:
        assert throttled.for_ms == suspended.for_ms == 500


@pytest.mark.spec("§14.3")
def test_a_state_that_cannot_be_read_is_pressure():
    assert course_of(None, "background") == Course("suspend", SUSPEND_MS_MAX)
    assert course_of(None, "user_initiated") == Course("throttle", THROTTLE_MS_MAX)
    assert course_of(None, "critical") == RUN


@given(held=HELD, capacity=capacities(), wanted=st.builds(Amount, WHOLE, WHOLE.map(float)))
def test_the_course_follows_from_what_is_left_alone(held, capacity, wanted):
    seen = CapacityState(capacity, held)
    for name in CAPACITY_PRIORITIES:
        runs = course_of(seen, name, wanted).action == "run"
        assert runs is (name == "critical" or seen.available(name).covers(wanted))


@pytest.mark.spec("§14.5")
def test_the_capacity_signal_has_the_fields_of_the_receipt():
    assert capacity_signal(state((2, 0, 1)), "background", 7) == {
        "ec_capacity_lease_state": "exhausted",
        "queue_depth": 7,
        "inflight_operations": 3,
    }
    granted = capacity_signal(state((2, 0, 1)), "critical", 7)
    assert granted["ec_capacity_lease_state"] == "granted"
    assert capacity_signal(None, "critical", 7) == {
        "ec_capacity_lease_state": "unknown",
        "queue_depth": 7,
        "inflight_operations": 0,
    }
