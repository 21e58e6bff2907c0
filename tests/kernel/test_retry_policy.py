"""How often a request is tried and how long it waits, by rules without a clock."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.work.retry_policy import (
    ATTEMPTS_EXHAUSTED,
    DEFAULT_POLICY,
    ENDED_ITS_WORKERS,
    SNOOZES_EXHAUSTED,
    TIME_EXHAUSTED,
    WORKER_ENDS_MAX,
    FailureCounts,
    RetryPolicy,
    final_reason,
    pause_ms,
)
from kernel.work.signatures import mask_varying, signature_of

pytestmark = pytest.mark.spec("§8.3")

UNITS = st.floats(0, 1, exclude_max=True)


def test_the_default_policy_lets_an_outage_of_hours_pass():
    pauses = [pause_ms(DEFAULT_POLICY, failures, 0.5) for failures in range(1, 14)]
    assert pauses[:4] == [5_000, 10_000, 20_000, 40_000]
    assert pauses[-3:] == [3_600_000] * 3
    assert DEFAULT_POLICY.attempts == len(pauses) + 1
    shortest = sum(pause_ms(DEFAULT_POLICY, failures, 0.0) for failures in range(1, 14))
    longest = sum(pause_ms(DEFAULT_POLICY, failures, 1.0) for failures in range(1, 14))
    assert (round(shortest / 3_600_000, 1), round(longest / 3_600_000, 1)) == (3.5, 5.3)


@given(failures=st.integers(1, 10_000), unit=UNITS)
def test_a_pause_has_a_floor_and_a_ceiling(failures: int, unit: float):
    middle = pause_ms(DEFAULT_POLICY, failures, 0.5)
    assert 0.8 * middle - 1 <= pause_ms(DEFAULT_POLICY, failures, unit) <= 1.2 * middle
    assert middle <= DEFAULT_POLICY.pause_ms_max


@given(failures=st.integers(0, 30), snoozes=st.integers(0, 3000), unit=UNITS)
def test_snoozes_change_neither_the_backoff_nor_the_attempts(
    failures: int, snoozes: int, unit: float
):
    counts = FailureCounts(failures, snoozes)
    reason = final_reason(DEFAULT_POLICY, counts, 0)
    if failures >= DEFAULT_POLICY.attempts:
        assert reason == ATTEMPTS_EXHAUSTED
    elif snoozes > DEFAULT_POLICY.snoozes:
        assert reason == SNOOZES_EXHAUSTED
    else:
        assert reason is None


@pytest.mark.parametrize(
    ("counts", "elapsed_ms", "reason"),
    [
        ({"failures": 2}, 0, None),
        ({"failures": 3}, 0, ATTEMPTS_EXHAUSTED),
        ({"failures": 1}, 60_000, None),
        ({"failures": 1}, 60_001, TIME_EXHAUSTED),
        ({"snoozes": 5}, 0, None),
        ({"snoozes": 6}, 0, SNOOZES_EXHAUSTED),
        ({"worker_ends": WORKER_ENDS_MAX - 1}, 0, None),
        ({"worker_ends": WORKER_ENDS_MAX}, 0, ENDED_ITS_WORKERS),
    ],
)
def test_a_request_ends_by_the_bound_that_it_reached(
    counts: dict[str, int], elapsed_ms: int, reason: str | None
):
    policy = RetryPolicy(attempts=3, elapsed_ms_max=60_000, snoozes=5)
    assert final_reason(policy, FailureCounts(**counts), elapsed_ms) == reason


def test_another_policy_has_another_version_and_the_same_has_the_same():
    versions = {RetryPolicy(attempts=attempts).version for attempts in (1, 2, 14)}
    assert len(versions) == 3
    assert RetryPolicy().version == DEFAULT_POLICY.version in versions


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("no image 17 of 40", "no image # of #"),
        ("no image 'cat.png'", "no image '#'"),
        ('no key "a b" in {`x`}', "no key '#' in {'#'}"),
        ("request 018f6a3e-7b1c-7cc1-9d55-0242ac120002 failed", "request # failed"),
        ("object at 0x7ffab69e8590", "object at #"),
        ("commit d2c5e105 is gone", "commit # is gone"),
        ("a defaced facade", "a defaced facade"),
        ("first line 1\nsecond line 2", "first line #"),
        ("don't, it isn't there", "don'#'t there"),
        ("", ""),
    ],
)
def test_what_differs_from_time_to_time_is_masked(message: str, expected: str):
    assert mask_varying(message) == expected


@given(message=st.text(max_size=5000), error_class=st.text(max_size=200), frame=st.text())
def test_a_signature_is_bounded_and_can_be_stored(message: str, error_class: str, frame: str):
    signature = signature_of(error_class, frame, message)
    assert len(signature) <= 300
    assert "\x00" not in signature


def test_a_signature_names_the_class_the_function_and_the_masked_message():
    signature = signature_of("ValueError", "jobs.resize", "image 7 is no image")
    assert signature == "ValueError in jobs.resize: image # is no image"
    assert signature_of("ValueError", "jobs.resize", "image 8 is no image") == signature
    other: Any = signature_of("ValueError", "jobs.crop", "image 8 is no image")
    assert other != signature
