"""Capacity leases: at most so many holders of a named resource at a time.

What is guaranteed: while Redis keeps its data and its clock moves forwards, no more than
`slots` unexpired leases of a resource exist, and each new lease has a higher token than every
one before it.

What is not: after a flush or a lost Redis, old holders still believe in their leases, new ones
are given out beside them, and tokens start again from 1. A holder that is paused beyond its
time does not know it. So leases are advisory: they limit load. Correctness never depends on
them; that a result is recorded once is the work of the open request in the ledger.
"""

from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from queues.items import DURATION_MS_MAX, check_name, check_range
from queues.scripting import Clock, Scripts

SLOTS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Lease:
    """One slot of a resource, held until it expires."""

    resource: str
    holder: str
    token: int
    """Fencing number: higher than that of every earlier lease of the resource."""
    expires_at_ms: int


class CapacityLeases:
    """Named resources with slots on Redis.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached, and
    `queue_argument_invalid` for names and numbers outside their ranges. A cancelled acquire may
    hold a slot until it expires; asking again as the same holder gets it back.
    """

    def __init__(self, redis: Redis, clock: Clock | None = None) -> None:
        self._scripts = Scripts(redis, "", clock)

    async def acquire(self, resource: str, slots: int, holder: str, ttl_ms: int) -> Lease | None:
        """Take a slot for `ttl_ms`, or None when all of `slots` (1..10 000) are taken.

        A holder has one slot at most: asking again keeps it and ends the lease it had before.
        """
        check_range("slots", slots, 1, SLOTS_MAX)
        check_range("ttl_ms", ttl_ms, 1, DURATION_MS_MAX)
        scripts = self._of(resource)
        reply = await scripts.run("lease_acquire", scripts.now(), slots, check_name(holder), ttl_ms)
        return Lease(resource, holder, reply[0], reply[1]) if reply else None

    async def renew(self, lease: Lease, ttl_ms: int) -> bool:
        """Keep a lease for `ttl_ms` from now; False when it is lost."""
        check_range("ttl_ms", ttl_ms, 1, DURATION_MS_MAX)
        scripts = self._of(lease.resource)
        reply = await scripts.run("lease_renew", scripts.now(), lease.holder, lease.token, ttl_ms)
        return bool(reply == 1)

    async def release(self, lease: Lease) -> bool:
        """Free the slot; False when it was lost before."""
        reply = await self._of(lease.resource).run("lease_release", lease.holder, lease.token)
        return bool(reply == 1)

    async def held(self, resource: str) -> list[Lease]:
        """Return the unexpired leases of a resource, the first to expire first."""
        scripts = self._of(resource)
        rows = await scripts.run("lease_held", scripts.now())
        return [Lease(resource, holder.decode(), token, at) for holder, token, at in rows]

    def _of(self, resource: str) -> Scripts:
        return self._scripts.at(f"rotulus:{{lease:{check_name(resource)}}}:")
