"""Lists the priorities of work: what each queue calls them, and on which capacity they draw.

Three share capacity (§14.2). A queue has names of its own, each of which draws as one of the three,
and a name means the same in every queue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

CapacityPriority = Literal["background", "user_initiated", "critical"]

CAPACITY_PRIORITIES: Final[tuple[CapacityPriority, ...]] = (
    "background",
    "user_initiated",
    "critical",
)
"""The capacity priorities of §14.2, the least first."""


@dataclass(frozen=True, slots=True)
class QueuePriority:
    """A priority of a queue."""

    name: str
    capacity: CapacityPriority
    service_target_s: int
    """How long after it was asked for an item should be begun at the latest."""


_MINUTE_S: Final = 60
_HOUR_S: Final = 60 * _MINUTE_S

BUILT_IN_PRIORITIES: Final[Mapping[str, tuple[QueuePriority, ...]]] = MappingProxyType(
    {
        # §8.3
        "authority-recompute": (
            QueuePriority("user_initiated_critical", "critical", 5),
            QueuePriority("user_active_session", "user_initiated", 30),
            QueuePriority("high_access_frequency", "user_initiated", 5 * _MINUTE_S),
            QueuePriority("background_normal", "background", _HOUR_S),
            # Best effort; the deadline only keeps it from waiting for ever.
            QueuePriority("background_low_priority", "background", 24 * _HOUR_S),
        ),
        # §14.2
        "binding-evaluation": (
            QueuePriority("critical", "critical", 5),
            QueuePriority("user_initiated", "user_initiated", 30),
            QueuePriority("background", "background", _HOUR_S),
        ),
        # A person's reentry or cancellation, the work of an ingest, the sweeps.
        "extraction-transition": (
            QueuePriority("user_initiated", "user_initiated", 5),
            QueuePriority("normal", "user_initiated", 5 * _MINUTE_S),
            QueuePriority("background", "background", _HOUR_S),
        ),
    }
)
"""The priorities of the queues that are part of Rotulus, the most urgent first."""

PRIORITIES_OF: Final[Mapping[str, Mapping[str, CapacityPriority]]] = MappingProxyType(
    {
        queue: MappingProxyType({row.name: row.capacity for row in rows})
        for queue, rows in BUILT_IN_PRIORITIES.items()
    }
)
"""The same by name: how each draws on capacity."""

_capacity_priorities: dict[str, CapacityPriority] = {
    row.name: row.capacity for rows in BUILT_IN_PRIORITIES.values() for row in rows
}


def capacity_priority_of(priority: str) -> CapacityPriority:
    """Return as which of the three a priority of any queue draws; an unknown one is background."""
    return _capacity_priorities.get(priority, "background")


def admit_priorities(rows: Sequence[QueuePriority]) -> None:
    """Take the priorities of a further queue in; all of them, or none.

    Raises:
        ValueError: a name draws on another capacity in another queue.
    """
    for row in rows:
        known = _capacity_priorities.get(row.name, row.capacity)
        if known != row.capacity:
            message = f"the priority {row.name!r} draws as {known!r} in every other queue"
            raise ValueError(message)
    _capacity_priorities.update({row.name: row.capacity for row in rows})
