"""Several gateways in one process that share a ledger, leases and mailboxes in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from actors.commit.group_committer import Committer
from actors.forwarding.mailbox_consumer import MailboxConsumer
from actors.forwarding.routed_sessions import RoutedSessions
from actors.sessions.runtime import SessionRuntime
from actors.sharding.held_shards import HeldShards
from actors.sharding.mail_key import MailKey
from actors.sharding.shard_keeper import ShardKeeper, ShardListeners
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import shards_of
from tests.actors.harness import make_committer
from tests.actors.ports import Hub, MemoryLeases, MemoryMail

SHARDS = 4
TTL_MS = 1000


class Clock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms

    def pass_a_lease(self) -> None:
        self.now_ms += TTL_MS


class SharedGateway:
    """One gateway; it looks at the leases and acts on them when a test says so."""

    def __init__(
        self, ledger: Ledger, hub: Hub, name: str, *, reply_s: float = 2.0, **options: Any
    ) -> None:
        self.name = name
        self.ledger = ledger
        self.committer: Committer = make_committer(ledger)
        self.held_shards = HeldShards(SHARDS, lost=self._lost)
        self.runtime = SessionRuntime(
            ledger, self.committer, held_shards=self.held_shards, **options
        )
        self.leases = MemoryLeases(hub, name, TTL_MS)
        self.mail = MemoryMail(hub, name, entries_max=8)
        self.mail_keys: dict[bytes, int] = {}
        """The keys of the gateways' mail that this one was given, with their numbers."""

        self.keeper = ShardKeeper(
            ledger,
            self.held_shards,
            self.leases,
            MailKey(name, self.mail_keys.__setitem__, ledger.host.random_bytes),
            self.runtime,
            self.committer,
            lease_s=TTL_MS / 1000,
            listeners=ShardListeners(self._flushed, self._taken),
        )
        self.sessions = RoutedSessions(
            self.runtime,
            self.held_shards,
            self.mail,
            self.keeper.expected_owner,
            name,
            ledger.host,
            reply_s=reply_s,
        )
        self.mailbox_consumer = MailboxConsumer(
            self.mail,
            self.held_shards,
            self.runtime,
            answered=self.sessions.deliver_answer,
            answers_lost=self.sessions.give_up,
            leases_changed=lambda: None,
        )
        self._scope = anyio.CancelScope()

    def _lost(self, shard: int) -> None:
        self.keeper.lose(shard)

    def _flushed(self) -> None:
        self.sessions.give_up()

    def _taken(self) -> None:
        self.mailbox_consumer.wake()

    @property
    def held(self) -> list[int]:
        return sorted(self.held_shards.held)

    async def turn(self) -> list[int]:
        """Beat, do what follows from the table, and return what is held now."""
        await self.keeper.look()
        await self.keeper.turn()
        return self.held

    @property
    def is_dead(self) -> bool:
        return self._scope.cancel_called

    def die(self) -> None:
        """End everything of this gateway where it stands."""
        self._scope.cancel()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.keeper.initialize_ledger()
        async with anyio.create_task_group() as tasks:
            ready = anyio.Event()
            tasks.start_soon(self._serve, ready)
            await ready.wait()
            yield
            tasks.cancel_scope.cancel()

    async def _serve(self, ready: anyio.Event) -> None:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.committer.run)
                tasks.start_soon(self.runtime.run, ready.set)
                tasks.start_soon(self.mailbox_consumer.run)


def owners(ledger: Ledger) -> list[str]:
    with ledger.view() as view:
        return [shard.owner for shard in shards_of(view)]
