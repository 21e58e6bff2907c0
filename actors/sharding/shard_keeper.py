"""Takes this gateway's share of the shards, and gives up shards that belong to other gateways.

Two loops run. The beat renews this gateway's lease and reads the lease table; it must never wait
for anything else, or the other gateways would think this one dead. The follower acts on the table:
it stops the actors of lost shards, hands over shards that others need, and takes free ones.

A shard is taken in a transaction that raises its epoch, so its former owner cannot write for it
from then on; the lease table only says which gateway should try. A shard is handed over in three
steps: it is served no longer, its actors finish what they have in hand (`FINISH_S`), and then it is
released. Work that is not finished by then ends as `stale_epoch` or stays in the mailbox, and the
record says whether it took effect.

A gateway that is restarted under its name has its shards back at once: no other gateway has that
name, and the epoch fences the process before. When two processes do have one name, the newer one
has the shards; the older owns nothing and is not ready.

A gateway that has waited for a commit for as long as a lease and a beat leaves the table, so that
others take its shards although Redis still answers it. By then it has seen in the table whether
whoever holds the head is dead, and had that one ended (decision kernel/0256). It comes back when
something can be committed again (decision actors/0093). One that cannot read the shards asks for a
commit by itself, so it leaves the table too when nobody else asks it for anything.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import anyio
import anyio.to_thread
import structlog

from actors.sharding.assignment import LeaseTablePort, ShardPlan, lessee_in, plan
from actors.sharding.held_shards import HeldShards
from actors.sharding.mail_key import MailKey
from actors.supervision import WakeSignal, keep_running
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import (
    NOBODY,
    Fence,
    GatewayKey,
    Shard,
    create_ledger_id,
    create_shards,
    gateway_keys_of,
    record_gateway_keys,
    release_shards,
    shards_of,
    take_shards,
)
from kernel.values.errors import CommitOutcomeUnknown, LedgerUnavailable

BEATS_IN_A_LEASE = 4
FINISH_S = 1.0
"""How long the actors of a shard may take to finish before it is handed over."""

_log = structlog.get_logger(__name__)


class ShardLeasesPort(Protocol):
    """The leases of shards among gateways: hints, so no method raises when they are unreachable."""

    async def beat(self, held: Collection[int]) -> LeaseTablePort | None:
        """Renew this gateway for one lease and return the table; None when it is unreachable.

        The beat also claims the held shards that no living gateway leases.
        """

    async def claim(self, shards: Collection[int]) -> Collection[int]:
        """Lease shards, and tell the others of new ones; return those that this gateway leases."""

    async def release(self, shards: Collection[int]) -> None:
        """Give up leases and tell the others."""

    async def tell(self, living: Collection[str]) -> None:
        """Send the others of these gateways word that they should look."""

    async def leave(self) -> None:
        """Give up every lease, leave the table, and tell the others."""


class Actors(Protocol):
    """The actors that run under this process's fences."""

    async def finish(self, shard: int) -> None:
        """Let the actors of a shard work off their mailboxes, and end them."""

    def stop(self, shard: int) -> None:
        """End the actors of a shard at once."""


class CommitsPort(Protocol):
    """The process's one writer, as far as a gateway's place among others depends on it."""

    @property
    def stalled_s(self) -> float:
        """For how long nothing could be committed although somebody asked."""

    async def probe(self) -> bool:
        """Commit nothing, and tell whether that could be done."""


@dataclass(frozen=True, slots=True)
class ShardListeners:
    """Who is told of what happens to shards."""

    flushed: Callable[[], None] = lambda: None
    """Called when Redis has lost the table and everything beside it."""

    taken: Callable[[], None] = lambda: None
    """Called when shards were taken."""


