"""What the kernel is told of its capacity: from a reading, less what was used since."""

import os
import signal
import threading

import anyio
import anyio.lowlevel
import pytest
from redis.asyncio import Redis

from kernel.records.capacity import CapacityGrant
from kernel.values.pressure import ANY_KIND, COST_MAX, Amount, Capacity
from queues.embedded.server import EmbeddedRedis, find_server
from queues.errors import QueueError
from queues.leases.capacity_leases import CapacityLeases
from queues.leases.kernel_capacity import REFRESH_EVERY_S, STALE_AFTER_S, LeasedCapacity

pytestmark = pytest.mark.anyio

PERIOD_MS = 10_000
PIECE_MS = 500
USER, BACKGROUND, CRITICAL = (
    "user_active_session",
    "background_normal",
    "user_initiated_critical",
)
TEN = Capacity(Amount(float("inf"), 10.0), {"critical": Amount(cost=2.0)})


@pytest.fixture
def gateway(leases, clock):
    """A process that draws on the leases."""

    def start(holder="g1", **capacities) -> LeasedCapacity:
        return LeasedCapacity(
            leases, capacities or {ANY_KIND: TEN}, holder, PERIOD_MS, lambda: clock.now_ms / 1000
        )

    return start


@pytest.mark.spec("§18.2")
async def test_a_kind_without_a_capacity_is_without_limit(gateway) -> None:
    capacity = gateway(create=TEN)
    await capacity.refresh()
    assert capacity.lease("adapt", USER) == CapacityGrant(granted=True, cost_remaining=float("inf"))
    capacity.draw("adapt", USER, 1e12)
    assert capacity.lease("create", USER).cost_remaining == 8


@pytest.mark.spec("§18.2")
async def test_a_kind_of_its_own_does_not_draw_on_any(gateway) -> None:
    capacity = gateway(create=TEN, any=TEN)
    await capacity.refresh()
    capacity.draw("create", CRITICAL, 10)
    assert not capacity.lease("create", CRITICAL).granted
    assert capacity.lease("adapt", CRITICAL).cost_remaining == 10


@pytest.mark.spec("§18.2", "INV-A-COST-1")
async def test_before_the_first_reading_nothing_is_granted(gateway) -> None:
    lease = gateway().lease("create", USER)
    assert (lease.granted, lease.known, lease.cost_remaining) == (False, False, 0)


