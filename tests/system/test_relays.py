"""One relay for each queue among two gateways: killed, paused, and back again."""

import signal
from itertools import count

import anyio
import pytest
from redis.asyncio import Redis

from actors.sharding import SHARDS_DEFAULT
from actors.sharding.assignment import REQUESTS_OF, shard_of
from kernel.work.contents import BINDING_QUEUE
from queues.queue.work_queue import WorkQueue
from tests.system.gateways import (
    LEASE_S,
    RetryingClient,
    database_of,
    on_a_server,
    running_gateways,
)
from tests.wall_clock import hold_at_night

pytestmark = [pytest.mark.timeout(120), pytest.mark.anyio, pytest.mark.may_block]

EACH = 40
SENT_S = 60.0
TAKEN_OVER_S = LEASE_S + 6.0
"""The lease, and time for the taking and the sweep on a machine that does much else."""

_numbers = count()


@pytest.fixture(scope="module")
def gateways(request, tmp_path_factory):
    """One ledger with its gateways for all tests of a store; each test begins with a pair."""
    folder = tmp_path_factory.mktemp("relays")
    with running_gateways(folder, database_of(request)) as gateways:
        yield gateways
        gateways.verify()


@pytest.fixture
async def queue(gateways, anyio_backend):
    async with Redis.from_url(gateways.redis.url) as redis:
        yield WorkQueue(redis, BINDING_QUEUE)


def relay_on_record(gateways):
    """The shard of the relay, with its owner and its epoch."""
    return gateways.shards()[shard_of(REQUESTS_OF.format(BINDING_QUEUE), SHARDS_DEFAULT)]


def holder_and_other(gateways):
    pair = gateways.pair()
    owner = relay_on_record(gateways).owner
    [holder] = [gateway for gateway in pair if gateway.name == owner]
    [other] = [gateway for gateway in pair if gateway.name != owner]
    return holder, other


async def ask(gateway, number=EACH):
    """Ask a gateway for work and return the ids of the requests."""
    requests = [
        {
            "request_key": f"k-{next(_numbers)}",
            "content": {"binding_id": "b", "source_event_id": "e"},
        }
        for _ in range(number)
    ]
    async with RetryingClient(gateway) as client:
        path = f"/v1/queues/{BINDING_QUEUE}/requests"
        answer = await client.ask("POST", path, {"requests": requests})
    return {request["request_id"] for request in answer["requests"]}


async def cancel(gateway, requests):
    async with RetryingClient(gateway) as client:
        for request_id in requests:
            path = f"/v1/queues/{BINDING_QUEUE}/requests/{request_id}/cancel"
            assert (await client.ask("POST", path, {"reason": "done"}))["cancelled"]


async def keys(queue):
    return {item.key for item in await queue.peek(1000)}


async def wait_for_items(queue, requests):
    """Wait until the queue holds these and no others, and return how long that took."""
    began_s = anyio.current_time()
    with anyio.fail_after(SENT_S):
        while await keys(queue) != requests:
            await anyio.sleep(0.02)
    return anyio.current_time() - began_s


@on_a_server
@pytest.mark.spec("K19")
async def test_one_gateway_relays_what_any_records_and_is_told_of_it_at_once(gateways, queue):
    holder, other = holder_and_other(gateways)
    requests = await ask(holder) | await ask(other)
    await wait_for_items(queue, requests)
    assert await queue.current_mark() == str(relay_on_record(gateways).epoch)
    took_s = []
    for _ in range(10):
        requests |= await ask(other, 1)
        took_s.append(await wait_for_items(queue, requests))
    # Without a note from the other gateway each would wait for the look of each second.
    hold_at_night(sum(took_s), 4.0)
    await cancel(other, requests)
    await wait_for_items(queue, set())


@on_a_server
@pytest.mark.spec("K19")
async def test_when_the_gateway_that_relays_is_killed_another_does_within_the_lease(
    gateways, queue
):
    holder, other = holder_and_other(gateways)
    epoch = relay_on_record(gateways).epoch
    requests = await ask(holder)
    await wait_for_items(queue, requests)
    holder.send(signal.SIGKILL)
    requests |= await ask(other)
    hold_at_night(await wait_for_items(queue, requests), TAKEN_OVER_S)
    relay = relay_on_record(gateways)
    assert (relay.owner, relay.epoch) == (other.name, epoch + 1)
    assert await queue.current_mark() == str(relay.epoch)
    await cancel(other, requests)


@on_a_server
@pytest.mark.spec("D6", "K19")
async def test_a_gateway_that_wakes_up_after_another_relays_puts_nothing_back(gateways, queue):
    holder, other = holder_and_other(gateways)
    done = await ask(holder)
    await wait_for_items(queue, done)
    with holder.paused():
        open_requests = await ask(other)
        hold_at_night(await wait_for_items(queue, done | open_requests), TAKEN_OVER_S)
        await cancel(other, done)
        await anyio.to_thread.run_sync(other.wait_until_owning, 64)
        relay = relay_on_record(gateways)
    for _ in range(20):
        assert await keys(queue) == open_requests
        assert await queue.current_mark() == str(relay.epoch)
        await anyio.sleep(0.05)
        if relay_on_record(gateways) != relay:
            break
    gateways.pair()
    answer = await ask(holder)
    await wait_for_items(queue, open_requests | answer)
    await cancel(other, open_requests | answer)
    await wait_for_items(queue, set())
