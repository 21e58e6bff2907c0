"""Reads what Redis and the fleet say around an open request, for doors that say why it waits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from actors.sharding.assignment import REQUESTS_OF
from actors.sharding.held_shards import HeldShards
from kernel.ledger.ledger import Ledger
from kernel.records.access.readable_view import ReadableView
from kernel.work.contents import BINDING_QUEUE
from queues.errors import QueueError
from queues.fleet.worker_heartbeats import Heartbeats
from queues.gateways.shard_mailboxes import ShardMail
from queues.leases.capacity_leases import CAPACITY_RESOURCE, CapacityLeases
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import RedisClient
from queues.redis.watch import RedisWatch
from workers.views.waiting import (
    CapacityHolder,
    RecordedHold,
    Surroundings,
    why_waiting,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkServices:
    """The queues and whoever serves them, as a gateway reaches them through Redis."""

    queues: dict[str, WorkQueue]
    """Every queue that a relay serves, by name; registered ones come and go."""

    leases: CapacityLeases
    heartbeats: Heartbeats
    redis: RedisClient
    redis_watch: RedisWatch
    slots: dict[str, int] = field(default_factory=dict)
    """How many slots the whole fleet has, by the resource of which they are leased."""


@dataclass(frozen=True, slots=True)
class FleetServices:
    """The other gateways: whose a session is, and how it is reached."""

    held_shards: HeldShards | None = None
    """The shards of this gateway; None where it has its ledger to itself by construction."""

    mail: ShardMail | None = None
    """The mailboxes of the shards; None as for `held_shards`."""

    owner_url: Callable[[str], str | None] = lambda _: None
    """The URL of the other gateway that owns a session, where it advertises one."""

    absent_owner: Callable[[str], str | None] = lambda _: None
    """The gateway of a session that no living gateway owns; see `GatewayCluster.absent_owner`."""

    absent_owners: Callable[[], Mapping[int, str]] = dict
    """By shard that no living gateway owns its gateway on the record, as for `absent_owner`."""

    gateway_urls: Callable[[], Mapping[str, str]] = dict
    """The URLs that the living gateways advertise, by their names."""


class RequestServices(Protocol):
    """What is needed of a gateway's services to look around a request."""

    @property
    def ledger(self) -> Ledger:
        """The ledger, for its clock."""

    @property
    def work(self) -> WorkServices:
        """The queues and whoever serves them."""

    @property
    def fleet(self) -> FleetServices:
        """The other gateways."""

    async def read(self, question: Callable[[ReadableView], T]) -> T:
        """Answer a question from a snapshot of the ledger."""


async def why_open(services: RequestServices, queue: str, held: RecordedHold | None) -> str | None:
    """Say why a request waits of which the record says this; None where it has its outcome."""
    if held is None:
        return None
    if queue not in services.work.queues:
        return held.reason or "a gateway does it by itself, in the order of the record"
    try:
        around = await _surroundings(services, queue, held)
    except QueueError:
        around = None
    return why_waiting(held, around)


async def _surroundings(services: RequestServices, queue: str, held: RecordedHold) -> Surroundings:
    """Return what is around a request; of what it needs, the holders of what is full."""
    place = await services.work.queues[queue].locate(held.item)
    beats = await services.work.heartbeats.alive()
    workers = sum(queue in beat.queues for beat in beats)
    # Until it stands in its queue it waits for who relays, afterwards for who records its result.
    session_id = REQUESTS_OF.format(queue) if place is None else held.session_id
    away = None if session_id is None else services.fleet.absent_owner(session_id)
    for resource in (queue, *([CAPACITY_RESOURCE] if queue == BINDING_QUEUE else [])):
        slots, leases = (
            services.work.slots.get(resource, 0),
            await services.work.leases.active_leases(resource),
        )
        if len(leases) >= slots > 0:
            holders = [CapacityHolder(lease.holder, lease.expires_at_ms) for lease in leases]
            return Surroundings(place, workers, holders, away)
    return Surroundings(place, workers, away_gateway=away)
