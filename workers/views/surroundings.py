"""Reads what Redis and the fleet say around an open request, for doors that say why it waits."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from actors.sharding.assignment import REQUESTS_OF
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.work.contents import BINDING_QUEUE
from queues.errors import QueueError
from queues.fleet.worker_heartbeats import Heartbeats
from queues.leases.capacity_leases import CAPACITY_RESOURCE, CapacityLeases
from queues.queue.work_queue import WorkQueue
from workers.views.waiting import (
    CapacityHolder,
    RecordedHold,
    Surroundings,
    held_back,
    why_waiting,
)

T = TypeVar("T")


class FleetServices(Protocol):
    """What is needed of a gateway's services to look around a request."""

    @property
    def ledger(self) -> Ledger:
        """The ledger, for its clock."""

    @property
    def queues(self) -> Mapping[str, WorkQueue]:
        """Every queue, by name."""

    @property
    def leases(self) -> CapacityLeases:
        """Who holds what is leased."""

    @property
    def heartbeats(self) -> Heartbeats:
        """The living workers."""

    @property
    def slots(self) -> Mapping[str, int]:
        """How many slots the whole fleet has, by resource."""

    @property
    def absent_owner(self) -> Callable[[str], str | None]:
        """See `GatewayCluster.absent_owner`."""

    async def read(self, question: Callable[[LedgerView], T]) -> T:
        """Answer a question from a snapshot of the ledger."""


async def why_open(services: FleetServices, queue: str, request_id: str) -> str | None:
    """Say why a request waits; None where it has its outcome.

    Raises:
        WorkRefused: `work_request_unknown`.
    """
    now_us = services.ledger.host.now_us()
    held = await services.read(lambda view: held_back(view, request_id, now_us))
    if held is None:
        return None
    if queue not in services.queues:
        return held.reason or "a gateway does it by itself, in the order of the record"
    try:
        around = await _surroundings(services, queue, held)
    except QueueError:
        around = None
    return why_waiting(held, around)


async def _surroundings(services: FleetServices, queue: str, held: RecordedHold) -> Surroundings:
    """Return what is around a request; of what it needs, the holders of what is full."""
    place = await services.queues[queue].locate(held.item)
    beats = await services.heartbeats.alive()
    workers = sum(queue in beat.queues for beat in beats)
    # Until it stands in its queue it waits for who relays, afterwards for who records its result.
    session_id = REQUESTS_OF.format(queue) if place is None else held.session_id
    away = None if session_id is None else services.absent_owner(session_id)
    for resource in (queue, *([CAPACITY_RESOURCE] if queue == BINDING_QUEUE else [])):
        slots, leases = services.slots.get(resource, 0), await services.leases.held(resource)
        if len(leases) >= slots > 0:
            holders = [CapacityHolder(lease.holder, lease.expires_at_ms) for lease in leases]
            return Surroundings(place, workers, holders, away)
    return Surroundings(place, workers, away_gateway=away)
