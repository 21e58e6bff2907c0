"""The injector of hostile values: the same seed writes the same, over what a fleet really has."""

from collections.abc import Awaitable, Callable
from typing import get_args

import pytest
from redis.asyncio import Redis

from kernel.values.pressure import Capacity
from queues.errors import QueueError
from queues.fleet.cron_claims import Crons
from queues.fleet.worker_heartbeats import Heartbeats, WorkerBeat
from queues.gateways.inbox import LEASES_CHANGED, Inbox
from queues.gateways.message_seal import MessageSeal
from queues.gateways.shard_leases import ShardLeases
from queues.gateways.shard_mailboxes import ShardMail
from queues.leases.capacity_leases import CapacityLeases
from queues.queue.items import LiveState, NewItem
from queues.queue.work_queue import WorkQueue
from tests.fuzz.redis_values import (
    all_hostile,
    fleet_keys,
    hostile_values,
    inject,
    live_keys,
    write,
)
from tests.queues.servers import REAL_SERVERS

pytestmark = pytest.mark.anyio


def test_a_seed_says_what_is_written():
    assert hostile_values(7, 300) == hostile_values(7, 300)
    assert hostile_values(7, 300) != hostile_values(8, 300)


def test_every_key_of_a_fleet_is_malformed_in_many_ways():
    ways: dict[str, set[str]] = {}
    for hostile in all_hostile(fleet_keys()):
        ways.setdefault(hostile.key, set()).add(hostile.malformation)
    assert set(ways) == {key.name for key in fleet_keys()}
    assert min(map(len, ways.values())) >= 7
    assert sum(map(len, ways.values())) > 1000


async def test_what_is_there_is_hit_as_well(redis: Redis, queue: WorkQueue):
    await queue.enqueue(NewItem("u-1", "background_normal", "cause", b"{}"))
    names = {name for name, _ in await live_keys(redis)}
    assert "rotulus:{authority-recompute}:item:u-1" in names
    written = await inject(redis, 1, 500)
    assert len(written) == 500
    assert any("item:u-1" in hostile.key for hostile in written)
    assert await redis.dbsize() > len(names)


PRIORITY = "background_normal"


async def use_queue(redis: Redis) -> None:
    queue = WorkQueue(redis, "authority-recompute")
    await queue.enqueue_many(
        [NewItem(key, PRIORITY, f"cause-{key}", b"{}") for key in ("an-item", "u-1", "u-2")]
    )
    for state in get_args(LiveState):
        await queue.peek(100, 0, state)
    claims = await queue.claim(100, 60_000)
    await queue.renew(claims, 60_000)
    await queue.retry(claims[:1], [0] * len(claims[:1]), "internal")
    await queue.suspend(claims[1:2])
    await queue.bury(claims[2:3])
    await queue.acknowledge(claims[3:])
    await queue.reap()
    await queue.depth()
    await queue.cancel(["an-item"])
    await queue.wait(0.01)


async def use_leases(redis: Redis) -> None:
    leases = CapacityLeases(redis)
    lease = await leases.acquire("authority-recompute", 4, "w/1", 5000)
    assert lease is None or await leases.renew(lease, 5000)
    await leases.active_leases("authority-recompute")
    await leases.state("authority-recompute", Capacity.of_slots(4))


async def use_fleet(redis: Redis) -> None:
    await Heartbeats(redis).beat(BEAT, 5000)
    assert BEAT.worker_id in {beat.worker_id for beat in await Heartbeats(redis).alive()}
    await Crons(redis).recall("chain-audit")


async def use_gateways(redis: Redis) -> None:
    inbox = Inbox(redis, "a-gateway")
    shards = ShardLeases(redis, "a-gateway", inbox, 5000)
    table = await shards.beat([1, 2])
    assert table is not None
    await shards.claim([3])
    await shards.release([3])
    mail = ShardMail(redis, inbox, MessageSeal(b"k" * 32))
    await mail.read(dict.fromkeys(range(8), ""), 256)
    if not await redis.exists(INBOX):
        # A server looks at the time of who waits ten times a second, so nobody waits for it.
        await inbox.tell({inbox.gateway}, LEASES_CHANGED)
    await mail.listen(0.01)


INBOX = "rotulus:{gateway:a-gateway}:inbox"
BEAT = WorkerBeat("w", 1, ("authority-recompute",), 1, 0, 0, 0, 0)

USES: dict[str, Callable[[Redis], Awaitable[None]]] = {
    "{authority-recompute}": use_queue,
    "{lease:authority-recompute}": use_leases,
    "{workers}": use_fleet,
    "{crons}": use_fleet,
    "{gateways}": use_gateways,
    "{shard:0}": use_gateways,
    "{gateway:a-gateway}": use_gateways,
}
VALUES_MAX = {"valkey-9": 300}
VALUES_MAX_ELSEWHERE = 100
"""On the servers that are not ours."""


async def recovered(redis: Redis, what: Callable[[Redis], Awaitable[None]]) -> None:
    """Use it; where Redis was found in disorder, or lost a key meanwhile, once more."""
    try:
        await what(redis)
    except (QueueError, AssertionError):
        await what(redis)


@pytest.mark.slow
@pytest.mark.parametrize("redis_kind", REAL_SERVERS, indirect=True)
@pytest.mark.parametrize("tag", USES)
async def test_no_malformed_value_stops_a_reader(redis: Redis, redis_kind: str, tag: str):
    values = [claim for claim in all_hostile(fleet_keys()) if tag in claim.key]
    assert len(values) >= 30
    values = values[:: len(values) // VALUES_MAX.get(redis_kind, VALUES_MAX_ELSEWHERE) + 1]
    failures = []
    for hostile in values:
        await write(redis, hostile)
        try:
            await recovered(redis, USES[tag])
        except Exception as error:  # noqa: BLE001 - each value is a case of its own
            failures.append((hostile.key, hostile.malformation, repr(error)))
            await redis.flushdb()
    assert failures == []


@pytest.mark.slow
@pytest.mark.parametrize("redis_kind", REAL_SERVERS, indirect=True)
@pytest.mark.parametrize("seed", range(3))
async def test_many_malformed_values_at_once_stop_nobody(redis: Redis, seed: int):
    for turn in range(10):
        await inject(redis, 100 * seed + turn, 50)
        for use in dict.fromkeys(USES.values()):
            for _ in range(2):
                await recovered(redis, use)
