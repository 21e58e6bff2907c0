import re
from pathlib import Path

import pytest

import queues
from kernel.values.priorities import CAPACITY_PRIORITIES, PRIORITIES_OF
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.retry_policy import WORKER_ENDS_MAX
from queues.queue.priorities import PRIORITIES, least_of, priorities_of
from queues.redis.scripts import script_text

TOP = "user_initiated_critical"


@pytest.mark.spec("§8.3")
def test_the_priorities_of_authority_work_are_those_of_the_specification() -> None:
    assert [(row.name, row.service_target_ms) for row in PRIORITIES[:4]] == [
        ("user_initiated_critical", 5_000),
        ("user_active_session", 30_000),
        ("high_access_frequency", 300_000),
        ("background_normal", 3_600_000),
    ]
    assert PRIORITIES[4].name == "background_low_priority"


@pytest.mark.parametrize(
    ("queue", "targets_s"),
    [
        ("authority-recompute", [5, 30, 5 * 60, 3600, 24 * 3600]),
        ("binding-evaluation", [5, 30, 3600]),
        ("extraction-transition", [5, 5 * 60, 3600]),
    ],
)
def test_a_priority_has_the_service_target_that_is_promised(queue: str, targets_s: list[int]):
    assert [row.service_target_ms / 1000 for row in priorities_of(queue)] == targets_s


@pytest.mark.parametrize("queue", QUEUE_KINDS)
def test_a_more_urgent_priority_has_a_lower_rank_and_a_shorter_target(queue: str) -> None:
    rows = priorities_of(queue)
    assert [row.rank for row in rows] == list(range(len(rows)))
    targets = [row.service_target_ms for row in rows]
    assert targets == sorted(set(targets))
    assert len({row.name for row in rows}) == len(rows) <= 5


def test_each_queue_has_the_priorities_that_its_requests_carry_in_their_order() -> None:
    """What the kernel records, the relay can send."""
    assert {name: [row.name for row in priorities_of(name)] for name in QUEUE_KINDS} == {
        name: list(names) for name, names in PRIORITIES_OF.items()
    }


@pytest.mark.spec("§14.2")
@pytest.mark.parametrize("queue", QUEUE_KINDS)
def test_a_more_urgent_priority_never_draws_as_a_lesser_one(queue: str) -> None:
    """So what a capacity priority may claim is the head of the table."""
    drawn = [CAPACITY_PRIORITIES.index(row.capacity) for row in priorities_of(queue)]
    assert drawn == sorted(drawn, reverse=True)


@pytest.mark.parametrize(
    ("queue", "least"),
    [
        ("authority-recompute", ["background_low_priority", "high_access_frequency", TOP]),
        ("binding-evaluation", ["background", "user_initiated", "critical"]),
        ("extraction-transition", ["background", "normal", None]),
    ],
)
def test_what_may_be_claimed_follows_from_the_capacity(queue: str, least: list[str | None]) -> None:
    assert [least_of(priorities_of(queue), priority) for priority in CAPACITY_PRIORITIES] == least


@pytest.mark.spec("§14.2")
def test_the_priorities_of_binding_work_are_the_capacity_priorities() -> None:
    names = [row.name for row in priorities_of("binding-evaluation")]
    assert names == ["critical", "user_initiated", "background"]


PARTS = ("common", "lease_common", "lease_expiry", "service_order")
"""What is put in front of scripts and holds no step of its own."""


def script_names() -> list[str]:
    files = (Path(queues.__file__).parent / "scripts").glob("*.lua")
    return sorted(file.stem for file in files if file.stem not in PARTS)


@pytest.mark.parametrize("name", script_names())
def test_a_script_states_its_contract(name: str) -> None:
    own = script_text(name).split("\n-- " + name + ":", 1)[1]
    head = own.split("\n\n", 1)[0]
    assert all(f"-- {word}" in head for word in ("KEYS[1]", "ARGV", "Returns", "Atomic"))


def test_scripts_and_the_record_give_an_item_up_after_the_same_number_of_ends():
    text = (Path(queues.__file__).parent / "scripts" / "common.lua").read_text()
    assert re.findall(r"^local ENDS_MAX = (\d+)", text, re.MULTILINE) == [str(WORKER_ENDS_MAX)]
