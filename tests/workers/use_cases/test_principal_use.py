"""What a principal may use of a gateway, counted by a clock that the test moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.environment.principal_limits import PrincipalLimits, limits_of_principals
from workers.use_cases import principal_use
from workers.use_cases.principal_use import LeakyCount, PrincipalLimited, PrincipalUses


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def uses_of(clock: Clock, **limits: int) -> PrincipalUses:
    return PrincipalUses(PrincipalLimits(**limits), clock)


@given(st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 9, 40]), max_size=60))
def test_in_any_stretch_no_more_is_begun_than_its_rate_and_two_seconds_of_it(eighths):
    """An independent model: the times at which something was begun, looked at afterwards."""
    clock, per_s = Clock(), 4
    use, begun = uses_of(clock, requests_per_s=per_s).of("service:a"), []
    for passed in eighths:
        clock.now_s += passed / 8
        try:
            use.begin(0, is_stream=False)
            begun.append(clock.now_s)
        except PrincipalLimited as refused:
            clock.now_s += refused.details["retry_after_s"]
            use.begin(0, is_stream=False)
            begun.append(clock.now_s)
    for first in range(len(begun)):
        for last in range(first, len(begun)):
            most = 2 * per_s + per_s * (begun[last] - begun[first])
            assert last - first + 1 <= most + 1e-6


def test_what_is_larger_than_fits_is_begun_and_held_against_what_comes_next():
    clock = Clock()
    use = uses_of(clock, bytes_per_s=100).of("service:a")
    use.begin(1_000, is_stream=False)
    with pytest.raises(PrincipalLimited) as refused:
        use.begin(1, is_stream=False)
    assert refused.value.details == {"limit": "bytes_per_s", "most": 100, "retry_after_s": 9}
    clock.now_s += 9
    use.begin(1, is_stream=False)


def test_what_was_refused_for_a_limit_uses_none_of_it():
    clock = Clock()
    use = uses_of(clock, requests_per_s=1).of("service:a")
    use.begin(0, is_stream=False)
    use.begin(0, is_stream=False)
    for _ in range(50):
        with pytest.raises(PrincipalLimited):
            use.begin(0, is_stream=False)
    clock.now_s += 1
    use.begin(0, is_stream=False)
    assert use.limited == {"requests_per_s": 50}


def test_requests_and_streams_in_flight_are_counted_apart_and_given_back():
    use = uses_of(Clock(), requests_in_flight=1, streams=1).of("service:a")
    use.begin(0, is_stream=False)
    with use.count_in_flight(is_stream=False):
        use.begin(0, is_stream=True)
        with use.count_in_flight(is_stream=True):
            assert (use.in_flight, use.streams) == (1, 1)
            for is_stream, limit in ((False, "requests_in_flight"), (True, "streams")):
                with pytest.raises(PrincipalLimited, match=limit):
                    use.begin(0, is_stream=is_stream)
    assert (use.in_flight, use.streams) == (0, 0)


def test_who_waits_is_not_in_flight():
    use = uses_of(Clock(), requests_in_flight=1, waits=3).of("service:a")
    with use.count_in_flight(is_stream=False), use.waiting(3):
        assert (use.in_flight, use.waits) == (0, 3)
        with pytest.raises(PrincipalLimited, match="waits"), use.waiting(1):
            pass
    assert (use.in_flight, use.waits) == (0, 0)


def test_principals_beyond_so_many_are_forgotten_the_longest_silent_first(monkeypatch):
    monkeypatch.setattr(principal_use, "PRINCIPALS_MAX", 3)
    uses = uses_of(Clock(), waits=1)
    with pytest.raises(PrincipalLimited), uses.of("service:0").waiting(2):
        pass
    for number in range(1, 8):
        uses.of(f"service:{number}")
        uses.of("service:1")
    assert len(uses) == 3
    assert {each.principal for each in uses.counts(10)} == {"service:1", "service:6", "service:7"}
    assert uses.limited_counts()["waits"] == 1  # what was counted of the forgotten stays counted


def test_open_requests_in_memory_are_bounded_and_those_who_have_most_are_forgotten(monkeypatch):
    monkeypatch.setattr(principal_use, "OPEN_IDS_MAX", 3_000)
    uses = uses_of(Clock())
    small = uses.of("service:small")
    small.note_open(["kept"])
    for number in range(100):
        uses.of("service:noisy").note_open([f"{number}:{index}" for index in range(100)])
    assert list(small.open_ids) == ["kept"]
    assert sum(len(uses.of(name).open_ids) for name in ("service:small", "service:noisy")) <= 3_100


def test_a_look_goes_round_all_open_requests_and_not_more_than_once_a_second(monkeypatch):
    monkeypatch.setattr(principal_use, "LOOK_IDS_MAX", 2)
    clock = Clock()
    use = uses_of(clock).of("service:a")
    use.note_open(["1", "2", "3"])
    assert use.looks() == ["1", "2"]
    assert use.looks() == ()
    clock.now_s += 1
    assert use.looks() == ["3", "1"]


def test_a_rate_says_how_long_until_the_next():
    rate = LeakyCount(60, 60, 60)
    rate.use(60, 0.0)
    assert rate.wait_s(0.0) == 1
    assert rate.wait_s(0.5) == 0.5
    assert rate.wait_s(1.5) == 0


def test_limits_that_are_not_named_are_as_without_it():
    assert limits_of_principals("streams=2, waits=7") == PrincipalLimits(streams=2, waits=7)
    assert limits_of_principals(None) == PrincipalLimits()
