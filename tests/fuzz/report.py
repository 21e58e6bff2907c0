"""What a run came to, and what of it is wrong."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fuzz.health import LIMIT_S, LONGEST_S
from tests.loop_watchdog import STALL_S, Stall

MEBIBYTE: Final = 1 << 20
SLACK_BYTES: Final = 64 * MEBIBYTE
CALLBACK_S: Final = STALL_S
"""CPU time that a loop's thread may spend in one callback, and in one collection of garbage."""

QUESTIONS_TO_A_LATE_ONE: Final = 1000


@dataclass
class FuzzReport:
    """What a run came to; anything in `wrong` is a failure."""

    store: str
    seed: int
    hostile: int = 0
    legal: int = 0
    redis_values: int = 0
    seconds: float = 0.0
    phases_s: dict[str, float] = field(default_factory=dict)
    """How long each part of the run took."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    """What each process of the fleet took of the processors during the attack."""

    sender_cpu_s: float = 0.0
    sent_mib: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    asked_again: Counter[str] = field(default_factory=Counter)
    slowest: list[Any] = field(default_factory=list)
    health: dict[str, Any] = field(default_factory=dict)
    rss_idle_mib: dict[str, int] = field(default_factory=dict)
    rss_most_mib: dict[str, int] = field(default_factory=dict)
    stalls: dict[str, list[str]] = field(default_factory=dict)
    """What held each loop longest, in CPU time."""

    log_rows: int = 0
    wrong: list[str] = field(default_factory=list)


def described(report: FuzzReport) -> str:
    return json.dumps(vars(report), indent=1)


def wrong_with_memory(idle: Mapping[str, int], most: Mapping[str, int]) -> list[str]:
    """Say which gateway has grown beyond twice its idle size."""
    return [
        f"gateway {name} grew from {idle[name] // MEBIBYTE} to {size // MEBIBYTE} MiB"
        for name, size in most.items()
        if size > 2 * idle[name] + SLACK_BYTES
    ]


def wrong_with_health(health: Mapping[str, Any]) -> list[str]:
    """Say which gateway was not alive in time."""
    wrong = []
    for name, health_told in health.items():
        if health_told["unanswered"]:
            wrong.append(
                f"gateway {name}: {health_told['unanswered']} questions after health unanswered"
            )
        if health_told["late_for_certain"]:
            wrong.append(
                f"gateway {name}: {health_told['late_for_certain']} answers about health after more"
                f" than {LIMIT_S * 1000:.0f} ms that were its own for certain"
            )
        # What a thread waits for another that waits for a processor is the machine's time too, and
        # not all of it can be told from the gateway's.
        is_late_often = health_told["late"] > max(
            1, health_told["asked"] // QUESTIONS_TO_A_LATE_ONE
        )
        wrong += [
            f"gateway {name}: health after {answer['own_s'] * 1000:.0f} ms of its own"
            f" ({answer['elapsed_s'] * 1000:.0f} ms in all), {answer['at_s']:.1f} s after the begin"
            for answer in health_told["worst"]
            if answer["own_s"] > (LIMIT_S if is_late_often else LONGEST_S)
        ]
        if not health_told["asked"]:
            wrong.append(f"gateway {name}: nobody asked after its health")
    return wrong


def wrong_with_loops(held: Mapping[str, Sequence[Stall]]) -> list[str]:
    """Say which loop was held for longer than a callback may take."""
    return [
        f"gateway {name}: {stall}"
        for name, stalls in held.items()
        for stall in stalls
        if stall.measure == "callback" and stall.longer_than(CALLBACK_S)
    ]
