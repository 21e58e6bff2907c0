"""Whoever asks learns that Redis refuses or is away, and goes on once it serves."""

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest
from fakeredis import FakeAsyncRedis
from redis import exceptions
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.fleet.cron_claims import Crons
from queues.fleet.worker_heartbeats import Heartbeats
from queues.gateways.inbox import Inbox, InboxBatch, mail_note
from queues.gateways.message_seal import MessageSeal
from queues.gateways.shard_leases import ShardLeases
from queues.gateways.shard_mailboxes import ShardMail
from queues.leases.capacity_leases import CapacityLeases
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from queues.redis import scripts as redis_scripts
from queues.redis.connection import SOCKET_TIMEOUT_S, connect_redis

pytestmark = pytest.mark.anyio

NOTHING = InboxBatch([], frozenset(), leases_changed=False)
ITEM = NewItem("u-1", "background_normal", "cause", b"{}")

REFUSALS = [
    exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."),
    exceptions.ResponseError("BUSY Redis is busy running a script."),
    exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots."),
    exceptions.ResponseError("MASTERDOWN Link with MASTER is down"),
    exceptions.ResponseError("ERR something that nobody has heard of"),
    exceptions.NoPermissionError("this user has no permissions to run the command"),
    exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
    exceptions.ReadOnlyError("You can't write against a read only replica."),
    exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
    exceptions.AuthenticationError("WRONGPASS"),
    exceptions.InvalidResponse("Protocol Error"),
]
ABSENCES = [
    exceptions.ResponseError("UNBLOCKED force unblock from blocking operation"),
    exceptions.TimeoutError("Timeout reading from socket"),
    ConnectionResetError("reset"),
    EOFError(),
]


class RefusingRedis(FakeAsyncRedis):
    """A server that refuses everything while it is told to."""

    error: Exception | None = None

    async def execute_command(self, *args, **options):
        if self.error is not None:
            raise self.error
        return await super().execute_command(*args, **options)


async def expect_away(redis: Redis, code: str = "queue_unavailable") -> None:
    """Everybody who asks this server learns that it is away, or that it refuses."""
    queue, leases = WorkQueue(redis, "authority-recompute"), CapacityLeases(redis)
    inbox = Inbox(redis, "a")
    shards, mail = (
        ShardLeases(redis, "a", inbox, 1000),
        ShardMail(redis, inbox, MessageSeal(bytes(32))),
    )
    for refused in (
        lambda: queue.enqueue(ITEM),
        lambda: queue.claim(1, 1000),
        lambda: queue.wait(0.1),
        queue.depth,
        queue.current_mark,
        lambda: leases.acquire("r", 1, "h", 1000),
        Heartbeats(redis).alive,
        lambda: Crons(redis).claim("c", 1, 1, "w"),
        lambda: Crons(redis).recall("c"),
        lambda: mail.post(0, "ask", b"x", "b"),
    ):
        with pytest.raises(QueueError) as away:
            await refused()
        assert away.value.code == code
    assert await shards.beat([1]) is None
    assert await shards.claim([1]) == ()
    assert await mail.listen(0.01) is None


@pytest.mark.parametrize(
    "error", [*REFUSALS, *ABSENCES], ids=lambda error: str(error).split(" ")[0] or "EOF"
)
async def test_who_asks_learns_what_is_wrong_until_it_is_right_again(error):
    redis = RefusingRedis()
    queue = WorkQueue(redis, "authority-recompute")
    await queue.enqueue(ITEM)
    redis.error = error
    await expect_away(redis, "queue_refused" if error in REFUSALS else "queue_unavailable")
    redis.error = None
    assert [claim.key for claim in await queue.claim(1, 1000)] == ["u-1"]
    assert await ShardLeases(redis, "a", Inbox(redis, "a"), 1000).beat([1]) is not None
    await redis.aclose()


async def test_a_redis_that_says_nothing_is_away_after_a_while(monkeypatch: pytest.MonkeyPatch):
    """A network that loses every packet, or a server that is stopped, closes no connection."""
    monkeypatch.setattr(redis_scripts, "REPLY_WAIT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        redis = connect_redis(f"redis://127.0.0.1:{silent.getsockname()[1]}")
        with anyio.fail_after(SOCKET_TIMEOUT_S):
            await expect_away(redis)
        await redis.aclose()


async def test_a_wait_has_its_own_time_and_the_limit_behind_it(
    administered_url: str, monkeypatch: pytest.MonkeyPatch
):
    """A wait that is longer than the limit of a command ends when its own time is over."""
    monkeypatch.setattr(redis_scripts, "REPLY_WAIT_S", 0.4)
    redis = connect_redis(administered_url)
    waits = (Inbox(redis, "a").listen, WorkQueue(redis, "authority-recompute").wait)
    assert [await _ended(partial(wait, 0.6)) for wait in waits] == [NOTHING, False]
    await redis.aclose()


async def _ended(wait: Callable[[], Awaitable[Any]]) -> Any:
    """Wait again where a busy machine was late: what a limit cuts short is so each time."""
    for _ in range(20):
        with suppress(QueueError):
            return await wait()
    return "cut short"


async def test_who_is_unblocked_by_a_failover_listens_again(administered_url: str):
    redis, blocked = Redis.from_url(administered_url), Redis.from_url(administered_url)
    inbox = Inbox(blocked, "a")
    heard = []

    async def listen() -> None:
        heard.append(await inbox.listen(20))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        while not heard:
            await anyio.sleep(0.02)
            for client in await redis.client_list():
                if client["cmd"] == "blpop":
                    await redis.client_unblock(int(client["id"]), error=True)
    assert heard == [None]
    await inbox.tell(["a"], mail_note(3))
    again = await inbox.listen(1)
    assert again is not None
    assert again.mail_for == {3}
    await blocked.aclose()
    await redis.aclose()
