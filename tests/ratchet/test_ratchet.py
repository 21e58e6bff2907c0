"""What a request costs stays under its bound, and a bound goes down with what it bounds."""

import sys

import pytest
import structlog

from tests.ratchet.bounds import bounds, lowered, over, under
from tests.ratchet.counts import ON_A_TREE, ON_POSTGRES, ON_SQLITE, QUESTIONS

pytestmark = pytest.mark.may_block

REMEDY = "`make ratchet` writes the bounds down"
QUESTION_TRIPS_MAX = 3
TAKES = 3
"""How often a count is taken that is over its bound: what else the process did only adds to it."""


@pytest.fixture(autouse=True)
def _quiet():
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@pytest.fixture
def held():
    """How counts are held to their bounds."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the bounds are those of Python 3.11")

    def hold(name, count):
        counts = count()
        for _ in range(TAKES - 1):
            if over(name, counts):
                counts = count()
        assert over(name, counts) == []
        assert under(name, counts) == [], REMEDY

    return hold


@pytest.fixture
def new_url(postgres):
    """Return how to make a database, which is dropped with the server."""
    return postgres.new_database


@pytest.mark.parametrize("name", ON_SQLITE)
def test_what_a_request_costs_is_at_its_bound(held, name):
    held(name, ON_SQLITE[name])


@pytest.mark.parametrize("name", ON_POSTGRES)
def test_the_round_trips_to_postgres_are_at_their_bound(held, name, new_url):
    held(name, lambda: ON_POSTGRES[name](new_url()))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(sys.platform != "linux", reason="the servers of these tests are Linux's")
@pytest.mark.parametrize("name", ON_A_TREE)
def test_an_idle_process_sets_no_more_timers_than_it_has_to(held, name):
    held(name, ON_A_TREE[name])


def test_no_question_takes_more_than_three_round_trips():
    trips = bounds()["trips_of_doors"]
    assert trips.keys() == QUESTIONS.keys()
    assert max(trips.values()) <= QUESTION_TRIPS_MAX


def test_each_count_has_its_bound():
    assert set(bounds()) == {*ON_SQLITE, *ON_A_TREE, *ON_POSTGRES}


def test_a_count_that_is_off_its_bound_is_named():
    name, [(count, bound), *_] = "item", [*bounds()["item"].items()]
    assert over(name, {count: bound * 1.01}) == under(name, {count: bound * 0.98}) == []
    assert over(name, {count: bound * 1.02}) == [
        f"item.{count} is {bound * 1.02:.2f}, and its bound is {bound:.2f}"
    ]
    assert under(name, {count: bound * 0.9}) == [
        f"item.{count} is {bound * 0.9:.2f}, and its bound is still {bound:.2f}"
    ]


def test_bounds_go_down_by_themselves_and_up_by_name_alone():
    known = {"item": {"a": 10.0, "b": 10.0, "c": 10.0}}
    new = {"item": {"a": 8.0, "b": 12.0, "c": 12.0, "d": 3.0}}
    written = "[item]\na = 8.0\nb = 10.0\nc = 12.0\nd = 3.0\n"
    assert lowered(known, new, ["item.c"]) == written
