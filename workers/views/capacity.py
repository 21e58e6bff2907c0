"""Shows the capacity that workers share: each resource with its slots and who holds them."""

from dataclasses import dataclass

from kernel.work.contents import BINDING_QUEUE
from queues.leases.capacity_leases import CAPACITY_RESOURCE, Lease
from workers.views.surroundings import WorkServices

HELD_SHOWN = 64


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """A resource, and who holds how much of it."""

    resource: str
    slots: int
    used: int
    leases: tuple[Lease, ...]
    """Those that expire first."""


async def capacity_use(work: WorkServices) -> list[ResourceUse]:
    """Return the use of every resource of which work takes slots.

    Raises:
        QueueError: `queue_unavailable`.
    """
    uses = []
    further = [CAPACITY_RESOURCE] if BINDING_QUEUE in work.queues else []
    for resource in (*tuple(work.queues), *further):
        held = await work.leases.active_leases(resource)
        slots = work.slots.get(resource, 0)
        uses.append(ResourceUse(resource, slots, len(held), tuple(held[:HELD_SHOWN])))
    return uses
