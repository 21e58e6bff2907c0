"""From a seed to the faults of a run: what, when, whom and for how long; pure.

Time is cut into one stretch for each fault, of as many slots as its kind takes. A fault begins and
ends within its own, so that whatever goes wrong has one cause. What goes past a lease goes past
that of a shard (2 s in these runs). Every kind comes once before any comes twice, in an order that
the seed decides. Which kinds there are depends on the shape of the Redis.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

GATEWAYS = ("a", "b")
WORKERS = ("w0", "w1", "w2")
SINGLE, SENTINELS, CLUSTER = SHAPES = ("single", "sentinels", "cluster")


@dataclass(frozen=True, slots=True)
class Kind:
    """What every fault of a kind has."""

    targets: tuple[str, ...] = ("",)
    """The processes of which it meets one; none where it meets a server."""

    past_lease: bool = False
    is_delay: bool = False
    slots: int = 1
    """How many it takes; what starts a program from its beginning takes more than one."""

    shapes: tuple[str, ...] = SHAPES
    """Of a Redis that this may happen to."""

    reddens: bool = False
    """Whether Redis serves nobody meanwhile, so that each gateway has to say that it is unready."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "kill_gateway": Kind(GATEWAYS),
        "kill_worker": Kind(WORKERS),
        "pause_gateway": Kind(GATEWAYS, past_lease=True),
        "pause_writer": Kind(GATEWAYS, past_lease=True),
        "pause_worker": Kind(WORKERS, past_lease=True),
        "worker_of_another_version": Kind(WORKERS, past_lease=True),
        "gateway_of_another_version": Kind(GATEWAYS, past_lease=True, slots=2),
        "roll_fleet": Kind(slots=3),
        "gateway_a_day_ahead": Kind(GATEWAYS, past_lease=True, slots=2),
        "flush_redis": Kind(),
        "evict_redis": Kind(),
        "refuse_redis": Kind(reddens=True),
        "fill_redis": Kind(reddens=True),
        "busy_redis": Kind(reddens=True),
        # A node of a cluster cannot be made a replica by this command.
        "demote_redis": Kind(past_lease=True, shapes=(SINGLE, SENTINELS), reddens=True),
        "deny_redis": Kind(reddens=True),
        "lock_redis": Kind(reddens=True),
        "restart_redis": Kind(shapes=(SINGLE,), reddens=True),
        "clock_redis": Kind(past_lease=True, shapes=(SINGLE,)),
        "promote_redis": Kind(shapes=(SENTINELS,), slots=2, reddens=True),
        "kill_redis_node": Kind(shapes=(CLUSTER,), slots=2, reddens=True),
        "kill_other_redis_node": Kind(shapes=(CLUSTER,), slots=2, reddens=True),
        "hang_redis": Kind(shapes=(SENTINELS, CLUSTER), slots=2, reddens=True),
        # The one that is to be relieved serves until the other one does.
        "switch_redis": Kind(shapes=(SENTINELS, CLUSTER)),
        "restart_postgres": Kind(),
        "fail_over_postgres": Kind(slots=3),
        "drill_backup": Kind(slots=3),
        "fsync_postgres": Kind(past_lease=True),
        "delay_redis": Kind(is_delay=True, shapes=(SINGLE,)),
        "delay_postgres": Kind(is_delay=True),
        "cut_redis": Kind(shapes=(SINGLE,), reddens=True),
        "cut_postgres": Kind(),
        "cut_redis_of_gateway": Kind(GATEWAYS, past_lease=True, shapes=(SINGLE,), reddens=True),
        "cut_postgres_of_gateway": Kind(GATEWAYS, past_lease=True),
        "silence_redis": Kind(shapes=(SINGLE,), reddens=True),
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


def shape_of(seed: int) -> str:
    """Return the shape that a seed stands for."""
    return SHAPES[seed % len(SHAPES)]


def kinds_of(shape: str) -> list[str]:
    """Return the kinds of fault that may happen on a Redis of a shape."""
    return [name for name, kind in KINDS.items() if shape in kind.shapes]


def is_of_redis(kind: str) -> bool:
    """Tell whether a fault of a kind is one of Redis."""
    return "redis" in kind.split("_")


def is_failover(kind: str) -> bool:
    """Tell whether a replica takes over in a fault of a kind."""
    return SINGLE not in KINDS[kind].shapes


def seconds_min(kinds: Collection[str]) -> float:
    """Return the seconds in which every kind comes once."""
    return sum(KINDS[kind].slots for kind in kinds) * SLOT_S_MIN


def schedule(
    seed: int, seconds: float, kinds: Collection[str], slot_s: float = SLOT_S_MIN
) -> list[Fault]:
    """Return the faults of a run, in order; the same for the same arguments.

    Raises:
        ValueError: when a slot is too short for what goes past a lease, or not every kind has one.
    """
    least_s = seconds_min(kinds)
    if slot_s < SLOT_S_MIN or int(seconds / slot_s) * SLOT_S_MIN < least_s:
        raise ValueError(f"{len(kinds)} faults need {least_s:g} s")
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
