"""A value above its limit is refused by every reader without being read into the process.

Each kind of key is given a value of many MiB; the parts of a fleet that read the key are used, and
the memory that this process holds beyond what it held before stays far below one such value.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis

import queues.redis.connection
from queues.errors import QueueError
from queues.gateways.inbox import Inbox
from queues.gateways.message_seal import MessageSeal
from queues.gateways.shard_mailboxes import ShardMail
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import connect_redis
from queues.redis.dropped import DROPPED
from tests.queues.servers import running
from tests.queues.test_hostile_values import USES

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MIB = 1024 * 1024
HUGE_MIB = int(os.environ.get("TEST_HUGE_MIB", "18"))
"""More than any value may have; TEST_HUGE_MIB=512 is as much as a server takes."""

HELD_BYTES_MAX = 16 * MIB
VALUE = f"string.rep(string.rep('x', {MIB}), ARGV[1])"
"""Made in the server, so that this process does not hold it."""

QUEUE = "rotulus:{authority-recompute}:"
LEASE = "rotulus:{lease:authority-recompute}:"
SHARD = "rotulus:{shard:0}:"
SOUND = "'state','ready','rank',3,'deadline',1,'enqueued',1,'attempt',0,'causes',1"
HUGE: dict[str, tuple[str, str]] = {
    "payload": (QUEUE, f"redis.call('HSET', P..'item:u-1', {SOUND}, 'payload', V)"),
    "packed": (QUEUE, "redis.call('SET', P..'item:u-1', '1 3 1 1 1 0\\nc'..V)"),
    "claims": (QUEUE, "redis.call('HSET', P..'claims', 'u-1', V, V, V)"),
    "one of many fields": (QUEUE, (
        "for i = 1, 60000 do redis.call('HSET', P..'item:u-1', i, '') end "
        f"redis.call('HSET', P..'item:u-1', {SOUND}, 'payload', V)"
        "redis.call('ZADD', P..'ready:3', 1, 'u-1')")),
    "cause": (QUEUE, f"redis.call('HSET', P..'item:u-1', {SOUND}, 'payload', '', 'c:'..V, '1')"),
    "dead item": (QUEUE, ("redis.call('ZADD', P..'dead', 1, 'u') "
        f"redis.call('HSET', P..'dead-item:u', {SOUND}, 'payload', V)")),
    "ready": (QUEUE, "redis.call('ZADD', P..'ready:3', 1, V)"),
    "suspended": (QUEUE, "redis.call('ZADD', P..'suspended:3', 1, V)"),
    "delayed": (QUEUE, "redis.call('ZADD', P..'delayed', 1, V)"),
    "in flight": (QUEUE, "redis.call('ZADD', P..'in-flight', '99999999999999', V)"),
    "dead": (QUEUE, "redis.call('ZADD', P..'dead', 1, V)"),
    "paused": (QUEUE, "redis.call('HSET', P..'paused', V, V)"),
    "stamp": (QUEUE, "redis.call('SET', P..'stamp', V)"),
    "mark": (QUEUE, "redis.call('SET', P..'mark', V)"),
    "not due": (QUEUE, "redis.call('SET', P..'not-due', V)"),
    "wake": (QUEUE, "redis.call('RPUSH', P..'wake:0', V)"),
    "holds": (LEASE, "redis.call('HSET', P..'holds', 'w', V)"),
    "tokens": (LEASE, "redis.call('HSET', P..'tokens', V, V)"),
    "expiries": (LEASE, "redis.call('ZADD', P..'expiries', '99999999999999', V)"),
    "waiting": (LEASE, "redis.call('ZADD', P..'waiting:0', '99999999999999', V)"),
    "fence": (LEASE, "redis.call('SET', P..'fence', V)"),
    "heartbeat": ("rotulus:{workers}:", ("redis.call('ZADD', P..'expiries', '99999999999999', 'w2')"
        "redis.call('HSET', P..'seen', 'w2', 1) redis.call('HSET', P..'beats', 'w2', V)")),
    "worker": ("rotulus:{workers}:", "redis.call('ZADD', P..'expiries', '99999999999999', V)"),
    "cron": ("rotulus:{crons}:", "redis.call('SET', P..'chain-audit:state', V)"),
    "gateway": ("rotulus:{gateways}:", "redis.call('ZADD', P..'alive', '99999999999999', V)"),
    "owner": ("rotulus:{gateways}:", "redis.call('HSET', P..'owners', '1', V)"),
    "incarnation": ("rotulus:{gateways}:", "redis.call('HSET', P..'incarnations', 'a-gateway', V)"),
    "table": ("rotulus:{gateways}:", "redis.call('HSET', P..'table', 'id', V)"),
    "entry": (SHARD, "redis.call('XADD', P..'mail', '*', 'mailbox', 'm', 'body', V)"),
    "field of an entry": (SHARD, "redis.call('XADD', P..'mail', '*', V, 'm')"),
    "mailbox": (SHARD, "redis.call('SET', P..'mailbox', V)"),
    "taken": (SHARD, "redis.call('HSET', P..'taken', V, V)"),
    "aside": (SHARD, "redis.call('HSET', P..'aside', '1-1', V, V, '')"),
    "note": ("rotulus:{gateway:a-gateway}:", "redis.call('RPUSH', P..'inbox', V)"),
    "second note": ("rotulus:{gateway:a-gateway}:", "redis.call('RPUSH', P..'inbox', 'l', V)"),
}  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running("valkey-9", tmp_path_factory.mktemp("huge")) as served:
        yield served


@pytest.fixture
async def client(url: str, anyio_backend: str) -> Redis:
    redis = connect_redis(url)
    await redis.flushdb()
    return redis


async def put(redis: Redis, kind: str) -> str:
    prefix, command = HUGE[kind]
    await redis.eval(f"local P, V = KEYS[1], {VALUE} {command}", 1, prefix, HUGE_MIB)
    return prefix


async def used(redis: Redis, prefix: str) -> None:
    """Use all that reads keys of a prefix; what is away once serves when it is asked again."""
    use = next(use for part, use in USES.items() if part in prefix)
    for _ in range(2):
        with suppress(QueueError):
            await use(redis)
    await use(redis)


def peak_bytes(*, since_now: bool = False) -> int:
    """The most memory that this process has held since it was asked with `since_now`."""
    if since_now:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


async def hashes_read(redis: Redis) -> int:
    return int((await redis.info("commandstats")).get("cmdstat_hgetall", {}).get("calls", 0))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", HUGE)
async def test_no_reader_holds_a_value_that_is_too_large(
    client: Redis, kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queues.redis.connection, "REPLY_BYTES_MAX", 4 * MIB)
    prefix = await put(client, kind)
    before = peak_bytes(since_now=True)
    await used(client, prefix)
    assert peak_bytes() - before < HELD_BYTES_MAX
    await client.aclose()


async def test_what_is_sound_is_read_beside_what_is_too_large(client: Redis):
    queue = WorkQueue(client, "authority-recompute")
    for kind in ("payload", "ready", "dead item"):
        await put(client, kind)
    before = DROPPED.total()
    await queue.enqueue(NewItem("u-2", "background_normal", "a-cause", b"{}"))
    assert [claim.key for claim in await queue.claim(10, 60_000)] == ["u-2"]
    assert await queue.cancel(["u"]) == ["unknown"]
    assert DROPPED.total() > before
    await client.aclose()


async def test_a_value_that_a_sampled_weight_missed_is_dropped_unread(client: Redis):
    queue = WorkQueue(client, "authority-recompute")
    prefix = await put(client, "one of many fields")
    before = await hashes_read(client)
    assert await queue.claim(10, 60_000) == []
    assert await client.exists(f"{prefix}item:u-1") == 0
    assert await hashes_read(client) == before
    await client.aclose()


async def test_an_entry_that_is_too_large_leaves_its_mailbox_and_the_next_is_read(client: Redis):
    inbox = Inbox(client, "a-gateway")
    mail = ShardMail(client, inbox, MessageSeal(b"k" * 32))
    await put(client, "entry")
    assert await mail.post(0, "an-id", b"sound", "a-gateway")
    await put(client, "note")
    read = await mail.read({0: ""}, 10)
    assert read is not None
    assert [entry.body for entry in read[0]] == [b"sound"]
    assert await client.xlen("rotulus:{shard:0}:mail") == 1
    heard = await inbox.listen(1.0)
    assert heard is not None
    assert heard.mail_for == {0}
    await client.aclose()


async def test_a_claim_fits_into_a_reply(client: Redis):
    """A thousand causes of 512 bytes in each of 100 items would be more."""
    queue = WorkQueue(client, "authority-recompute")
    for number in range(100):
        name = f"u-{number}"
        fields = "'state','ready','rank',3,'deadline',1,'enqueued',1,'attempt',0,'causes',1000"
        script = f"""
        local P = KEYS[1]
        for i = 1, 1000 do
          redis.call('HSET', P..'item:'..ARGV[1], 'c:'..i..string.rep('x', 500), '1')
        end
        redis.call('HSET', P..'item:'..ARGV[1], {fields}, 'payload', 'p')
        redis.call('ZADD', P..'ready:3', 1, ARGV[1])"""
        await client.eval(script, 1, QUEUE, name)
    first = await queue.claim(100, 60_000)
    assert 30 < len(first) < 100
    assert len(await queue.claim(100, 60_000)) == 100 - len(first)
    await client.aclose()
