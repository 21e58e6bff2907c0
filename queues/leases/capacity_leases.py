"""Leases capacity: named resources with slots, cost and a reserve for each capacity priority.

A lease is one slot and some cost of a resource, for a time, under a fencing token. A priority and
those below it together stay below the ceiling that its `Capacity` gives them (decision
queues/0022). Cost that was used up without asking (`draw`) is held in the same way, for a time and
without a slot (decision queues/0023).

Guaranteed, while one Redis keeps its data:
- No grant takes slots or cost beyond a ceiling of the capacity that its caller states. Two callers
  that state different capacities are each judged by their own; a smaller one ends no lease.
- Each grant has a higher token than every earlier one of its resource, and a lease that expired,
  was released, or was asked for again by its holder is renewed and released by nobody.
- A step happened wholly or not at all, and may be sent again: a holder that asks again has one
  slot, a draw under its name counts once.

Not guaranteed:
- After a flush, a lost or a replaced Redis, old holders believe in their leases until they expire
  or are renewed in vain, new ones are given out beside them, and tokens start again from 1. A
  server that was killed loses at most its last second (`appendfsync everysec`), with the same
  consequence. A resource may be over its capacity by what was forgotten, for one time to live.
- A holder that is paused beyond its time does not know it.
- A draw has happened, so it is never refused: a resource may be over its capacity by what its users
  did between two readings.
- Nothing is kept for who waits. Whoever asks first when there is enough gets it; what must not
  starve has a reserve.

So leases are advisory: they limit load, and losing them costs load and never a result. That a
result is recorded once is the work of the open request in the ledger, and no token of a lease is
asked for there. Nothing on the record depends on what Redis remembers: receipts name a lease, the
log does not (decision kernel/0073).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from types import MappingProxyType
from typing import Any, Final

from redis.asyncio import Redis

from kernel.values.pressure import COST_MAX, Amount, Capacity, CapacityState
from kernel.values.priorities import CAPACITY_PRIORITIES, CapacityPriority
from queues.errors import QueueError
from queues.queue.items import DURATION_MS_MAX, NAME_BYTES_MAX, check_name, check_range
from queues.redis.decoding import records, row, text, whole
from queues.redis.keys import prefix_of
from queues.redis.scripts import Clock, Scripts

CAPACITY_RESOURCE: Final = "binding_evaluation"
"""The resource of which each evaluation of bindings in the fleet holds a slot."""

SLOTS_MAX: Final = 10_000
_MILLIONTHS: Final = 1_000_000
_GRANTED: Final = row(whole(1), whole(0))
_HELD: Final = row(
    text(NAME_BYTES_MAX), whole(), whole(0), whole(0, len(CAPACITY_PRIORITIES) - 1), whole(0)
)
_NO_COSTS: Final[Mapping[CapacityPriority, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Lease:
    """One slot of a resource and its cost, held until it expires."""

    resource: str
    holder: str
    token: int
    """Fencing number: higher than that of every earlier lease of the resource."""
    expires_at_ms: int
    capacity_priority: CapacityPriority = "background"
    cost: float = 0.0


class CapacityLeases:
    """Named resources on Redis.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached, and
    `queue_argument_invalid` for names and numbers outside their ranges. A cancelled acquire may
    hold a slot until it expires; asking again as the same holder gets it back.
    """

    def __init__(self, redis: Redis, clock: Clock | None = None) -> None:
        self._scripts = Scripts(redis, "", clock)

    async def acquire(
        self,
        resource: str,
        capacity: Capacity | int,
        holder: str,
        ttl_ms: int,
        *,
        capacity_priority: CapacityPriority = "background",
        cost: float = 0.0,
    ) -> Lease | None:
        """Take one slot and `cost` for `ttl_ms`, or None where not as much is left (§18.2).

        Args:
            resource: what is leased.
            capacity: how much there is of it; a number is so many slots (1..10 000) of any cost.
            holder: has one lease of a resource at most. Asking again ends the one before, or is
                refused and leaves it. Who is refused counts as waiting for `ttl_ms`.
            ttl_ms: until when the lease is held, from now.
            capacity_priority: whose reserves it may draw on.
            cost: at most 10^9, in the unit of `estimated_capacity_cost`.

        Raises:
            QueueError: also `lease_too_large` when it asks for more than it can ever be given.
        """
        if isinstance(capacity, int):
            check_range("slots", capacity, 1, SLOTS_MAX)
            capacity = Capacity.of_slots(capacity)
        check_range("ttl_ms", ttl_ms, 1, DURATION_MS_MAX)
        if not capacity.ceiling(capacity_priority).covers(Amount(1, cost)):
            raise QueueError(
                "lease_too_large", f"{resource} never has as much for {capacity_priority}"
            )
        limits = [
            limit
            for most in capacity.ceilings()
            for limit in (
                _limit("slots", most.slots, SLOTS_MAX),
                "" if most.cost == inf else _millionths(most.cost),
            )
        ]
        scripts = self._of(resource)
        rank = CAPACITY_PRIORITIES.index(capacity_priority)
        arguments = (check_name(holder), ttl_ms, rank, _millionths(cost), *limits)
        reply = await scripts.run("lease_acquire", scripts.now(), *arguments)
        if not reply:
            return None
        token, expires_at_ms = _GRANTED(reply)
        return Lease(resource, holder, token, expires_at_ms, capacity_priority, cost)

    async def renew(self, lease: Lease, ttl_ms: int) -> bool:
        """Keep a lease for `ttl_ms` from now; False when it is lost."""
        check_range("ttl_ms", ttl_ms, 1, DURATION_MS_MAX)
        scripts = self._of(lease.resource)
        reply = await scripts.run("lease_renew", scripts.now(), lease.holder, lease.token, ttl_ms)
        return bool(reply == 1)

    async def release(self, lease: Lease) -> bool:
        """Free a lease's slot and cost (§18.2); return False when it was lost before."""
        reply = await self._of(lease.resource).run("lease_release", lease.holder, lease.token)
        return bool(reply == 1)

    async def draw(
        self,
        resource: str,
        capacity: Capacity,
        name: str,
        costs: Mapping[CapacityPriority, float],
        ttl_ms: int,
    ) -> CapacityState:
        """Hold what was used up for `ttl_ms` from now, and return the state after it.

        Under a `name` that is known a cost replaces what was drawn under it, so the same draw may
        be sent again, or a larger one in its place.
        """
        check_range("ttl_ms", ttl_ms, 1, DURATION_MS_MAX)
        scripts = self._of(resource)
        used = [_millionths(costs.get(priority, 0.0)) for priority in CAPACITY_PRIORITIES]
        reply = await scripts.run("lease_draw", scripts.now(), check_name(name), ttl_ms, *used)
        return _state(capacity, reply)

    async def state(self, resource: str, capacity: Capacity) -> CapacityState:
        """Return what is held and who waits, by priority, in one round trip."""
        return await self.draw(resource, capacity, "-", _NO_COSTS, 1)

    async def active_leases(self, resource: str) -> list[Lease]:
        """Return the unexpired leases of a resource, the first to expire first."""
        scripts = self._of(resource)
        rows = await scripts.run("lease_held", scripts.now())
        return [
            Lease(resource, holder, token, at, CAPACITY_PRIORITIES[rank], cost / _MILLIONTHS)
            for holder, token, at, rank, cost in records("lease", rows, _HELD)
        ]

    def _of(self, resource: str) -> Scripts:
        return self._scripts.at(prefix_of(self._scripts.redis, f"lease:{check_name(resource)}"))


def _millionths(cost: float) -> int:
    if not 0 <= cost <= COST_MAX:
        raise QueueError("queue_argument_invalid", f"cost must be 0..{COST_MAX:g}, not {cost}")
    return round(cost * _MILLIONTHS)


def _limit(name: str, most: float, highest: int) -> int | str:
    if most == inf:
        return ""
    if not isfinite(most) or most != int(most):
        raise QueueError("queue_argument_invalid", f"{name} must be whole, not {most}")
    return check_range(name, int(most), 0, highest)


def _state(capacity: Capacity, reply: Any) -> CapacityState:
    free_in_ms, *by_priority = reply
    slots, costs, waiting = by_priority[0::3], by_priority[1::3], by_priority[2::3]
    return CapacityState(
        capacity,
        tuple(
            Amount(*amount) for amount in zip(slots, (c / _MILLIONTHS for c in costs), strict=True)
        ),
        tuple(waiting),
        None if free_in_ms < 0 else free_in_ms,
    )
