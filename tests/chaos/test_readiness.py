"""What is read from the answers of `/readyz`: each time, and each thing that is wrong."""

import pytest

from tests.chaos.readiness import (
    WITHIN_S,
    RedisFault,
    Sighting,
    readiness_bounds,
    readiness_findings,
    readiness_times,
    work_times,
)

FAULT = RedisFault("fill_redis", ["a"], begun_s=10.0, ended_s=15.0)


def green(asked_s: float, answered_s: float) -> Sighting:
    return Sighting(asked_s, answered_s, is_ready=True, names_redis=False)


def red(asked_s: float, answered_s: float) -> Sighting:
    return Sighting(asked_s, answered_s, is_ready=False, names_redis=True)


def unready(asked_s: float, answered_s: float) -> Sighting:
    return Sighting(asked_s, answered_s, is_ready=False, names_redis=False)


FOLLOWS = [
    green(9.0, 9.1),
    green(10.1, 10.2),
    red(10.4, 11.0),
    red(14.8, 15.2),
    unready(15.3, 15.4),
    green(15.5, 16.0),
]


def test_the_longest_times_of_each_kind_are_kept():
    later = RedisFault("fill_redis", ["a", "b"], begun_s=20.0, ended_s=22.0)
    sightings = {
        "a": [*FOLLOWS, red(20.5, 20.6), green(22.1, 22.2)],
        "b": [red(21.0, 21.5), green(23.0, 23.5)],
    }
    assert readiness_times(sightings, [FAULT, later]) == {
        "fill_redis": {"lasted_s": 5.0, "red_after_s": 1.5, "green_after_s": 1.5}
    }


def test_what_was_red_before_a_fault_or_is_red_after_it_is_not_its_red():
    sightings = {"a": [red(9.0, 9.5), green(10.1, 10.2), red(14.9, 15.1), green(15.5, 15.6)]}
    assert "red_after_s" not in readiness_times(sightings, [FAULT])["fill_redis"]


def test_what_was_asked_before_the_end_of_a_fault_is_not_its_green():
    sightings = {"a": [red(10.1, 10.2), green(14.9, 15.1), green(16.0, 16.5)]}
    assert readiness_times(sightings, [FAULT])["fill_redis"]["green_after_s"] == 1.5


@pytest.mark.parametrize(
    ("sightings", "finding"),
    [
        (FOLLOWS, ""),
        # A machine may be so busy that an answer is late, but it is not of old.
        ([green(12.9, 14.9), red(15.0, 15.0), green(15.5, 16.0)], ""),
        ([green(13.1, 13.2), red(14.0, 14.1), green(15.5, 16.0)], "named no Redis"),
        ([unready(13.1, 13.2), red(14.0, 14.1), green(15.5, 16.0)], "named no Redis"),
        ([green(10.1, 10.2), green(15.5, 16.0)], "was not red"),
        ([red(10.1, 10.2), unready(15.5, 16.0)], "was not ready again"),
        ([], "was not red"),
    ],
)
def test_readiness_follows_redis(sightings: list[Sighting], finding: str):
    findings = readiness_findings({"a": sightings}, [FAULT], ["fill_redis"])
    assert bool(findings) == bool(finding)
    assert not findings or finding in findings[0]


def test_a_fault_while_which_redis_serves_turns_nobody_red():
    fault = RedisFault("switch_redis", ["a"], begun_s=10.0, ended_s=15.0)
    assert readiness_findings({"a": [green(15.5, 15.6)]}, [fault], ["fill_redis"]) == []


@pytest.mark.parametrize(
    ("spans_s", "waited_s"),
    [
        ([(9.0, 9.5), (14.0, 16.5), (14.5, 17.0)], 1.5),
        # What a worker had in hand may be later than what is asked for afterwards.
        ([(14.0, 26.5), (15.5, 15.75)], 0.75),
        # Nothing waits before 16.
        ([(16.0, 16.25)], 0.25),
    ],
)
def test_work_goes_on_with_the_first_outcome(spans_s: list[tuple[float, float]], waited_s: float):
    assert work_times([FAULT], spans_s) == {"fill_redis": waited_s}


def test_where_there_is_no_work_nothing_waits():
    assert work_times([FAULT], [(9.0, 9.5)]) == {}


def test_work_is_held_to_its_bound_after_failovers_alone():
    readiness = {
        "fill_redis": {"red_after_s": 2.0, "work_after_s": 9.0},
        "hang_redis": {"red_after_s": 1.0, "green_after_s": 4.0, "work_after_s": 2.5},
    }
    bounds = readiness_bounds(readiness)
    assert [bound["was"] for bound in bounds.values()] == [2.0, 4.0, 2.5]
    assert {bound["at most"] for bound in bounds.values()} == {WITHIN_S}
