"""Lists the priorities of each queue (`kernel.work.queue_kinds`) with ranks and service targets.

An item's deadline is the moment it was asked for plus the service target of its priority. The
first priority of a queue is served before everything else; among the others the earliest
deadline is served first, so that a less urgent item waits while a more urgent one is ready, and
no longer than the difference of their targets (decision queues/0010).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.values.priorities import CAPACITY_PRIORITIES, CapacityPriority, capacity_priority_of
from kernel.work.queue_kinds import QUEUE_KINDS


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


def priorities_of(queue: str) -> tuple[Priority, ...]:
    """Return the priorities of a queue, the most urgent first; none of a queue unknown here."""
    kind = QUEUE_KINDS.get(queue)
    rows = () if kind is None else kind.priorities
    return tuple(
        Priority(row.name, rank, 1000 * row.service_target_s) for rank, row in enumerate(rows)
    )


PRIORITIES: Final = priorities_of(AUTHORITY_QUEUE)


def least_of(priorities: Sequence[Priority], capacity: CapacityPriority) -> str | None:
    """Return the least urgent priority that draws as this capacity priority or as one above it.

    None where there is no such priority. Hand it to `WorkQueue.claim` as `least_urgent`.
    """
    enough = CAPACITY_PRIORITIES[CAPACITY_PRIORITIES.index(capacity) :]
    names = [row.name for row in priorities if row.capacity in enough]
    return names[-1] if names else None
