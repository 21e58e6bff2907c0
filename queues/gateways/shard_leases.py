"""Leases shards to the gateways that are alive.

A gateway is alive for one lease after each beat, and leases its shards for as long as it is alive.
So a beat is one script, however many shards there are; the cost is that the whole table lies under
one hash tag, on one node. The table is a hint: the ledger decides who may write for a shard. After
a flush the next beats of the owners fill the table again, and for one lease it says that it is not
settled, so that nobody takes a shard that was only forgotten.

No method raises when Redis cannot be reached: the caller goes on with the ledger alone.
"""

import secrets
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.gateways.inbox import LEASES_CHANGED, Inbox
from queues.queue.items import DURATION_MS_MAX, NAME_BYTES_MAX, check_name, check_range
from queues.redis.decoding import records, row, text, whole
from queues.redis.keys import prefix_of
from queues.redis.scripts import Clock, Scripts

_NAME: Final = text(NAME_BYTES_MAX)
_OWNED: Final = row(whole(0), _NAME)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTable:
    """The gateways that are alive and the owners of the shards, at one moment."""

    table_id: str
    """Differs from the one before when the table was lost."""

    gateways: frozenset[str]
    """The gateways that are alive; without the caller when another process has its name."""

    late: frozenset[str]
    """Those of them that missed a beat: less than half of their lease is left."""

    owners: Mapping[int, str]
    """The lessee of each shard; the shards of a dead gateway stay until somebody claims them."""

    settled: bool
    """Whether the table is at least one lease old."""


class ShardLeases:
    """The leases of one gateway process, for `ttl_ms` from each beat."""

    def __init__(
        self, redis: Redis, gateway: str, inbox: Inbox, ttl_ms: int, clock: Clock | None = None
    ) -> None:
        self._scripts = Scripts(redis, prefix_of(redis, "gateways"), clock)
        self._gateway = check_name(gateway)
        self._incarnation = secrets.token_hex(8)
        self._inbox = inbox
        self._ttl_ms = check_range("ttl_ms", ttl_ms, 1, DURATION_MS_MAX)
        self._first = True
        self._reached = True

    async def beat(self, held: Collection[int]) -> LeaseTable | None:
        """Renew this gateway for one lease and return the table; None when Redis is away.

        The beat also claims the held shards that no living gateway leases. The first beat takes the
        name over from an earlier process. The others are told of it, and of a beat that put back
        what the table had lost: they refuse work for shards whose owner they do not know.
        """
        try:
            mine, changed, table_id, age_ms, alive, late, owners = await self._scripts.run(
                "gateway_beat",
                self._scripts.now(),
                self._gateway,
                self._incarnation,
                int(self._first),
                self._ttl_ms,
                secrets.token_hex(8),
                *held,
            )
            gateways = frozenset(records("gateway", alive, _NAME))
        except QueueError as error:
            self._note_absence(error)
            return None
        if self._first or changed:
            self._first = False
            await self.tell(gateways)
        if not mine:
            _log.error("gateway_id_taken", gateway=self._gateway)
            gateways -= {self._gateway}
        self._reached = True
        owned = records("shard_lease", zip(owners[::2], owners[1::2], strict=True), _OWNED)
        return LeaseTable(
            _NAME(table_id),
            gateways,
            gateways & frozenset(records("gateway", late, _NAME)),
            dict(owned),
            age_ms >= self._ttl_ms,
        )

    async def claim(self, shards: Collection[int]) -> Collection[int]:
        """Lease shards; return those that this gateway leases now: free ones, and its own.

        The others are told of new ones: a gateway refuses work whose owner it does not know.
        """
        try:
            leased, living = await self._scripts.run(
                "shard_claim", self._scripts.now(), self._gateway, self._incarnation, *shards
            )
        except QueueError as error:
            self._note_absence(error)
            return ()
        await self.tell(records("gateway", living, _NAME))
        return {int(shard) for shard in leased}

    async def release(self, shards: Collection[int]) -> None:
        """Give up leases and tell the others."""
        await self._release(0, shards)

    async def tell(self, living: Iterable[str]) -> None:
        """Send the others word that they should look; whom it misses looks by itself soon."""
        with suppress(QueueError):
            await self._inbox.tell({*living} - {self._gateway}, LEASES_CHANGED)

    async def leave(self) -> None:
        """Give up every lease, leave the table, and tell the others."""
        await self._release(1, ())

    async def _release(self, leaving: int, shards: Collection[int]) -> None:
        try:
            living = await self._scripts.run(
                "shard_release", self._gateway, self._incarnation, leaving, *shards
            )
        except QueueError as error:
            self._note_absence(error)
        else:
            await self.tell(records("gateway", living, _NAME))

    def _note_absence(self, error: QueueError) -> None:
        if self._reached:
            _log.warning("shard_leases_unreachable", code=error.code, error=error.message)
        self._reached = False