@pytest.mark.spec("§18.2")
async def test_what_was_used_counts_at_once_and_for_a_period(gateway, clock) -> None:
    capacity = gateway()
    await capacity.refresh()
    capacity.draw("create", USER, 3)
    assert capacity.lease("create", USER).cost_remaining == 5
    for _ in range(PERIOD_MS // PIECE_MS):
        await capacity.refresh()
        assert capacity.lease("create", USER).cost_remaining == 5
        clock.advance(PIECE_MS)
    clock.advance(PIECE_MS)
    await capacity.refresh()
    assert capacity.lease("create", USER).cost_remaining == 8


@pytest.mark.spec("§8.3", "§18.2")
async def test_a_reserve_is_there_for_its_priority_alone(gateway) -> None:
    capacity = gateway()
    await capacity.refresh()
    capacity.draw("create", USER, 8)
    assert not capacity.lease("create", USER).granted
    assert not capacity.lease("create", BACKGROUND).granted
    critical = capacity.lease("create", CRITICAL)
    assert (critical.granted, critical.cost_remaining, critical.ceiling) == (True, 2, 10)
    assert capacity.lease("create", USER).ceiling == 8


async def test_two_gateways_share_what_there_is(gateway) -> None:
    first, other = gateway("g1"), gateway("g2")
    await first.refresh()
    await other.refresh()
    first.draw("create", USER, 3)
    assert other.lease("create", USER).cost_remaining == 8
    await first.refresh()
    await other.refresh()
    assert first.lease("create", USER) == _renamed(other.lease("create", USER), "kernel:any#g1.1")
    assert other.lease("create", USER).cost_remaining == 5


def _renamed(lease: CapacityGrant, lease_id: str) -> CapacityGrant:
    return CapacityGrant(
        lease.granted,
        lease.cost_remaining,
        lease_id,
        lease.retry_after_s,
        lease.ceiling,
        lease.known,
    )


async def test_it_says_when_the_first_of_what_was_used_comes_back(gateway, clock) -> None:
    capacity = gateway()
    await capacity.refresh()
    capacity.draw("create", USER, 8)
    await capacity.refresh()
    clock.advance(2500)
    await capacity.refresh()
    lease = capacity.lease("create", USER)
    assert (lease.granted, lease.retry_after_s) == (False, 8)


@pytest.mark.spec("§18.3")
async def test_the_id_on_a_receipt_names_the_hold_that_bears_the_cost(
    gateway, redis, clock
) -> None:
    capacity = gateway()
    await capacity.refresh()
    seen = {}
    for cost in (1, 2, 3):
        seen[capacity.lease("create", USER).ec_capacity_lease_id] = cost
        capacity.draw("create", USER, cost)
        clock.advance(PIECE_MS)
        await capacity.refresh()
    holds = await redis.hgetall("rotulus:{lease:kernel:any}:holds")
    held = {name.decode(): int(value.split()[2]) for name, value in holds.items()}
    assert held == {f"{name.partition('#')[2]}/1": cost * 1_000_000 for name, cost in seen.items()}


async def test_an_old_reading_is_no_reading(gateway, clock) -> None:
    capacity = gateway()
    await capacity.refresh()
    clock.advance(int(STALE_AFTER_S * 1000))
    assert capacity.lease("create", USER).known
    clock.advance(1)
    assert not capacity.lease("create", USER).known
    await capacity.refresh()
    assert capacity.lease("create", USER).known


async def test_what_was_used_while_a_call_failed_is_handed_in_once(
    gateway, leases, clock, monkeypatch
) -> None:
    """The first reply is lost after the draw; the next is lost before it."""
    capacity = gateway()
    await capacity.refresh()
    capacity.draw("create", USER, 1)
    draw = leases.draw

    async def lose_reply(*args):
        await draw(*args)
        raise QueueError("queue_unavailable", "gone")

    async def lose_call(*_):
        raise QueueError("queue_unavailable", "gone")

    for lose in (lose_reply, lose_call):
        monkeypatch.setattr(leases, "draw", lose)
        with pytest.raises(QueueError):
            await capacity.refresh()
        capacity.draw("create", USER, 1)
    monkeypatch.undo()
    await capacity.refresh()
    assert (await leases.state("kernel:any", TEN)).held[1] == Amount(0, 3.0)
    assert capacity.lease("create", USER).cost_remaining == 5


@pytest.mark.parametrize("most", [10.0, COST_MAX])
async def test_a_cost_beyond_all_bounds_fills_what_there_is_and_no_more(
    gateway, clock, most
) -> None:
    capacity = gateway(any=Capacity(Amount(float("inf"), most)))
    await capacity.refresh()
    for cost in (1e300, 5e17, 1e300):
        capacity.draw("create", USER, cost)
    for _ in range(3):
        await capacity.refresh()
        clock.advance(PIECE_MS)
    assert not capacity.lease("create", USER).granted
    clock.advance(PERIOD_MS)
    await capacity.refresh()
    assert capacity.lease("create", USER).cost_remaining == most


async def test_draws_of_other_threads_are_all_counted(gateway, leases) -> None:
    capacity = gateway(any=Capacity(Amount(float("inf"), 1e6)))
    await capacity.refresh()

    def work() -> None:
        for _ in range(500):
            capacity.lease("create", USER)
            capacity.draw("create", USER, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await capacity.refresh()
        await anyio.lowlevel.checkpoint()
    await capacity.refresh()
    assert capacity.lease("create", USER).cost_remaining == 1e6 - 2000


async def test_where_nothing_is_limited_there_is_nothing_to_run(leases) -> None:
    with anyio.fail_after(5):
        await LeasedCapacity(leases, {}, "g", PERIOD_MS, lambda: 0.0).run()


@pytest.mark.slow
@pytest.mark.spec("§18.2")
async def test_a_redis_that_is_killed_is_missed_and_found_again(tmp_path) -> None:
    """Leases and draws are there again, or were forgotten; in both cases work goes on."""
    server = EmbeddedRedis(tmp_path, find_server())
    await anyio.to_thread.run_sync(server.start)
    redis = Redis.from_url(server.url)
    leases = CapacityLeases(redis)
    capacity = LeasedCapacity(leases, {ANY_KIND: TEN}, "g", 60_000, anyio.current_time)

    async def eventually(*, known: bool) -> None:
        with anyio.fail_after(30):
            while capacity.lease("create", USER).known is not known:
                await anyio.sleep(REFRESH_EVERY_S / 10)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(capacity.run)
            await eventually(known=True)
            held = await leases.acquire("slots", 1, "w1", 60_000)
            capacity.draw("create", USER, 3)
            pid = server.pid
            await anyio.sleep(1.5)  # the server writes to its file every second
            os.kill(pid, signal.SIGKILL)
            await eventually(known=False)
            with pytest.raises(QueueError):
                await leases.acquire("slots", 1, "w2", 60_000)
            capacity.draw("create", USER, 2)
            await anyio.to_thread.run_sync(server.start)
            await eventually(known=True)
            # The file had the lease: nobody else gets the slot, and its holder keeps it.
            assert await leases.acquire("slots", 1, "w2", 60_000) is None
            assert await leases.renew(held, 60_000)
            # What was used before and during the absence counts once.
            assert capacity.lease("create", USER).cost_remaining == 3
            # After a flush nobody remembers: the old lease is refused, a new one is given.
            await redis.flushall()
            assert not await leases.renew(held, 60_000)
            again = await leases.acquire("slots", 1, "w2", 60_000)
            assert again is not None
            assert again.token == 1
            assert not await leases.release(held)
            tasks.cancel_scope.cancel()
    finally:
        await redis.aclose()
        await anyio.to_thread.run_sync(server.stop)
