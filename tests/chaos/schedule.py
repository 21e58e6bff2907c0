"""From a seed to the faults of a run: what, when, whom and for how long; pure.

Time is cut into one slot for each fault. A fault begins somewhere in its slot and ends within it,
so that whatever goes wrong has one cause. What goes past a lease goes past that of a shard (2 s in
these runs). Every kind comes once before any comes twice, in an order that the seed decides.
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


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "kill_gateway": Kind(GATEWAYS),
        "kill_worker": Kind(WORKERS),
        "pause_gateway": Kind(GATEWAYS, past_lease=True),
        "pause_writer": Kind(GATEWAYS, past_lease=True),
        "pause_worker": Kind(WORKERS, past_lease=True),
        "worker_of_another_version": Kind(WORKERS, past_lease=True),
        "flush_redis": Kind(),
        "evict_redis": Kind(),
        "refuse_redis": Kind(),
        "fill_redis": Kind(),
        "busy_redis": Kind(),
        "restart_redis": Kind(),
        "restart_postgres": Kind(),
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
    slots = int(seconds / slot_s)
    if slot_s < SLOT_S_MIN or slots < len(kinds):
        raise ValueError(f"{len(kinds)} faults need {len(kinds) * SLOT_S_MIN:g} s")
    random = Random(seed)
    names: list[str] = []
    while len(names) < slots:
        names += random.sample(sorted(kinds), len(kinds))
    return [_fault(random, name, slot * slot_s, slot_s) for slot, name in enumerate(names[:slots])]


def _fault(random: Random, name: str, begins_s: float, slot_s: float) -> Fault:
    kind = KINDS[name]
    late_s, ends_s = sorted(random.uniform(0, slot_s - PAST_LEASE_S_MIN) for _ in range(2))
    past_s = PAST_LEASE_S_MIN + ends_s - late_s
    lasts_s = past_s if kind.past_lease else random.uniform(0.1, PAST_LEASE_S_MIN)
    delay_ms = random.randint(5, DELAY_MS_MAX) if kind.is_delay else 0
    target = random.choice(kind.targets)
    return Fault(round(begins_s + late_s, 3), name, target, round(lasts_s, 3), delay_ms)
