"""Holds a worker's lease of capacity: slots of a resource, and one more for critical work."""

from math import inf

import anyio

from kernel.values.pressure import ONE_SLOT, Amount, Capacity
from kernel.values.priorities import CapacityPriority
from queues.errors import QueueError
from queues.leases.capacity_leases import CapacityLeases, Lease

RELEASE_S = 0.5


def capacity_of(slots: int) -> Capacity:
    """Return a capacity of `slots` for everybody and one more that only critical work may take."""
    return Capacity(Amount(slots + 1, inf), {"critical": ONE_SLOT})


class LeaseHolder:
    """Holds one lease at a time, of any resource."""

    def __init__(self, leases: CapacityLeases, name: str, ttl_ms: int) -> None:
        """Hold nothing yet; `name` is unique, and a lease lasts `ttl_ms` unless it is renewed."""
        self._leases = leases
        self.name = name
        self._ttl_ms = ttl_ms
        self.lease: Lease | None = None

    async def hold(self, resource: str, capacity: Capacity, priority: CapacityPriority) -> bool:
        """Renew or acquire a lease of this resource at this priority; False when refused.

        A lease of another resource is released first. A lease of this resource at another priority
        is kept when the new one is refused.
        """
        lease = self.lease
        if lease is not None and lease.resource != resource:
            await self.release()
        elif lease is not None and lease.capacity_priority == priority and await self.renew():
            return True
        acquired = await self._leases.acquire(
            resource, capacity, self.name, self._ttl_ms, capacity_priority=priority
        )
        self.lease = acquired or self.lease
        return acquired is not None

    async def renew(self) -> bool:
        """Keep the lease for another time to live; False when there is none any more."""
        lease = self.lease
        if lease is not None and not await self._leases.renew(lease, self._ttl_ms):
            # Another may have been taken meanwhile.
            self.lease = None if self.lease is lease else self.lease
        return self.lease is not None

    async def release(self) -> None:
        """Give the lease back, if there is one; where Redis is away it expires."""
        lease, self.lease = self.lease, None
        if lease is None:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(RELEASE_S):
            try:
                await self._leases.release(lease)
            except QueueError:
                return
