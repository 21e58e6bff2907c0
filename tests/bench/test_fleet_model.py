"""The model says what was measured of what it was fitted on, and of other sizes what follows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.fleet_model import PARTS, Model, Use, fit

costs_s = st.floats(min_value=1e-6, max_value=0.01)
IDLE_S = dict.fromkeys(PARTS, 0.02)


def used(model: Model, requests: int, commits: int, size: int) -> Use:
    bare = Use("envelope", requests, 2.0, commits, {})
    cpu_s = {part: model.cpu_s(part, bare, size) for part in PARTS}
    return Use("envelope", requests, 2.0, commits, cpu_s)


@given(costs_s, costs_s, st.integers(min_value=1, max_value=8))
def test_two_loads_of_one_size_give_the_cost_of_a_request_and_of_a_commit(work_s, commit_s, size):
    true = Model(dict.fromkeys(PARTS, work_s), dict.fromkeys(PARTS, commit_s), IDLE_S)
    loads = [used(true, 100, 50, 1), used(true, 1000, 20, 1)]
    model = fit(loads, IDLE_S, 1)
    other = used(true, 700, 300, size)
    for part in PARTS:
        assert model.work_s[part] == pytest.approx(work_s, rel=1e-3)
        assert model.commit_s[part] == pytest.approx(commit_s, rel=1e-3)
        assert model.cpu_s(part, other, size) == pytest.approx(other.cpu_s[part], rel=1e-3)


def test_one_load_gives_the_cost_of_a_request_with_its_share_of_a_commit():
    use = Use("binding", 100, 2.0, 10, dict.fromkeys(PARTS, 1.04))
    model = fit([use], dict.fromkeys(PARTS, 0.04), 2)
    assert model.work_s == dict.fromkeys(PARTS, pytest.approx(0.0096))
    assert model.commit_s == dict.fromkeys(PARTS, 0.0)
    assert model.idle_s == IDLE_S


def test_no_part_costs_less_than_nothing():
    cheap, dear = dict.fromkeys(PARTS, 0.01), dict.fromkeys(PARTS, 0.5)
    loads = [Use("envelope", 100, 2.0, 50, cheap), Use("envelope", 100, 2.0, 10, dear)]
    model = fit(loads, IDLE_S, 1)
    assert min(model.commit_s.values()) == 0.0
    assert min(model.work_s.values()) >= 0.0
