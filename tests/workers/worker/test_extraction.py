"""Steps of extractions from the queue to the record, whatever comes early, twice or not at all."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from fakeredis import FakeAsyncRedis

from actors.commit.work_units import RequestWorkUnit
from kernel.ledger import schema
from kernel.verify import verify
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.requests import WorkRequest, status_of
from queues.items import Claim
from queues.outbox_relay import OutboxRelay
from queues.retry_delay import MAX_ATTEMPTS
from queues.work_queue import WorkQueue
from tests.kernel.build import FakeHost
from tests.workers.api.door import Door, client_of, running_door
from workers.worker.batches import BatchProcessor
from workers.worker.gateway_reports import GatewayReporter
from workers.worker.handlers.extraction import TransitionHandler

pytestmark = pytest.mark.anyio


def step(number: int, prior: str, current: str, run: str = "run-1", **more: Any) -> WorkRequest:
    content = {
        "extraction_run_id": run,
        "attempt_number": number,
        "prior_state": prior,
        "current_state": current,
        "state_change_reason": "because",
        **more,
    }
    return WorkRequest(EXTRACTION_QUEUE, f"{run}:{number}:{current}", content)


class World:
    """A gateway, a queue whose clock a test moves, and a drainer of steps."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.now_ms = 1_700_000_000_000
        self.redis = FakeAsyncRedis()
        self.queue = WorkQueue(self.redis, EXTRACTION_QUEUE, lambda: self.now_ms)
        reporter = GatewayReporter(client_of(door.app), lambda: self.now_ms / 1000)
        self.processor = BatchProcessor(
            self.queue, TransitionHandler(reporter), reporter, lambda: 0.5
        )
        self.relay = OutboxRelay(door.ledger, self.queue, lambda: self.now_ms / 1000)

    async def ask(self, *asked: WorkRequest) -> list[str]:
        return [one.request_id for one in await self.door.services.write(RequestWorkUnit(asked))]

    async def deliver(self) -> list[Claim]:
        """Carry what may be sent, then claim and drain everything that is due."""
        await self.relay.sweep()
        claims = await self.queue.claim(100, 30_000)
        await self.processor.drain(claims)
        return claims

    def state(self, request_id: str) -> tuple[str, str | None]:
        with self.door.ledger.view() as view:
            found = status_of(view, request_id)
        assert found is not None
        return found.state, found.reason

    def steps(self) -> list[tuple[str, int, str]]:
        """In the order of the log."""
        with self.door.ledger.view() as view:
            rows = view.tables.select(schema.receipts, {"receipt_kind": "extraction_attempt"})
        found = [orjson.loads(row["receipt_bytes"]) for row in rows]
        names = ("extraction_run_id", "attempt_number", "current_state")
        return [tuple(one[name] for name in names) for one in found]


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[World]:
    async with running_door(host=FakeHost().host) as door:
        world = World(door)
        yield world
        with door.ledger.view() as view:
            assert verify(view).findings == ()
        await world.redis.aclose()


@pytest.mark.spec("§16.4", "§16.8")
async def test_the_steps_of_a_run_are_recorded_in_order_and_runs_side_by_side(world: World):
    runs = ("run-1", "run-2")
    for run in runs:
        await world.ask(
            step(3, "degraded", "running", run),
            step(1, "pending", "running", run),
            step(2, "running", "degraded", run),
        )
    sizes = [len(await world.deliver()) for _ in range(4)]
    assert sizes == [2, 2, 2, 0]
    for run in runs:
        assert [one[1:] for one in world.steps() if one[0] == run] == [
            (1, "running"),
            (2, "degraded"),
            (3, "running"),
        ]


async def test_a_step_before_its_turn_waits_for_the_one_that_is_missing(world: World):
    [early] = await world.ask(step(2, "running", "succeeded"))
    await world.deliver()
    assert world.state(early) == ("open", None)
    await world.ask(step(1, "pending", "running"))
    world.now_ms += 60_000
    await world.deliver()
    world.now_ms += 60_000
    await world.deliver()
    assert world.state(early) == ("completed", None)
    assert world.processor.tally.last_error == "early"


async def test_a_step_whose_turn_never_comes_is_given_up(world: World):
    [early] = await world.ask(step(5, "running", "succeeded"))
    for _ in range(MAX_ATTEMPTS):
        await world.deliver()
        world.now_ms += 60_000
    assert world.state(early) == ("dead_letter", "early")
    assert await world.queue.dead_by_signature() == {"early": 1}


@pytest.mark.spec("§16.5")
async def test_a_step_that_the_table_does_not_have_is_given_up_at_once(world: World):
    [wrong, right] = await world.ask(step(1, "pending", "succeeded"), step(1, "pending", "running"))
    await world.deliver()
    assert world.state(wrong) == ("dead_letter", "extraction_state_transition_invalid")
    await world.deliver()
    assert world.state(right) == ("completed", None)


@pytest.mark.parametrize("hand", ["requeue", "cancel", "nobody"])
async def test_a_dead_step_holds_its_run_up_neither_here_nor_on_the_record(world: World, hand: str):
    """What an operator does with the item changes nothing that the record says of its request."""
    [dead] = await world.ask(step(1, "pending", "succeeded"))
    await world.deliver()
    assert [one.key for one in await world.queue.dead(10)] == [dead]
    if hand != "nobody":
        await getattr(world.queue, hand)([dead])
    await world.ask(step(2, "running", "succeeded"), step(1, "pending", "running"))
    for _ in range(3):
        await world.deliver()
        world.now_ms += 60_000
    assert world.state(dead) == ("dead_letter", "extraction_state_transition_invalid")
    assert [one[1:] for one in world.steps()] == [(1, "running"), (2, "succeeded")]
    assert bool(await world.queue.dead(10)) == (hand == "nobody")
    depth = await world.queue.depth()
    assert (sum(depth.ready.values()), depth.delayed, depth.in_flight) == (0, 0, 0)


async def test_a_step_that_is_delivered_again_after_its_worker_died_is_recorded_once(
    world: World,
):
    [request_id] = await world.ask(step(1, "pending", "running"))
    await world.relay.sweep()
    claims = await world.queue.claim(1, 1000)
    await world.processor._handle(claims)  # and then it died
    world.now_ms += 1001
    assert await world.queue.reap() == 1
    [again] = await world.deliver()
    # It had not said that it began the step.
    assert (again.attempt, again.ends) == (1, 0)
    assert world.state(request_id) == ("completed", None)
    assert world.steps() == [("run-1", 1, "running")]
    assert (await world.queue.depth()).in_flight == 0
