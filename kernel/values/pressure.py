"""Decides what of a resource under pressure is left for whom, and what waiting work does then.

A resource has slots and cost, and a reserve for each of the three capacity priorities (§14.2). A
priority and those below it together never hold more than what there is without the reserves above
it, so a reserve is used by its own priority before anything else, and nobody below can take it.

Nothing here waits, and nothing here asks: a state is read elsewhere and handed in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, isfinite
from typing import Final, Literal

from kernel.values.priorities import CAPACITY_PRIORITIES, CapacityPriority

ANY_KIND: Final = "any"
"""The kind on whose capacity operation kinds draw that have none of their own."""

COST_MAX: Final = 1e9
"""Limit of the cost of a lease, and of a resource with limited cost, kept to the millionth."""

DEFAULT_THROTTLE_OPS_PER_SEC: Final = 100
THROTTLE_MS_MIN: Final = 20
THROTTLE_MS_MAX: Final = 1000
SUSPEND_MS_MAX: Final = 5000


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of a resource: slots and cost."""

    slots: float = 0
    cost: float = 0.0
    """The cost, in the unit of `estimated_capacity_cost`."""

    def covers(self, other: "Amount") -> bool:
        """Tell whether another amount fits into this one."""
        return self.slots >= other.slots and self.cost >= other.cost

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.slots + other.slots, self.cost + other.cost)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.slots - other.slots, self.cost - other.cost)


NOTHING: Final = Amount()
ONE_SLOT: Final = Amount(slots=1)
NOTHING_HELD: Final = (NOTHING,) * len(CAPACITY_PRIORITIES)
ByPriority = tuple[Amount, ...]
"""An amount for each of CAPACITY_PRIORITIES, in their order."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much of a resource there is, and how much is reserved for each priority.

    Raises:
        ValueError: when an amount is negative, or more is reserved than there is.
    """

    total: Amount = field(default=Amount(inf, inf))
    reserves: Mapping[CapacityPriority, Amount] = field(default_factory=dict)
    """What a priority and those above it alone may take, beside the reserves of those above."""

    def __post_init__(self) -> None:
        reserved = sum(self.reserves.values(), NOTHING)
        amounts = (self.total, *self.reserves.values())
        finite = isfinite(reserved.slots) and isfinite(reserved.cost)
        within = finite and self.total.covers(reserved)
        if not within or not all(amount.covers(NOTHING) for amount in amounts):
            raise ValueError("a reserve is a part of what there is")

    @classmethod
    def of_slots(cls, slots: int) -> "Capacity":
        """Return a capacity of slots without reserves and without a limit of cost."""
        return cls(Amount(slots, inf))

    def ceilings(self) -> ByPriority:
        """Return what each priority and those below it may hold together."""
        above = [self.reserves.get(name, NOTHING) for name in CAPACITY_PRIORITIES[:0:-1]]
        reserves = list(accumulate(above, initial=NOTHING))
        return tuple(self.total - amount for amount in reversed(reserves))

    def ceiling(self, priority: CapacityPriority) -> Amount:
        """Return the most that a priority can ever have."""
        return self.ceilings()[CAPACITY_PRIORITIES.index(priority)]

    def available(self, priority: CapacityPriority, held: ByPriority) -> Amount:
        """Return what a priority can still take while so much is held; below zero if too much is.

        The tightest ceiling decides: its own, or one above that holdings of its own fill as well.
        """
        first = CAPACITY_PRIORITIES.index(priority)
        together = list(accumulate(held))
        free = [top - used for top, used in zip(self.ceilings(), together, strict=True)][first:]
        return Amount(min(amount.slots for amount in free), min(amount.cost for amount in free))


@dataclass(frozen=True, slots=True)
class CapacityState:
    """What is held of a resource, and how many wait for it, at one moment."""

    capacity: Capacity
    held: ByPriority = NOTHING_HELD
    waiting: tuple[int, ...] = (0,) * len(CAPACITY_PRIORITIES)
    """How many were refused and still ask, by priority."""

    free_in_ms: int | None = None
    """When the first of what is held ends by itself; None where nothing is held."""

    def available(
        self, priority: CapacityPriority, used_since: ByPriority = NOTHING_HELD
    ) -> Amount:
        """Return what a priority can still take, less what was used since the state was read."""
        held = tuple(amount + used for amount, used in zip(self.held, used_since, strict=True))
        return self.capacity.available(priority, held)


@dataclass(frozen=True, slots=True)
class Course:
    """The course that waiting work takes now: it runs, runs after a pause, or is suspended."""

    action: Literal["run", "throttle", "suspend"]
    for_ms: int = 0
    """How long to pause before running (throttle) or asking again (suspend); 0 to run at once."""


RUN: Final = Course("run")


def course_of(
    state: CapacityState | None, priority: CapacityPriority, amount: Amount = ONE_SLOT
) -> Course:
    """Say what work of a priority does under the pressure that a state shows (§14.2, §14.3).

    Where what it wants is left for it, it runs. Else `critical` runs all the same, `user_initiated`
    runs after a pause as long as it takes until something may be free (20 ms to 1 s), and
    `background` suspends. A state of None, when it cannot be read, is pressure.

    Whoever suspends an item keeps the time at which it was first suspended. When this says run
    again, suspended items go first, the earliest suspended of them before the others, and before
    work that arrived since; suspending again does not change an item's time.
    """
    if priority == "critical" or (state is not None and state.available(priority).covers(amount)):
        return RUN
    known = None if state is None else state.free_in_ms
    if priority == "user_initiated":
        pause_ms = THROTTLE_MS_MAX if known is None else known
        return Course("throttle", min(max(pause_ms, THROTTLE_MS_MIN), THROTTLE_MS_MAX))
    pause_ms = SUSPEND_MS_MAX if known is None else known
    return Course("suspend", min(max(pause_ms, THROTTLE_MS_MIN), SUSPEND_MS_MAX))


def capacity_signal(
    state: CapacityState | None,
    priority: CapacityPriority,
    queue_depth: int,
    amount: Amount = ONE_SLOT,
) -> dict[str, str | int]:
    """Return `capacity_signal_at_rejection` as §14.5 has it.

    The lease state is `granted`, `exhausted` (for this priority), or `unknown`, which counts no
    operations in flight.
    """
    if state is None:
        lease_state, inflight = "unknown", 0
    else:
        lease_state = "granted" if state.available(priority).covers(amount) else "exhausted"
        inflight = int(sum(held.slots for held in state.held))
    return {
        "ec_capacity_lease_state": lease_state,
        "queue_depth": queue_depth,
        "inflight_operations": inflight,
    }
