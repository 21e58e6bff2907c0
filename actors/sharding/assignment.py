"""Assigns sessions to shards, and shards to gateways; pure rules.

1. A session has one shard for ever: the first eight bytes of the SHA-256 of its id, modulo the
   number of shards, which a ledger keeps from its founding on. Work without a session belongs to
   the shard of a session called `system`.
2. Every living gateway has a share, as equal as whole shards allow. It gives up the shards beyond
   its share, and tries for free ones until it has its share.
3. A shard that another gateway holds on the record is free once that gateway is known to be dead.
   While the lease table is unknown, or younger than a lease (a flush forgets the living), nobody is
   known to be dead. Then only shards that nobody holds are free, and those that this gateway held
   itself before it was restarted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from kernel.ledger.shards import NOBODY, Fence, Shard

NO_SESSION = "system"
"""The session of work that belongs to none."""

REQUESTS_OF = "requests:{}"
"""The session whose owner relays the requests of a queue, or plans what they ask for."""


class LeaseTablePort(Protocol):
    """The gateways that are alive and the owners of the shards, at one moment."""

    @property
    def gateways(self) -> Collection[str]:
        """The gateways that are alive; the caller too, unless another process has its name."""

    @property
    def late(self) -> Collection[str]:
        """Those of them that missed a beat, and may be dead."""

    @property
    def owners(self) -> Mapping[int, str]:
        """The lessee of each shard; shards of dead gateways may still be in it."""

    @property
    def table_id(self) -> str:
        """The table's id; it is another one when Redis lost the table and everything beside it."""

    @property
    def settled(self) -> bool:
        """Whether the table is old enough that every living gateway must be in it."""


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The shards that a gateway should take, hand over, give back or treat as lost now."""

    take: tuple[Shard, ...] = ()
    hand_over: tuple[int, ...] = ()
    """Shards that others need; they are given up once their actors have finished."""

    give_back: tuple[int, ...] = ()
    """Leases of shards that are not held and not needed."""

    lost: tuple[int, ...] = ()
    """Shards that have changed hands on the record, or that somebody living leases."""


def shard_of(session_id: str, shards: int) -> int:
    """Return the shard of a session."""
    content = session_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(sha256(content).digest()[:8], "big") % shards


def share_of(gateway: str, gateways: Iterable[str], shards: int) -> int:
    """Return how many shards a gateway should own; the shares of all add up to all shards."""
    names = sorted(gateways)
    whole, remainder = divmod(shards, len(names))
    return whole + (names.index(gateway) < remainder)


def lessee_in(table: LeaseTablePort, shard: int) -> str | None:
    """Return the living gateway that leases a shard."""
    owner = table.owners.get(shard)
    return owner if owner in table.gateways else None


def plan(
    gateway: str, table: LeaseTablePort | None, shards: Sequence[Shard], held: Mapping[int, Fence]
) -> ShardPlan:
    """Return what a gateway should do, given the leases, the record, and what it holds now."""
    own_before = {NOBODY, gateway}
    epochs = {shard.shard: shard.epoch for shard in shards}
    lost = tuple(
        number
        for number, fence in sorted(held.items())
        if fence.epoch != epochs[number] or _is_anothers(gateway, table, number)
    )
    kept = [number for number in sorted(held) if number not in lost]
    free_shards = [shard for shard in shards if shard.shard not in kept]
    if table is None:
        return ShardPlan(
            tuple(shard for shard in free_shards if shard.owner in own_before), lost=lost
        )
    if gateway not in table.gateways:
        return ShardPlan(lost=lost)
    leased = [shard for shard in free_shards if lessee_in(table, shard.shard) == gateway]
    free = [
        shard
        for shard in free_shards
        if lessee_in(table, shard.shard) is None and (shard.owner in own_before or table.settled)
    ]
    room = share_of(gateway, table.gateways, len(shards)) - len(kept)
    beyond = max(0, -room)
    room = max(0, room)
    return ShardPlan(
        take=tuple([*leased, *free][:room]),
        hand_over=tuple(kept[len(kept) - beyond :]),
        give_back=tuple(shard.shard for shard in leased[room:]),
        lost=lost,
    )


def _is_anothers(gateway: str, table: LeaseTablePort | None, shard: int) -> bool:
    """Whether a living gateway leases a shard, or another process has this gateway's name."""
    if table is None:
        return False
    return gateway not in table.gateways or lessee_in(table, shard) not in (None, gateway)
