"""The clock that decides: the server's time, carried on by a clock that never steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.values.errors import LedgerUnavailable
from workers.environment.ledger_clock import SKEW_S_MAX, LedgerClock

DAY_US = 86_400_000_000
START_US = 1_700_000_000_000_000


class Machine:
    """A machine whose two clocks a test moves."""

    def __init__(self, wall_us: int = START_US) -> None:
        self.wall_us, self.steady_us = wall_us, 5_000_000
        self.clock = LedgerClock(lambda: self.wall_us, lambda: self.steady_us)

    def pass_us(self, us: int) -> None:
        self.wall_us += us
        self.steady_us += us


def test_a_step_of_the_machines_clock_is_no_step_of_this_one():
    machine = Machine()
    machine.pass_us(1_000)
    machine.wall_us += DAY_US
    machine.pass_us(500)
    assert machine.clock.now_us() == START_US + 1_500
    assert machine.clock.skew_s == 86_400


def test_the_servers_time_counts_where_there_is_a_server():
    machine = Machine(START_US + DAY_US)
    machine.clock.measure(lambda: START_US)
    machine.pass_us(7)
    assert machine.clock.now_us() == START_US + 7
    machine.clock.measure(lambda: None)
    assert machine.clock.now_us() == START_US + 7


def test_half_of_what_asking_took_is_added():
    machine = Machine()

    def server_time_us() -> int:
        machine.pass_us(40)
        return START_US

    machine.clock.measure(server_time_us)
    assert machine.clock.now_us() == START_US + 20


def test_a_server_that_does_not_answer_leaves_the_clock_as_it_was():
    machine = Machine()
    machine.clock.measure(lambda: START_US - DAY_US)

    def away() -> int:
        raise LedgerUnavailable("away")

    with pytest.raises(LedgerUnavailable):
        machine.clock.measure(away)
    assert machine.clock.now_us() == START_US - DAY_US


@given(st.integers(-2 * DAY_US, 2 * DAY_US))
def test_a_clock_that_is_off_beyond_the_bound_is_named_with_how_far(off_us: int):
    machine = Machine(START_US + off_us)
    machine.clock.measure(lambda: START_US)
    problem = machine.clock.problem()
    assert (problem is None) == (abs(off_us) <= SKEW_S_MAX * 1_000_000)
    if problem is not None:
        side = "ahead of" if off_us > 0 else "behind"
        assert problem.startswith("clock_skewed: ")
        assert f" is {abs(off_us) / 1e6:.0f} s {side} the ledger's" in problem
