"""The invariants of the belief protocol, over any course of eliminations and gates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.belief.session import BeliefSession

NAMES = [f"h{number}" for number in range(20)]
UNKNOWN = ["x", "y"]

claims = st.lists(st.sampled_from(NAMES + UNKNOWN), max_size=8)
steps = st.one_of(
    st.tuples(st.just("eliminate"), claims),
    st.tuples(st.just("enter"), st.integers(0, 4)),
    st.tuples(st.just("leave"), st.none()),
    st.tuples(st.just("conclude"), st.sampled_from("ab")),
    st.tuples(st.just("end"), st.booleans()),
)


def take(driver, number, step):
    """Take a step that is possible now; the others are left out."""
    verb, value = step
    active = driver.session.snapshot()["active_obligation_id"]
    if driver.session.terminated:
        return
    if verb == "eliminate":
        driver.eliminate(f"o-{number}", value, why={"n": number})
    elif verb == "enter" and active is None:
        driver.enter(f"g-{number}", value)
    elif verb == "leave" and active is not None:
        driver.leave(active)
    elif verb == "conclude":
        driver.conclude(value)
    elif verb == "end":
        driver.end({"force": value})


@pytest.mark.spec("seed001-monotonicity")
@given(st.lists(steps, max_size=15))
def test_survivors_never_grow(declare, course):
    driver = declare(NAMES, allow_force=True)
    survivors = set(NAMES)
    for number, step in enumerate(course):
        take(driver, number, step)
        after = set(driver.session.snapshot()["survivors"])
        assert after <= survivors
        survivors = after


@pytest.mark.spec("seed001-monotonicity")
@given(st.lists(claims, max_size=8))
def test_no_hypothesis_is_eliminated_twice_and_none_comes_back(declare, course):
    driver = declare(NAMES)
    for number, claimed in enumerate(course):
        driver.eliminate(f"o-{number}", claimed)
    gone = [name for event in driver.session.audit() for name in event.delta["eliminated"]]
    assert len(gone) == len(set(gone))
    assert set(gone) == set(NAMES) - set(driver.session.snapshot()["survivors"])


@pytest.mark.spec("seed001-idempotence")
@given(st.lists(claims, max_size=6), claims)
def test_the_same_elimination_again_changes_no_belief(declare, course, claimed):
    driver = declare(NAMES)
    for number, earlier in enumerate(course):
        driver.eliminate(f"o-{number}", earlier)
    driver.eliminate("twice", claimed)
    before = driver.everything()
    driver.eliminate("twice", claimed)
    assert driver.everything() == before
    survivors_hash = driver.session.survivors_hash
    assert driver.eliminate("under another name", claimed).applied == []
    assert driver.session.survivors_hash == survivors_hash


@pytest.mark.spec("seed001-order-independence")
@given(st.lists(claims, max_size=6), st.randoms(use_true_random=False))
def test_eliminations_in_any_order_leave_the_same_survivors(declare, course, random):
    shuffled = list(enumerate(course))
    random.shuffle(shuffled)
    driver, other = declare(NAMES), declare(NAMES)
    for number, claimed in enumerate(course):
        driver.eliminate(f"o-{number}", claimed)
    for number, claimed in shuffled:
        other.eliminate(f"o-{number}", claimed)
    assert driver.session.snapshot()["survivors"] == other.session.snapshot()["survivors"]
    assert driver.session.survivors_hash == other.session.survivors_hash


@pytest.mark.spec("seed001-replayability")
@given(st.lists(steps, max_size=15), st.integers(0, 2), st.booleans())
def test_replaying_the_trail_gives_the_same_session(declare, course, window, force):
    driver = declare(NAMES[:4], allow_force=force, stability_window=window)
    for number, step in enumerate(course):
        take(driver, number, step)
    twin = BeliefSession.restore(driver.stored())
    assert twin.snapshot() == driver.session.snapshot()
    assert [event.to_bytes() for event in twin.audit()] == driver.stored()
    assert twin.core_state() == driver.session.core_state()


@given(st.lists(steps, max_size=15))
def test_bitmap_core_and_deltas_never_disagree(declare, course):
    driver = declare(NAMES, allow_force=True)
    for number, step in enumerate(course):
        take(driver, number, step)
        session = driver.session
        core, bits = session.core_state(), session.take_snapshot(0).bits
        active = session.snapshot()["active_obligation_id"]
        assert core["survivors"] == session.snapshot()["survivors"]
        assert session.survivors_hash == session.universe.hash_bitmap(bits)
        assert session.n_survivors == len(core["survivors"])
        assert [*core["obligations"]] == ([] if active is None else [active])
