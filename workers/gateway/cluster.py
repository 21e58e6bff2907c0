"""Wires the part of a gateway that shares sessions with other gateways: shards, leases, mail.

A gateway is named after its machine and port, in a process tree after its machine and data folder.
The name is the same after a restart, so the gateway has its shards back at once.
`ROTULUS_GATEWAY_ID` names it otherwise, and has to where two machines have one host name.
"""

import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

import anyio

from actors.commit.group_committer import Committer
from actors.commit.thought_units import Sealing
from actors.forwarding.mailbox_consumer import MailboxConsumer
from actors.forwarding.routed_sessions import RoutedSessions
from actors.sessions.elimination_store import AsyncEliminationStore
from actors.sessions.runtime import Handled, SessionLimits, SessionRuntime
from actors.sharding.assignment import REQUESTS_OF, shard_of
from actors.sharding.held_shards import HeldShards, SessionLease
from actors.sharding.mail_key import MailKey
from actors.sharding.shard_keeper import ShardKeeper, ShardListeners
from actors.supervision import keep_running
from kernel.authority.requests import CASCADE_QUEUE
from kernel.ledger.ledger import Ledger
from kernel.values.errors import CommitOutcomeUnknown, LedgerUnavailable
from kernel.work.queue_kinds import QUEUE_KINDS
from queues.gateways.gateway_urls import GatewayUrls
from queues.gateways.inbox import Inbox
from queues.gateways.message_seal import MessageSeal
from queues.gateways.shard_leases import ShardLeases
from queues.gateways.shard_mailboxes import VALID_MS, Refused, ShardMail
from queues.gateways.work_notices import WorkNotices
from queues.redis.connection import RedisClient
from workers.environment.settings import Settings
from workers.implications.detection import IMPLICATIONS

LEAVE_S = 2.0
REPLY_BEYOND_LEASES_S = 5.0


@dataclass(frozen=True, slots=True)
class GatewayCluster:
    """One gateway's part in serving the sessions of a ledger."""

    held_shards: HeldShards
    runtime: SessionRuntime
    sessions: RoutedSessions
    keeper: ShardKeeper
    mailbox_consumer: MailboxConsumer
    mail: ShardMail
    work_leases: dict[str, SessionLease]
    """The right to relay the requests of each queue, to plan what they ask for, or to detect what
    operations imply."""

    work_notices: WorkNotices
    gateway_urls: GatewayUrls
    sealing: Sealing
    """Who signs the seals of thoughts, and how many sessions a round has."""

    def lease_work(self, queue: str) -> SessionLease:
        """Return the lease under which a queue is relayed, made where there is none yet."""
        new = SessionLease(self.held_shards, REQUESTS_OF.format(queue))
        return self.work_leases.setdefault(queue, new)

    def owner_url(self, session_id: str) -> str | None:
        """Return the URL of the other gateway that owns a session, where it advertises one."""
        shard = shard_of(session_id, self.held_shards.shards)
        urls = self.gateway_urls.urls
        if not urls or self.held_shards.fence_of(shard) is not None:
            return None
        owner = self.keeper.expected_owner(shard)
        return None if owner in (None, self.keeper.gateway) else urls.get(owner)

    def absent_owner(self, session_id: str) -> str | None:
        """Return the recorded gateway of a session that no living gateway owns, empty for nobody.

        One that missed a beat counts as gone. None where another one owns it, and while it is not
        known who lives.
        """
        return self.keeper.absent_owner(shard_of(session_id, self.held_shards.shards))

    def absent_owners(self) -> dict[int, str]:
        """Return the recorded gateway of each shard that no living gateway owns."""
        owners = {
            shard: self.keeper.absent_owner(shard) for shard in range(self.held_shards.shards)
        }
        return {shard: owner for shard, owner in owners.items() if owner is not None}

    async def initialize_ledger(self) -> None:
        """Give a new ledger its shards and its id.

        Raises:
            LedgerUnavailable: `ledger_shards_differ` when it has another number of them.
        """
        await self.keeper.initialize_ledger()

    async def begin(self) -> None:
        """Take the shards that this gateway may have at once; one alone then serves everything.

        Raises:
            LedgerUnavailable: see `initialize_ledger`.
        """
        await self.initialize_ledger()
        await self.keeper.look()
        try:
            await self.keeper.turn()
        except (LedgerUnavailable, CommitOutcomeUnknown):
            return  # the keeper tries again

    async def run(self) -> None:
        """Serve until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.runtime.run)
            tasks.start_soon(self.keeper.run)
            tasks.start_soon(self.mailbox_consumer.run)
            tasks.start_soon(keep_running, "work_notices", self.work_notices.run)
            tasks.start_soon(keep_running, "gateway_urls", self.gateway_urls.run)

    async def leave(self) -> None:
        """Let the actors finish, and release every shard."""
        with anyio.move_on_after(LEAVE_S):
            await self.keeper.leave()
            await self.mailbox_consumer.empty()


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Who is told of what happens to the sessions of a gateway."""

    shards_taken: Callable[[], None]
    mail_refused: Callable[[Refused], None]
    handled: Handled | None
    """See `SessionRuntime`."""

    work_recorded: Callable[[], None] = lambda: None
    """Called when another gateway has recorded or closed requests for work."""


