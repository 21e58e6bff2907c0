"""Steps of extractions from the queue to the record, whatever comes early, twice or not at all."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.requests import WorkRequest
from queues.queue.items import Claim
from tests.extraction_steps import extraction_step
from tests.kernel.build import FakeHost
from tests.kernel.extractions import completeness
from tests.workers.api.door import Door, client_of
from tests.world import MAX_ATTEMPTS, DoorWorld, behind_a_door
from workers.worker import batches
from workers.worker.attempts import ErrorTexts
from workers.worker.handlers.extraction import ExtractionHandler
from workers.worker.handlers.extractors import Extractors

pytestmark = pytest.mark.anyio


def step(number: int, prior: str, current: str, run: str = "run-1", **fields: Any) -> WorkRequest:
    fields = completeness(prior, current) | fields
    content = extraction_step(run, number, prior, current, **fields)
    return WorkRequest(EXTRACTION_QUEUE, f"{run}:{number}:{current}", content)


class ExtractionWorld(DoorWorld):
    def __init__(self, door: Door, host: FakeHost) -> None:
        super().__init__(door, host, EXTRACTION_QUEUE)

        def handler(reporter: Any) -> ExtractionHandler:
            return ExtractionHandler(door.ledger, reporter, Extractors(), ErrorTexts())

        self.drain_by(client_of(door.app), handler)

    async def deliver(self, limit: int = 100) -> list[Claim]:
        """Carry what may be sent, then claim and drain everything that is due."""
        await self.relay.sweep()
        return await super().deliver(limit)

    def state(self, request_id: str) -> tuple[str, str | None]:
        status = self.status(request_id)
        return status.state, status.reason

    def steps(self) -> list[tuple[str, int, str]]:
        """In the order of the log."""
        names = ("extraction_run_id", "attempt_number", "current_state")
        return [
            tuple(receipt[name] for name in names)
            for receipt in self.receipts("extraction_attempt")
        ]


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[ExtractionWorld]:
    async with behind_a_door(ExtractionWorld) as world:
        yield world
        world.check()


@pytest.mark.spec("§16.4", "§16.8")
async def test_the_steps_of_a_run_are_recorded_in_order_and_runs_side_by_side(
    world: ExtractionWorld,
):
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
        assert [
            recorded_step[1:] for recorded_step in world.steps() if recorded_step[0] == run
        ] == [
            (1, "running"),
            (2, "degraded"),
            (3, "running"),
        ]


async def test_a_step_before_its_turn_waits_for_the_one_that_is_missing(world: ExtractionWorld):
    [early] = await world.ask(step(2, "running", "succeeded"))
    await world.deliver()
    assert world.state(early) == ("open", None)
    await world.ask(step(1, "pending", "running"))
    world.pass_ms(60_000)
    await world.deliver()
    world.pass_ms(60_000)
    await world.deliver()
    assert world.state(early) == ("completed", None)
    assert world.processor.tally.last_error == "early"


async def test_a_step_whose_turn_never_comes_is_given_up(world: ExtractionWorld):
    [early] = await world.ask(step(5, "running", "succeeded"))
    for _ in range(MAX_ATTEMPTS):
        await world.deliver()
        world.pass_ms(60_000)
    assert world.state(early) == ("dead_letter", "early")
    assert (await world.queue.depth()).dead == 1


@pytest.mark.spec("§16.5")
async def test_a_step_that_the_table_does_not_have_is_given_up_at_once(world: ExtractionWorld):
    [wrong, right] = await world.ask(step(1, "pending", "succeeded"), step(1, "pending", "running"))
    await world.deliver()
    assert world.state(wrong) == ("dead_letter", "extraction_state_transition_invalid")
    await world.deliver()
    assert world.state(right) == ("completed", None)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_dead_step_holds_its_run_up_neither_here_nor_on_the_record(
    world: ExtractionWorld, *, cancelled: bool
):
    """What an operator does with the item changes nothing that the record says of its request."""
    [dead] = await world.ask(step(1, "pending", "succeeded"))
    await world.deliver()
    assert (await world.queue.depth()).dead == 1
    if cancelled:
        await world.queue.cancel([dead])
    await world.ask(step(2, "running", "succeeded"), step(1, "pending", "running"))
    for _ in range(3):
        await world.deliver()
        world.pass_ms(60_000)
    assert world.state(dead) == ("dead_letter", "extraction_state_transition_invalid")
    assert [recorded_step[1:] for recorded_step in world.steps()] == [
        (1, "running"),
        (2, "succeeded"),
    ]
    depth = await world.queue.depth()
    assert depth.dead == (0 if cancelled else 1)
    assert (sum(depth.ready.values()), depth.delayed, depth.in_flight) == (0, 0, 0)


async def test_a_step_that_is_delivered_again_after_its_worker_died_is_recorded_once(
    world: ExtractionWorld, monkeypatch
):
    [request_id] = await world.ask(step(1, "pending", "running"))
    await world.relay.sweep()
    claims = await world.queue.claim(1, 1000)

    async def die(*_: Any) -> None:
        raise RuntimeError("the worker died")

    with monkeypatch.context() as dying:
        dying.setattr(world.queue, "acknowledge", die)
        with pytest.raises(RuntimeError):
            await world.processor.drain(claims)
    assert world.state(request_id) == ("completed", None)
    world.pass_ms(1001)
    assert await world.queue.reap() == 1
    [again] = await world.deliver()
    # It had not said that it began the step.
    assert (again.attempt, again.ends) == (1, 0)
    assert world.state(request_id) == ("completed", None)
    assert world.steps() == [("run-1", 1, "running")]
    assert (await world.queue.depth()).in_flight == 0


async def test_an_item_of_another_version_is_left_for_others_and_is_no_attempt(
    world: ExtractionWorld, monkeypatch: pytest.MonkeyPatch
):
    [request_id] = await world.ask(step(1, "pending", "running"))
    with monkeypatch.context() as patched:
        patched.setattr(batches, "is_spoken", lambda _: False)
        for _ in range(MAX_ATTEMPTS + 1):
            with capture_logs() as logged:
                await world.deliver()
            assert {"protocol_differs"} == {event["event"] for event in logged}
            world.pass_ms(60_000)
    assert world.state(request_id) == ("open", None)
    await world.deliver()
    assert world.state(request_id) == ("completed", None)
