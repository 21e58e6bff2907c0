"""From a seed to the faults of a run: what, when, whom and for how long; pure.

Time is cut into one slot for each fault. A fault begins somewhere in its slot and ends within it,
so that whatever goes wrong has one cause. A pause goes past the lease of a shard (2 s in these
runs). Every kind comes once before any comes twice, in an order that the seed decides.
"""

from dataclasses import dataclass
from random import Random
from typing import Literal

Kind = Literal[
    "kill_gateway",
    "kill_worker",
    "pause_gateway",
    "pause_worker",
    "flush_redis",
    "restart_redis",
    "restart_postgres",
    "delay_redis",
    "delay_postgres",
    "cut_redis",
    "cut_postgres",
]

KINDS: tuple[Kind, ...] = (
    "kill_gateway",
    "kill_worker",
    "pause_gateway",
    "pause_worker",
    "flush_redis",
    "restart_redis",
    "restart_postgres",
    "delay_redis",
    "delay_postgres",
    "cut_redis",
    "cut_postgres",
)

GATEWAYS = ("a", "b")
WORKERS = ("w0", "w1", "w2")

SLOT_S_MIN = 4.0
PAUSE_S_MIN = 2.5
"""Longer than the lease of a shard in these runs, so that a pause always goes past it."""

DELAY_MS_MAX = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """One disturbance; times are seconds from the beginning of the run."""

    at_s: float
    kind: Kind
    target: str
    """A process's name, empty where the kind has one target alone."""

    lasts_s: float
    delay_ms: int = 0
    """Added to each piece of data in each direction; only of delays."""


def schedule(seed: int, seconds: float, slot_s: float = SLOT_S_MIN) -> list[Fault]:
    """Return the faults of a run, in order; the same for the same arguments.

    Raises:
        ValueError: when a slot is too short for a pause, or not every kind has a slot.
    """
    slots = int(seconds / slot_s)
    if slot_s < SLOT_S_MIN or slots < len(KINDS):
        raise ValueError(f"{len(KINDS)} faults need {len(KINDS) * SLOT_S_MIN:g} s")
    random = Random(seed)
    kinds: list[Kind] = []
    while len(kinds) < slots:
        kinds += random.sample(KINDS, len(KINDS))
    return [_fault(random, kind, slot * slot_s, slot_s) for slot, kind in enumerate(kinds[:slots])]


def _fault(random: Random, kind: Kind, begins_s: float, slot_s: float) -> Fault:
    room_s = slot_s - PAUSE_S_MIN
    late_s, more_s = sorted(random.uniform(0, room_s) for _ in range(2))
    paused = kind.startswith("pause")
    lasts_s = PAUSE_S_MIN + more_s - late_s if paused else random.uniform(0.1, PAUSE_S_MIN)
    target = ""
    if kind.endswith("gateway"):
        target = random.choice(GATEWAYS)
    elif kind.endswith("worker"):
        target = random.choice(WORKERS)
    delay_ms = random.randint(5, DELAY_MS_MAX) if kind.startswith("delay") else 0
    return Fault(round(begins_s + late_s, 3), kind, target, round(lasts_s, 3), delay_ms)