class ShardKeeper:
    """Keeps the shards of one gateway; run `run` in a task group."""

    def __init__(
        self,
        ledger: Ledger,
        held_shards: HeldShards,
        leases: ShardLeasesPort,
        mail_key: MailKey,
        actors: Actors,
        commits: CommitsPort,
        *,
        lease_s: float,
        listeners: ShardListeners = ShardListeners(),
    ) -> None:
        self.gateway = mail_key.gateway
        self.table: LeaseTablePort | None = None
        self._owners_on_record: dict[int, str] = {}
        """The owner of each shard when the record was read last."""

        self._ledger = ledger
        self._held_shards = held_shards
        self._leases = leases
        self._mail_key = mail_key
        self._actors = actors
        self._commits = commits
        self._lease_s = lease_s
        self._beat_every_s = lease_s / BEATS_IN_A_LEASE
        self._stands_back = False
        self._reads_shards = True
        """Whether the ledger answered when the shards were read last."""

        self._table_id: str | None = None
        self._listeners = listeners
        self._leaving = False
        self._beat_now = WakeSignal()
        self._follow_now = WakeSignal()
        self._turn = anyio.Lock()

    async def initialize_ledger(self) -> None:
        """Give a new ledger its shards and its id.

        Raises:
            LedgerUnavailable: `ledger_shards_differ` when it has another number of them.
        """

        def write() -> None:
            with self._ledger.transaction() as transaction:
                create_shards(transaction, self._held_shards.shards)
                create_ledger_id(transaction)

        await anyio.to_thread.run_sync(write)

    async def run(self) -> None:
        """Keep the shards until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_running, "shard_beat", self._beat)
            tasks.start_soon(keep_running, "shard_follower", self._follow)
            tasks.start_soon(keep_running, "commit_probe", self._probe)

    def wake(self) -> None:
        """Read the table now, because another gateway sent word that it has changed."""
        self._beat_now.set()

    def expected_owner(self, shard: int) -> str | None:
        """Return the living gateway that should own a shard, None where none is known.

        Where the table has lost a lease, that is whoever has the shard on the record.
        """
        if self.table is None:
            return None
        recorded = self._owners_on_record.get(shard)
        is_other = recorded != self.gateway and recorded in self.table.gateways
        return lessee_in(self.table, shard) or (recorded if is_other else None)

    def absent_owner(self, shard: int) -> str | None:
        """Return who has a shard on the record that no living gateway owns, `NOBODY` for nobody.

        A gateway that missed a beat counts as gone. None where another one owns the shard, and
        while it is not known who lives.
        """
        is_here = self._held_shards.fence_of(shard) is not None
        if is_here or self.table is None:
            return None
        owner = self.expected_owner(shard)
        is_away = owner is None or owner in self.table.late
        return self._owners_on_record.get(shard, NOBODY) if is_away else None

    def is_dead(self, gateway: str) -> bool:
        """Tell whether the lease table says that a gateway is dead; no while it is not known."""
        table = self.table
        if table is None or not table.settled or self._stands_back:
            return False
        return gateway not in table.gateways

    async def leave(self) -> None:
        """Hand over every shard when the process ends; the actors finish what they have in hand."""
        self._leaving = True
        async with self._turn:
            try:
                await self._hand_over(self._held_shards.held)
            except (LedgerUnavailable, CommitOutcomeUnknown) as error:
                # Others take the shards when this gateway is known to be gone.
                _log.warning("shards_left_without_release", code=error.code)
            await self._leases.leave()

    async def turn(self) -> None:
        """Act on the table as it was read last.

        Raises:
            LedgerUnavailable, CommitOutcomeUnknown: the ledger failed; the next turn goes on.
        """
        async with self._turn:
            if not self._leaving:
                shards, keys = await anyio.to_thread.run_sync(self._ledger.read, _shards_and_keys)
                self._owners_on_record = {shard.shard: shard.owner for shard in shards}
                self._mail_key.take(keys)
                await self._carry_out(
                    plan(self.gateway, self.table, shards, self._held_shards.held)
                )
                await self._share_mail_key(keys)

    async def look(self) -> None:
        """Renew this gateway's lease, and read the table; leave it while nothing is committed."""
        if self._commits.stalled_s >= self._lease_s + self._beat_every_s:
            await self._stand_back()
            return
        self._stands_back = False
        self.table = await self._leases.beat(self._held_shards.held)
        if self.table is None:
            return
        self._held_shards.name_taken = self.gateway not in self.table.gateways
        known, self._table_id = self._table_id, self.table.table_id
        if known not in (None, self._table_id):
            _log.warning("shard_leases_lost")
            self._listeners.flushed()

    async def _stand_back(self) -> None:
        if not self._stands_back:
            _log.error("gateway_stands_back", stalled_s=round(self._commits.stalled_s, 1))
            self._stands_back = True
        # Again each time: what did not reach Redis before may now.
        await self._leases.leave()

    async def _probe(self) -> None:
        """Find out whether something can be committed, although nobody asks for anything."""
        while True:
            await anyio.sleep(self._beat_every_s)
            if (self._stands_back or not self._reads_shards) and await self._commits.probe():
                self._beat_now.set()

    async def _beat(self) -> None:
        while not self._leaving:
            await self.look()
            self._follow_now.set()
            await self._beat_now.wait(self._beat_every_s)

    async def _follow(self) -> None:
        while True:
            await self._follow_now.wait()
            try:
                await self.turn()
                self._reads_shards = True
            except (LedgerUnavailable, CommitOutcomeUnknown) as error:
                self._reads_shards = False
                # A shard whose taking is in doubt stands on the record under this gateway's name,
                # and is taken again, under the next epoch.
                _log.warning("shards_wait_for_ledger", code=error.code, error=str(error))

    async def _share_mail_key(self, keys: Mapping[str, GatewayKey]) -> None:
        """Give the key of the gateways' mail to those that live and lack it."""
        table = self.table
        if table is None or self.gateway not in table.gateways:
            return
        if not self._mail_key.changes(keys, table):
            return

        def write() -> Mapping[str, GatewayKey]:
            with self._ledger.transaction() as transaction:
                changes = self._mail_key.changes(gateway_keys_of(transaction), table)
                record_gateway_keys(transaction, changes.keys, changes.gone)
                return gateway_keys_of(transaction)

        self._mail_key.take(await anyio.to_thread.run_sync(write))
        await self._leases.tell(table.gateways)

    async def _carry_out(self, todo: ShardPlan) -> None:
        for shard in todo.lost:
            self._held_shards.drop(shard)
            self._actors.stop(shard)
        if todo.lost:
            _log.warning("shards_lost", count=len(todo.lost), held=len(self._held_shards.held))
        if todo.hand_over:
            await self._hand_over(todo.hand_over)
        if todo.hand_over or todo.give_back:
            await self._leases.release((*todo.hand_over, *todo.give_back))
        if todo.take:
            await self._take(todo.take)

    async def _take(self, shards: Collection[Shard]) -> None:
        if self.table is not None:
            claimed = await self._leases.claim([shard.shard for shard in shards])
            shards = [shard for shard in shards if shard.shard in claimed]
        if not shards:
            return

        def write() -> frozenset[Fence]:
            with self._ledger.transaction() as transaction:
                return take_shards(transaction, self.gateway, shards)

        taken = await anyio.to_thread.run_sync(write)
        self._held_shards.add(taken)
        self._listeners.taken()
        _log.info("shards_taken", count=len(taken), held=len(self._held_shards.held))

    async def _hand_over(self, shards: Iterable[int]) -> None:
        """Stop serving shards, let their actors finish, and release the shards on the record."""
        dropped = [self._held_shards.drop(shard) for shard in shards]
        fences = [fence for fence in dropped if fence is not None]
        if not fences:
            return
        with anyio.move_on_after(FINISH_S):
            async with anyio.create_task_group() as tasks:
                for fence in fences:
                    tasks.start_soon(self._actors.finish, fence.shard)
        for fence in fences:
            self._actors.stop(fence.shard)

        def write() -> None:
            with self._ledger.transaction() as transaction:
                release_shards(transaction, fences)

        await anyio.to_thread.run_sync(write)
        _log.info("shards_handed_over", count=len(fences), held=len(self._held_shards.held))

    def lose(self, shard: int) -> None:
        """Take note that a shard of this gateway turned out to be another's."""
        _log.warning("shard_lost", shard=shard)
        self._actors.stop(shard)
        self._beat_now.set()


def _shards_and_keys(view: LedgerView) -> tuple[list[Shard], dict[str, GatewayKey]]:
    return shards_of(view), gateway_keys_of(view)
