from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import queues
from queues.backoff import BASE_MS, CAP_MS, backoff_ms
from queues.priorities import PRIORITIES, QUEUES
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


@pytest.mark.spec("§8.3")
def test_the_priorities_of_authority_work_are_those_of_the_specification() -> None:
    assert [(row.name, row.service_target_ms) for row in PRIORITIES[:4]] == [
        ("user_initiated_critical", 5_000),
        ("user_active_session", 30_000),
        ("high_access_frequency", 300_000),
        ("background_normal", 3_600_000),
    ]
    assert PRIORITIES[4].name == "background_low_priority"


@pytest.mark.parametrize("queue", QUEUES)
def test_a_more_urgent_priority_has_a_lower_rank_and_a_shorter_target(queue: str) -> None:
    rows = QUEUES[queue]
    assert [row.rank for row in rows] == list(range(len(rows)))
    targets = [row.service_target_ms for row in rows]
    assert targets == sorted(set(targets))
    assert len({row.name for row in rows}) == len(rows) <= 5


@pytest.mark.spec("§14.2")
def test_the_priorities_of_binding_work_are_the_capacity_priorities() -> None:
    names = [row.name for row in QUEUES["binding-evaluation"]]
    assert names == ["critical", "user_initiated", "background"]


def script_names() -> list[str]:
    files = (Path(queues.__file__).parent / "scripts").glob("*.lua")
    return sorted(file.stem for file in files if not file.stem.endswith("common"))


@pytest.mark.parametrize("name", script_names())
def test_a_script_states_its_contract(name: str) -> None:
    own = script_text(name).split("\n-- " + name + ":", 1)[1]
    head = own.split("\n\n", 1)[0]
    assert all(f"-- {word}" in head for word in ("KEYS[1]", "ARGV", "Returns", "Atomic"))
