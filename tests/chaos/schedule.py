"""From a seed to the faults of a run: what, when, whom and for how long; pure.

Time is cut into one stretch for each fault, of as many slots as its kind takes. A fault begins and
ends within its own, so that whatever goes wrong has one cause. What goes past a lease goes past
that of a shard (2 s in these runs). Every kind comes once before any comes twice, in an order that
the seed decides.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

GATEWAYS = ("a", "b")
WORKERS = ("w0", "w1", "w2")


@dataclass(frozen=True, slots=True)
class Kind:
    """What every fault of a kind has."""

    targets: tuple[str, ...] = ("",)
    """The processes of which it meets one; none where it meets a server."""

    past_lease: bool = False
    is_delay: bool = False
    slots: int = 1
    """How many it takes; what starts a program from its beginning takes more than one."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "kill_gateway": Kind(GATEWAYS),
        "kill_worker": Kind(WORKERS),
        "pause_gateway": Kind(GATEWAYS, past_lease=True),
        "pause_writer": Kind(GATEWAYS, past_lease=True),
        "pause_worker": Kind(WORKERS, past_lease=True),
        "worker_of_another_version": Kind(WORKERS, past_lease=True),
        "gateway_of_another_version": Kind(GATEWAYS, past_lease=True, slots=2),
        "gateway_a_day_ahead": Kind(GATEWAYS, past_lease=True, slots=2),
        "flush_redis": Kind(),
        "evict_redis": Kind(),
        "refuse_redis": Kind(),
        "fill_redis": Kind(),
        "busy_redis": Kind(),
        "demote_redis": Kind(past_lease=True),
        "deny_redis": Kind(),
        "lock_redis": Kind(),
        "restart_redis": Kind(),
        "clock_redis": Kind(past_lease=True),
        "restart_postgres": Kind(),
        "fsync_postgres": Kind(past_lease=True),
        "delay_redis": Kind(is_delay=True),
        "delay_postgres": Kind(is_delay=True),
        "cut_redis": Kind(),
        "cut_postgres": Kind(),
        "cut_redis_of_gateway": Kind(GATEWAYS, past_lease=True),
        "cut_postgres_of_gateway": Kind(GATEWAYS, past_lease=True),
        "silence_redis": Kind(),
        "silence_postgres": Kind(),
        # As long, so that the gateway commits in this time.
        "lose_commit": Kind(GATEWAYS, past_lease=True),
        "doubt_commit": Kind(GATEWAYS, past_lease=True),
    }
)

SLOT_S_MIN = 4.0
SECONDS_MIN = sum(kind.slots for kind in KINDS.values()) * SLOT_S_MIN
"""In which every kind comes once."""

PAST_LEASE_S_MIN = 2.5
DELAY_MS_MAX = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """One disturbance; times are seconds from the beginning of the run."""

    at_s: float
    kind: str
    target: str
    """A process's name, empty where the kind meets a server."""

    lasts_s: float
    delay_ms: int = 0
    """Added to each piece of data in each direction; only of delays."""


def schedule(
    seed: int, seconds: float, slot_s: float = SLOT_S_MIN, kinds: Collection[str] = KINDS
) -> list[Fault]:
    """Return the faults of a run, in order; the same for the same arguments.

    Raises:
        ValueError: when a slot is too short for what goes past a lease, or not every kind has one.
    """
    least = sum(KINDS[kind].slots for kind in kinds)
    if slot_s < SLOT_S_MIN or int(seconds / slot_s) < least:
        raise ValueError(f"{len(kinds)} faults need {least * SLOT_S_MIN:g} s")
    random = Random(seed)
    faults: list[Fault] = []
    slot = 0
    while True:
        for name in random.sample(sorted(kinds), len(kinds)):
            if (slot + KINDS[name].slots) * slot_s > seconds:
                return faults
            faults.append(_fault(random, name, slot * slot_s, slot_s))
            slot += KINDS[name].slots


def _fault(random: Random, name: str, begins_s: float, slot_s: float) -> Fault:
    kind = KINDS[name]
    late_s, ends_s = sorted(random.uniform(0, slot_s - PAST_LEASE_S_MIN) for _ in range(2))
    past_s = PAST_LEASE_S_MIN + ends_s - late_s
    lasts_s = past_s if kind.past_lease else random.uniform(0.1, PAST_LEASE_S_MIN)
    delay_ms = random.randint(5, DELAY_MS_MAX) if kind.is_delay else 0
    target = random.choice(kind.targets)
    return Fault(round(begins_s + late_s, 3), name, target, round(lasts_s, 3), delay_ms)