def share_sessions(
    ledger: Ledger,
    committer: Committer,
    redis: RedisClient,
    settings: Settings,
    gateway: str,
    tombstones: AsyncEliminationStore | None,
    callbacks: Callbacks,
    sealing: Sealing,
) -> GatewayCluster:
    """Wire the sessions of a gateway to the ledger and to those of the other gateways."""

    def lose_shard(shard: int) -> None:
        keeper.lose(shard)

    def lose_mailboxes() -> None:
        sessions.give_up()

    def take_shards() -> None:
        mailbox_consumer.wake()
        callbacks.shards_taken()

    def relaying() -> set[str]:
        owners = {keeper.expected_owner(lease.shard) for lease in work_leases.values()}
        return {owner for owner in owners if owner not in (None, gateway)}

    def use_mail_key(key: bytes, number: int) -> None:
        seal.use(key, number)
        mailbox_consumer.wake()

    def living() -> Collection[str]:
        return () if keeper.table is None else keeper.table.gateways

    held_shards = HeldShards(settings.shards, lost=lose_shard)
    work_leases = {
        queue: SessionLease(held_shards, REQUESTS_OF.format(queue))
        for queue in (*QUEUE_KINDS, CASCADE_QUEUE, IMPLICATIONS)
    }
    runtime = SessionRuntime(
        ledger,
        committer,
        held_shards=held_shards,
        limits=SessionLimits(
            settings.mailbox_max,
            settings.passivate_after_s,
            active_bytes_max=settings.active_sessions_mib << 20,
        ),
        tombstones=tombstones,
        handled=callbacks.handled,
        sealing=sealing,
    )
    inbox = Inbox(redis, gateway)
    seal = MessageSeal()
    # Time for an owner to die unnoticed, for another to take over, and to answer.
    reply_s = 2 * settings.shard_lease_s + REPLY_BEYOND_LEASES_S
    valid_ms = max(VALID_MS, int(2000 * reply_s))
    mail = ShardMail(
        redis,
        inbox,
        seal,
        refused=callbacks.mail_refused,
        clock_s=lambda: ledger.host.now_us() / 1_000_000,
        valid_ms=valid_ms,
    )
    leases = ShardLeases(redis, gateway, inbox, int(settings.shard_lease_s * 1000))
    keeper = ShardKeeper(
        ledger,
        held_shards,
        leases,
        MailKey(gateway, use_mail_key, ledger.host.random_bytes),
        runtime,
        committer,
        lease_s=settings.shard_lease_s,
        listeners=ShardListeners(lose_mailboxes, take_shards),
    )
    sessions = RoutedSessions(
        runtime,
        held_shards,
        mail,
        keeper.expected_owner,
        gateway,
        ledger.host,
        reply_s=reply_s,
    )
    mailbox_consumer = MailboxConsumer(
        mail,
        held_shards,
        runtime,
        answered=sessions.deliver_answer,
        answers_lost=sessions.give_up,
        leases_changed=keeper.wake,
        work_recorded=callbacks.work_recorded,
    )
    return GatewayCluster(
        held_shards,
        runtime,
        sessions,
        keeper,
        mailbox_consumer,
        mail,
        work_leases,
        WorkNotices(inbox, relaying),
        GatewayUrls(
            redis,
            gateway,
            seal,
            settings.advertised_url,
            living,
            lambda: ledger.host.now_us() // 1000,
        ),
        sealing,
    )


def gateway_name(settings: Settings, port: int) -> str:
    """Return the name of a gateway, which is the same after a restart."""
    return settings.gateway_id or f"{socket.gethostname()}:{port}"
