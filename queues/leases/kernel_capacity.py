"""Tells the kernel how much capacity is left, from the newest reading of the leases (§18.2).

The kernel asks in the middle of a transaction, on the committer's thread, and must never wait. So a
task reads the state of each resource every `REFRESH_EVERY_S` and hands in what was used up since,
and the kernel is answered from the newest reading, less what this process has used since then.

A resource is an amount of cost in any stretch of `period_ms`: what an operation used is held for
that long (decision queues/0023). Several gateways on one Redis share it. Between two readings each
of them knows only its own use, so together they may exceed it by what the others used meanwhile.

When Redis cannot be read for `STALE_AFTER_S`, nothing is known and nothing is granted; the strategy
of the policy in force decides what that means (V11). The use meanwhile is kept, and handed in when
Redis is back. A flush forgets what was used before it, which is at most one more capacity in that
period. An operation counts when it was applied, so one that is undone with its whole batch, because
COMMIT failed, has counted for a period; a simulation has not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from threading import Lock
from typing import Final

import anyio
import structlog

from kernel.records.capacity import CapacityGrant
from kernel.values.pressure import ANY_KIND, COST_MAX, Amount, ByPriority, Capacity, CapacityState
from kernel.values.priorities import CAPACITY_PRIORITIES, CapacityPriority, capacity_priority_of
from queues.errors import QueueError
from queues.leases.capacity_leases import CapacityLeases

REFRESH_EVERY_S: Final = 0.25
STALE_AFTER_S: Final = 2.0
_PIECES: Final = 20
"""Pieces of a period: a use is held for the period and at most one piece longer."""

_UNLIMITED = CapacityGrant(granted=True, cost_remaining=float("inf"))

_log = structlog.get_logger(__name__)


def _no_costs() -> dict[CapacityPriority, float]:
    return dict.fromkeys(CAPACITY_PRIORITIES, 0.0)


@dataclass(slots=True)
class _Resource:
    """One resource as this process knows it."""

    name: str
    capacity: Capacity
    state: CapacityState | None = None
    read_at_s: float = float("-inf")
    piece: int = 0
    piece_ends_s: float = float("-inf")
    used: dict[CapacityPriority, float] = field(default_factory=_no_costs)
    """Cost that this process has used in this piece."""

    reported: dict[CapacityPriority, float] = field(default_factory=_no_costs)
    """The part of `used` that `state` includes."""

    def used_since(self) -> ByPriority:
        return tuple(
            Amount(cost=self.used[priority] - self.reported[priority])
            for priority in CAPACITY_PRIORITIES
        )


class LeasedCapacity:
    """The kernel's port of capacity leases; run `run` in a task group.

    `lease` and `draw` may be called from any thread, and hold a lock for no longer than it takes to
    add a few numbers.
    """

    def __init__(
        self,
        leases: CapacityLeases,
        capacities: Mapping[str, Capacity],
        holder: str,
        period_ms: int,
        clock_s: Callable[[], float],
    ) -> None:
        """Bind to the leases; nothing is sent yet.

        Args:
            leases: where capacity is counted.
            capacities: by operation kind, or ANY_KIND; a kind that has neither is without limit.
            holder: a name that no other process has, now or later.
            period_ms: for how long what was used counts.
            clock_s: seconds that never go back.
        """
        self._leases = leases
        self._resources = {
            kind: _Resource(f"kernel:{kind}", capacity) for kind, capacity in capacities.items()
        }
        self._holder = holder
        self._period_ms = period_ms
        self._clock_s = clock_s
        self._lock = Lock()

    def lease(self, operation_kind: str, priority: str) -> CapacityGrant:
        """Return what is left for an operation, by the newest reading."""
        resource = self._of(operation_kind)
        if resource is None:
            return _UNLIMITED
        capacity_priority = capacity_priority_of(priority)
        with self._lock:
            lease_id = f"{resource.name}#{self._holder}.{resource.piece}"
            ceiling = resource.capacity.ceiling(capacity_priority).cost
            state = resource.state
            if state is None or self._clock_s() - resource.read_at_s > STALE_AFTER_S:
                return CapacityGrant(
                    granted=False,
                    cost_remaining=0.0,
                    ec_capacity_lease_id=lease_id,
                    ceiling=ceiling,
                    known=False,
                )
            cost = state.available(capacity_priority, resource.used_since()).cost
            free_in_ms = self._period_ms if state.free_in_ms is None else state.free_in_ms
        return CapacityGrant(
            granted=cost > 0,
            cost_remaining=max(0.0, cost),
            ec_capacity_lease_id=lease_id,
            retry_after_s=max(1, ceil(free_in_ms / 1000)),
            ceiling=ceiling,
        )

    def draw(self, operation_kind: str, priority: str, cost: float) -> None:
        """Count what an operation has used, up to the whole capacity."""
        resource = self._of(operation_kind)
        if resource is not None:
            # An author may state any number; beyond the whole it says nothing more.
            most = min(cost, resource.capacity.total.cost, COST_MAX)
            with self._lock:
                resource.used[capacity_priority_of(priority)] += most

    async def refresh(self) -> None:
        """Hand in what was used and read every resource anew.

        Raises:
            QueueError: `queue_unavailable`; what was not handed in will be by the next call.
        """
        for resource in self._resources.values():
            with self._lock:
                name, used = f"{self._holder}.{resource.piece}", dict(resource.used)
                # What is known already is not handed in again: that would hold it for longer.
                new = {
                    priority: min(cost, COST_MAX)
                    for priority, cost in used.items()
                    if cost != resource.reported[priority]
                }
            asked_at_s = self._clock_s()
            state = await self._leases.draw(
                resource.name, resource.capacity, name, new, self._period_ms
            )
            with self._lock:
                resource.state, resource.read_at_s, resource.reported = state, asked_at_s, used
                if asked_at_s >= resource.piece_ends_s:
                    self._begin_piece(resource, asked_at_s)

    async def run(self) -> None:
        """Refresh until cancelled; a Redis that cannot be reached is tried again.

        Where nothing is limited there is nothing to read, and it returns.
        """
        reached = True
        while self._resources:
            try:
                with anyio.fail_after(STALE_AFTER_S):
                    await self.refresh()
                reached = True
            except (QueueError, TimeoutError) as error:
                if reached:
                    _log.warning("capacity_unknown", error=str(error) or "no answer in time")
                reached = False
            await anyio.sleep(REFRESH_EVERY_S)

    def _of(self, operation_kind: str) -> _Resource | None:
        return self._resources.get(operation_kind) or self._resources.get(ANY_KIND)

    def _begin_piece(self, resource: _Resource, at_s: float) -> None:
        """Open the next piece with what was used since the last reading.

        What was handed in stays held under the name of its own piece.
        """
        resource.used = {
            priority: resource.used[priority] - resource.reported[priority]
            for priority in CAPACITY_PRIORITIES
        }
        resource.reported = _no_costs()
        resource.piece += 1
        resource.piece_ends_s = at_s + self._period_ms / 1000 / _PIECES
