import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.backoff import BASE_MS, CAP_MS, backoff_ms
from queues.priorities import PRIORITIES, PRIORITY_BY_NAME
from queues.scripting import script_text


@given(attempt=st.integers(1, 10_000), unit=st.floats(0, 1, exclude_max=True))
def test_a_delay_is_never_negative_and_never_over_the_cap(attempt: int, unit: float) -> None:
    assert 0 <= backoff_ms(attempt, unit) < CAP_MS


def test_the_ceiling_of_the_delay_doubles_until_the_cap() -> None:
    ceilings = [backoff_ms(attempt, 1.0) for attempt in range(1, 12)]
    assert ceilings[:4] == [BASE_MS, 2 * BASE_MS, 4 * BASE_MS, 8 * BASE_MS]
    assert ceilings[-1] == CAP_MS


def test_jitter_is_full() -> None:
    assert backoff_ms(5, 0.0) == 0
    assert backoff_ms(5, 0.5) == 800


def test_a_more_urgent_priority_has_a_lower_rank_and_a_shorter_target() -> None:
    assert [row.rank for row in PRIORITIES] == [0, 1, 2, 3, 4]
    targets = [row.service_target_ms for row in PRIORITIES]
    assert targets == sorted(targets)
    assert PRIORITY_BY_NAME["user_initiated_critical"].service_target_ms == 5_000


@pytest.mark.parametrize("name", ["enqueue", "claim", "acknowledge", "retry", "bury", "requeue"])
def test_a_script_states_its_contract(name: str) -> None:
    own = script_text(name).split("\n-- " + name + ":", 1)[1]
    head = own.split("\n\n", 1)[0]
    assert all(f"-- {word}" in head for word in ("KEYS[1]", "ARGV", "Returns", "Atomic"))
