"""The queues, and the priorities of each (`kernel.priorities`) with ranks and service targets.

An item's deadline is the moment it was asked for plus the service target of its priority. The
first priority of a queue is served before everything else; among the others the earliest
deadline is served first, so that a less urgent item waits while a more urgent one is ready, and
no longer than the difference of their targets (decision queues/0010).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kernel.priorities import CAPACITY_PRIORITIES, CapacityPriority, capacity_priority_of


@dataclass(frozen=True, slots=True)
class Priority:
    """A row of a queue's table."""

    name: str
    rank: int
    """0 is the most urgent; also the number of the ready set. At most 4."""
    service_target_ms: int

    @property
    def capacity(self) -> CapacityPriority:
        """The capacity priority, one of three, as which this one draws on capacity."""
        return capacity_priority_of(self.name)


_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS

QUEUES: Final[dict[str, tuple[Priority, ...]]] = {
    # §8.3
    "authority-recompute": (
        Priority("user_initiated_critical", 0, 5 * _SECOND_MS),
        Priority("user_active_session", 1, 30 * _SECOND_MS),
        Priority("high_access_frequency", 2, 5 * _MINUTE_MS),
        Priority("background_normal", 3, _HOUR_MS),
        # Best effort; the deadline only keeps it from waiting for ever.
        Priority("background_low_priority", 4, 24 * _HOUR_MS),
    ),
    # §14.2
    "binding-evaluation": (
        Priority("critical", 0, 5 * _SECOND_MS),
        Priority("user_initiated", 1, 30 * _SECOND_MS),
        Priority("background", 2, _HOUR_MS),
    ),
    # A person's reentry or cancellation, the work of an ingest, the sweeps.
    "extraction-transition": (
        Priority("user_initiated", 0, 5 * _SECOND_MS),
        Priority("normal", 1, 5 * _MINUTE_MS),
        Priority("background", 2, _HOUR_MS),
    ),
}
"""Most urgent first."""

PRIORITIES: Final = QUEUES["authority-recompute"]


def least_of(priorities: Sequence[Priority], capacity: CapacityPriority) -> str | None:
    """Return the least urgent priority that draws as this capacity priority or as one above it.

    None where there is no such priority. Hand it to `WorkQueue.claim` as `least_urgent`.
    """
    enough = CAPACITY_PRIORITIES[CAPACITY_PRIORITIES.index(capacity) :]
    names = [row.name for row in priorities if row.capacity in enough]
    return names[-1] if names else None
