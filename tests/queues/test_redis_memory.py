"""A Redis whose memory is full goes on being drained, and loses nothing of the ledger."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from kernel.ledger.ledger import Ledger, Request
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from kernel.work.requests import REQUESTS_MAX, WorkRequest, enqueue
from queues.queue.items import CLAIM_ITEMS_MAX
from queues.queue.outbox_relay import SWEEP_EVERY_S, OutboxRelay
from queues.queue.work_queue import WorkQueue
from queues.redis.memory import RESERVED_SHARE, RedisMemory, redis_memory
from tests.kernel.build import memory_ledger

pytestmark = pytest.mark.anyio

REQUESTS = 2500
HELD_BYTES = 16 << 20
STILL = 50
"""Sweeps after which something must have left the queue."""


@pytest.mark.parametrize(
    ("memory", "has_room", "may_evict"),
    [
        (RedisMemory(), True, False),
        (RedisMemory(10, 0, "allkeys-lru"), True, False),
        (RedisMemory(899, 1000), True, False),
        (RedisMemory(900, 1000), False, False),
        (RedisMemory(1, 1000, "volatile-ttl"), True, True),
    ],
)
def test_room_is_what_draining_does_not_need(memory, has_room, may_evict):
    assert (memory.has_room, memory.may_evict) == (has_room, may_evict)


@pytest.fixture
async def redis(administered_url: str, anyio_backend: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(administered_url) as client:
        yield client


async def test_what_a_server_says_is_read_and_what_it_may_not_say_is_no_limit(redis: Redis):
    await redis.config_set("maxmemory", "64mb")
    await redis.config_set("maxmemory-policy", "allkeys-lru")
    memory = await redis_memory(redis)
    assert (memory.limit_bytes, memory.policy) == (64 << 20, "allkeys-lru")
    assert 0 < memory.used_bytes < memory.limit_bytes
    await redis.execute_command("ACL", "SETUSER", "default", "-info")
    assert await redis_memory(redis) == RedisMemory()


async def test_a_queue_in_a_full_redis_is_drained_to_the_end(redis: Redis, administered_url: str):
    ledger = memory_ledger()
    keys = [f"{number:03}{'k' * 390}" for number in range(REQUESTS)]
    with ledger.transaction() as transaction:
        content = {"binding_id": "b", "source_event_id": "e"}
        requests = [WorkRequest(BINDING_QUEUE, key, content) for key in keys]
        for start in range(0, REQUESTS, REQUESTS_MAX):
            enqueue(transaction, requests[start : start + REQUESTS_MAX])
    now_s = 0.0
    queue = WorkQueue(redis, BINDING_QUEUE)
    relay = OutboxRelay(ledger, queue, lambda: now_s)
    await queue.mark()
    # Somebody else holds nearly all that a queue may have, and the server no buffer of theirs.
    async with Redis.from_url(administered_url) as other:
        await other.set("held", b"x" * HELD_BYTES)
    filled = (await redis_memory(redis)).used_bytes + 1_000_000
    await redis.config_set("maxmemory", str(int(filled / (1 - RESERVED_SHARE))))
    assert 0 < await relay.look() < REQUESTS
    drained: list[int] = []
    while len(ledger_open(ledger)) > 0:
        await relay.look()
        claims = await queue.claim(CLAIM_ITEMS_MAX, 60_000)
        drained.append(len(claims))
        assert any(drained[-STILL:]), "nothing leaves the queue"
        with ledger.transaction() as transaction:
            for claim in claims:
                close(transaction, claim.key, "completed", result={})
        await queue.acknowledge(claims)
        now_s += SWEEP_EVERY_S
    assert sum(drained) == REQUESTS


def ledger_open(ledger: Ledger) -> list[Request]:
    with ledger.view() as view:
        return view.open_requests(limit=1)
