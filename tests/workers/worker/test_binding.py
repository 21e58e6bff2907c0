"""Bindings under fan-out and capacity: who suspends, who is throttled, who runs through."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from math import inf
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from actors.commit.work_units import CancelRequestUnit, WorkReportUnit
from actors.errors import MailboxFull
from kernel.audit.manifests import manifests_of
from kernel.ledger.ledger import Ledger, Request
from kernel.model.bindings.dispatch import TARGETS
from kernel.model.bindings.outcomes import BindingOutcomeRecord
from kernel.records.capacity import CapacityGrant
from kernel.transaction.kernel import Kernel
from kernel.work import ready_requests
from kernel.work.contents import BINDING_QUEUE
from kernel.work.reports import BindingSuspended
from kernel.work.requests import WorkRequest
from kernel.work.retry_policy import WORKER_ENDS_MAX as ENDS_MAX
from queues.leases.capacity_leases import CAPACITY_RESOURCE, CapacityLeases
from queues.leases.lease_holder import capacity_of
from queues.queue.items import Claim
from queues.queue.priorities import least_of
from tests.foreign_ends import ENDS, nobody_at_the_keyboard, released_at_the_end, stands_still
from tests.kernel.binding_world import EVENT, bound, furnish
from tests.kernel.bindings.routed import open_evaluations
from tests.kernel.build import FakeHost
from tests.workers.api.door import Door, client_of
from tests.world import MAX_ATTEMPTS, DoorWorld, behind_a_door
from workers.environment import foreign_threads
from workers.worker.attempts import ErrorTexts
from workers.worker.batches import ENDED_ITS_WORKERS
from workers.worker.gateway_reports import GatewayReporter
from workers.worker.handlers import binding as bindings
from workers.worker.handlers import binding_evaluator
from workers.worker.handlers.binding import REJECTED_DELAY_MS, BindingHandler
from workers.worker.handlers.binding_evaluator import (
    BindingCapacity,
    Evaluated,
    MidEvaluationRejection,
    ReadersOfPlugins,
    RecordEvaluator,
)
from workers.worker.handlers.docket_particulars import DocketParticulars

pytestmark = pytest.mark.anyio

SLOTS = 2


class Evaluator:
    """Evaluates by the record unless a test says otherwise, and tells what it was asked."""

    def __init__(self, ledger: Ledger) -> None:
        self._by_the_record = RecordEvaluator(ledger, DocketParticulars())
        self.asked: list[str] = []
        self.raises: dict[str, Exception] = {}
        self.changes: dict[str, dict[str, Any]] = {}
        self.during: Callable[[], Any] | None = None

    async def evaluate(self, request: Request) -> Evaluated:
        name = request.document["content"]["binding_id"]
        self.asked.append(name)
        if self.during is not None:
            await self.during()
        if name in self.raises:
            raise self.raises[name]
        evaluated = await self._by_the_record.evaluate(request)
        outcome = evaluated.outcome.model_copy(update=self.changes.get(name, {}))
        return replace(evaluated, outcome=outcome)


class BindingWorld(DoorWorld):
    def __init__(self, door: Door, host: FakeHost) -> None:
        super().__init__(door, host, BINDING_QUEUE)
        self.leases = CapacityLeases(self.redis, self.now_ms)
        self.evaluator = Evaluator(door.ledger)
        self.observed: list[BindingOutcomeRecord] = []

        def handler(reporter: GatewayReporter) -> BindingHandler:
            return BindingHandler(
                door.ledger,
                reporter,
                BindingCapacity(self.leases, self.queue, SLOTS, "worker-1"),
                self.evaluator,
                lambda: host.time_us,
                ErrorTexts("worker-1"),
                self.observed.append,
            )

        self.new_handler = handler
        self.drain_by(client_of(door.app, give_up_after_s=0.0), handler)

    async def ask_for(self, *names: str, **content: Any) -> list[str]:
        """Ask for bindings of one event, by their names, and carry them to the queue."""
        requests = tuple(
            WorkRequest(BINDING_QUEUE, name, {"binding_id": name, "source_event_id": "e"} | content)
            for name in names
        )
        request_ids = await self.ask(*requests)
        await self.relay.sweep()
        return request_ids

    async def deliver_as_a_slot(self, limit: int = 100) -> list[Claim]:
        least_urgent = least_of(self.queue.priorities, await self.processor.least_capacity())
        return await self.drain(await self.queue.claim(limit, 30_000, least_urgent))

    async def take_all_capacity(self) -> list[Any]:
        return [
            await self.leases.acquire(CAPACITY_RESOURCE, capacity_of(SLOTS), f"other-{n}", 600_000)
            for n in range(SLOTS)
        ]


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[BindingWorld]:
    async with behind_a_door(BindingWorld) as world:
        yield world
        world.check()


@pytest.mark.spec("§13.5", "§14.3")
async def test_what_is_evaluated_is_recorded_and_leaves_the_queue(world: BindingWorld):
    ids = await world.ask_for("b-1", "b-2")
    await world.deliver()
    assert sorted(world.evaluator.asked) == ["b-1", "b-2"]
    status = world.status(ids[0])
    assert status.state == "completed"
    assert status.worker == "worker-1"
    assert status.took_ms is not None
    assert status.result is not None
    del status.result["evaluation"]
    assert status.result == {
        "outcome_id": f"outcome:{ids[0]}",
        "source_event_id": "e",
        "binding_id": "b-1",
        "target_kind": "corpus_document_membership",
        "outcome_state": "abandoned",
        "outcome_reason_code": "binding_unknown",
        "schema_version": 1,
    }
    depth = await world.queue.depth()
    assert (sum(depth.ready.values()), depth.delayed, depth.in_flight) == (0, 0, 0)
    assert await world.leases.active_leases(CAPACITY_RESOURCE) == []


@pytest.mark.spec("§14.2", "§14.3", "V4-K-CAPACITY")
async def test_under_pressure_background_suspends_users_are_throttled_and_critical_runs(
    world: BindingWorld, monkeypatch
):
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(bindings.anyio, "sleep", sleep)
    await world.take_all_capacity()
    lasts_ms = 300
    await world.leases.acquire(CAPACITY_RESOURCE, capacity_of(SLOTS), "other-0", lasts_ms)
    [background] = await world.ask_for("background")
    await world.ask_for("user", capacity_priority="user_initiated")
    await world.ask_for("critical", capacity_priority="critical")
    await world.deliver()
    assert world.evaluator.asked == ["critical", "user"]
    assert slept == [lasts_ms / 1000], "until something may be free"
    assert world.status(background).state == "open"
    pending = world.observed[-1]
    assert (pending.binding_id, pending.outcome_state, pending.outcome_reason_code) == (
        "background",
        "pending",
        "binding_suspended_capacity_pressure",
    )
    depth = await world.queue.depth()
    assert (depth.suspended["background"], depth.delayed) == (1, 0)
    assert len(await world.leases.active_leases(CAPACITY_RESOURCE)) == SLOTS


@pytest.mark.spec("§8.3", "§14.2")
async def test_what_is_critical_has_a_slot_of_its_own(world: BindingWorld):
    await world.take_all_capacity()
    await world.ask_for("critical", capacity_priority="critical")
    held: list[Any] = []

    async def look() -> None:
        held.extend(await world.leases.active_leases(CAPACITY_RESOURCE))

    world.evaluator.during = look
    await world.deliver()
    assert sorted(lease.capacity_priority for lease in held) == ["background"] * SLOTS + [
        "critical"
    ]


@pytest.mark.spec("§14.3")
async def test_while_there_is_no_capacity_nothing_of_the_background_is_claimed(world: BindingWorld):
    held = await world.take_all_capacity()
    await world.ask_for("background")
    await world.ask_for("critical", capacity_priority="critical")
    assert [claim.priority for claim in await world.deliver_as_a_slot()] == ["critical"]
    await world.leases.release(held[0])
    assert [claim.priority for claim in await world.deliver_as_a_slot()] == ["background"]


@pytest.mark.spec("§14.3")
async def test_the_suspended_go_on_in_the_order_in_which_they_were_suspended(world: BindingWorld):
    held = await world.take_all_capacity()
    for name in ("c", "a", "b"):
        await world.ask_for(name)
        await world.deliver()
    for _ in range(3 * MAX_ATTEMPTS):
        world.pass_ms(1000)
        # Capacity that was seen and is gone again: the first is suspended again, in its old place.
        [claim] = await world.deliver(limit=1)
        assert claim.attempt == 1
    assert world.evaluator.asked == []
    assert await world.deliver_as_a_slot() == []
    for lease in held:
        await world.leases.release(lease)
    await world.ask_for("late")
    # One at a time, by whoever claims it: nobody overtakes those that were suspended before.
    while len(world.evaluator.asked) < 4:
        [claim] = await world.deliver_as_a_slot(limit=1)
        assert claim.attempt == 1
    assert world.evaluator.asked == ["c", "a", "b", "late"]


@pytest.mark.spec("§14.3", "K19")
@pytest.mark.parametrize("loses", ["redis", "relay", "nothing"])
async def test_a_lost_redis_does_not_change_the_order_of_the_suspended(world: BindingWorld, loses):
    held = await world.take_all_capacity()
    await world.ask_for("a", "b", "c", "d", "e")
    claims = {claim.key: claim for claim in await world.queue.claim(5, 30_000)}
    ids = {r.document["content"]["binding_id"]: r.request_id for r in world.open(BINDING_QUEUE)}
    for name in ("d", "b", "e", "a"):
        await world.drain([claims[ids[name]]])
    await world.queue.put_off([claims[ids["c"]]], [0], "worker_stopped")
    if loses == "redis":
        await world.redis.flushall()
        await world.relay.sweep()
    if loses == "relay":
        await world.new_relay().sweep()
    for lease in held:
        await world.leases.release(lease)
    await world.ask_for("late")
    while len(world.evaluator.asked) < 6:
        await world.deliver_as_a_slot(limit=1)
    assert world.evaluator.asked[:4] == ["d", "b", "e", "a"]
    assert sorted(world.evaluator.asked[4:]) == ["c", "late"]


@pytest.mark.spec("§14.1", "§14.3")
async def test_the_suspended_of_a_full_cycle_go_on_in_the_order_of_their_suspension(
    world: BindingWorld, monkeypatch
):
    plan = ready_requests.plan_fan_out
    monkeypatch.setattr(ready_requests, "plan_fan_out", lambda *args: plan(*args[:3], 2, *args[4:]))
    await world.ask_for("a", "b", "c")
    ids = {r.document["content"]["binding_id"]: r.request_id for r in world.open(BINDING_QUEUE)}
    for name in ("c", "b", "a"):
        await world.door.services.write(WorkReportUnit(BindingSuspended(request_id=ids[name])))
    await world.redis.flushall()
    await world.relay.sweep()
    await world.deliver()
    assert world.evaluator.asked == ["c", "b"]


async def test_a_batch_holds_one_slot_and_gives_it_back(world: BindingWorld):
    await world.ask_for("a", "b", "c")
    held: list[int] = []

    async def look() -> None:
        held.append(len(await world.leases.active_leases(CAPACITY_RESOURCE)))

    world.evaluator.during = look
    await world.deliver()
    assert held == [1, 1, 1]
    assert await world.leases.active_leases(CAPACITY_RESOURCE) == []


async def test_a_suspended_binding_that_is_taken_back_holds_nobody_up(world: BindingWorld):
    held = await world.take_all_capacity()
    [first, _] = await world.ask_for("first", "second")
    await world.deliver()
    await world.door.services.write(CancelRequestUnit(first, "no longer wanted"))
    for lease in held:
        await world.leases.release(lease)
    await world.deliver()
    assert world.evaluator.asked == ["second"]


@pytest.mark.spec("§14.3", "§14.5")
@pytest.mark.parametrize(
    ("capacity", "retry", "priority"),
    [
        ("background", "background", "background"),
        ("user_initiated", "user_initiated", "user_initiated"),
        ("critical", "background", "background"),
    ],
)
async def test_capacity_refused_under_way_is_on_record_and_the_binding_comes_again(
    world: BindingWorld, capacity: str, retry: str, priority: str
):
    [request_id] = await world.ask_for("b-1", capacity_priority=capacity)
    world.evaluator.raises["b-1"] = MidEvaluationRejection("evaluation-7")
    [claim] = await world.deliver()
    [pending] = world.observed
    assert (pending.outcome_state, pending.outcome_reason_code) == (
        "pending",
        "capacity_rejected_mid_evaluation",
    )
    [receipt] = world.receipts("binding_fire_capacity_rejected")
    assert receipt["binding_evaluation_id"] == "evaluation-7"
    assert (receipt["retry_eligible"], receipt["retry_priority"]) == (True, retry)
    assert receipt["capacity_signal_at_rejection"] == {
        "ec_capacity_lease_state": "granted",
        "queue_depth": 0,
        "inflight_operations": 1,
    }
    assert world.status(request_id).state == "open"
    assert await world.leases.active_leases(CAPACITY_RESOURCE) == []
    world.evaluator.raises.clear()
    await world.relay.sweep()
    world.pass_ms(REJECTED_DELAY_MS)
    [again] = await world.deliver()
    assert (again.priority, again.attempt) == (priority, 1)
    assert world.status(request_id).state == "completed"
    assert world.processor.tally.failed == 0
    assert claim.attempt == 1


class ShortOfFires:
    """Capacity that does not cover what a fire writes, for as long as a test says."""

    is_short = True

    def lease(self, operation_kind: str, priority: str) -> CapacityGrant:
        del priority
        if self.is_short and operation_kind == TARGETS["corpus_document_membership"].verb:
            return CapacityGrant(False, 0.0, "lease")
        return CapacityGrant(True, inf)

    def draw(self, operation_kind: str, priority: str, cost: float) -> None:
        """Count nothing."""


@pytest.mark.spec("§14.3", "§14.5", "§13.7")
async def test_a_fire_to_which_the_kernel_refuses_capacity_leaves_its_receipt_and_comes_again():
    capacity = ShortOfFires()
    async with behind_a_door(BindingWorld, Kernel(capacity=capacity)) as world:
        ledger = world.door.ledger
        furnish(ledger, bound("b-1", "corpus_document_membership"))
        requested = {request.item_key: request.request_id for request in open_evaluations(ledger)}
        await world.relay.sweep()
        await world.deliver()
        receipts = world.receipts("binding_fire_capacity_rejected")
        assert {receipt["source_event_id"] for receipt in receipts} == requested.keys()
        for receipt in receipts:
            stated = {
                "receipt_kind": "binding_fire_capacity_rejected",
                "binding_id": "b-1",
                "rejected_at": receipt["emitted_at"],
                "retry_eligible": True,
                "retry_priority": "background",
                "capacity_signal_at_rejection": {
                    "ec_capacity_lease_state": "granted",
                    "queue_depth": 0,
                    "inflight_operations": 1,
                },
                "schema_version": 1,
            }
            assert receipt.items() >= stated.items()
            assert receipt["receipt_id"]
        assert world.receipts("binding_fire_record") == []
        assert {world.status(request_id).state for request_id in requested.values()} == {"open"}
        capacity.is_short = False
        await world.relay.sweep()
        world.pass_ms(REJECTED_DELAY_MS)
        await world.deliver()
        assert {world.status(request_id).state for request_id in requested.values()} == {
            "completed"
        }
        fires = world.receipts("binding_fire_record")
        assert sorted(fire["source_event_id"] for fire in fires) == sorted(requested)
        with ledger.view() as view:
            manifests = [manifests_of(view, event).manifests for event in requested]
        for first, second in manifests:
            [rejected], [fired] = first.body["binding_outcomes"], second.body["binding_outcomes"]
            assert rejected["outcome_reason_code"] == "capacity_rejected_mid_evaluation"
            assert fired["outcome_reason_code"] == "binding_fired"
        world.check()


async def test_what_is_not_eligible_for_a_retry_is_given_up(world: BindingWorld):
    [request_id] = await world.ask_for("b-1")
    world.evaluator.raises["b-1"] = MidEvaluationRejection(retry_eligible=False)
    await world.deliver()
    assert len(world.receipts("binding_fire_capacity_rejected")) == 1
    assert world.status(request_id).reason == "capacity_rejected_mid_evaluation"


@pytest.mark.spec("INV-K-BATCH-PARTIAL-1")
async def test_one_that_fails_fails_alone_and_is_given_up_after_its_attempts(world: BindingWorld):
    [broken, fine] = await world.ask_for("broken", "fine")
    world.evaluator.raises["broken"] = ValueError("cannot be")
    for _ in range(MAX_ATTEMPTS):
        await world.deliver()
        world.pass_ms(60_000)
    assert world.status(fine).state == "completed"
    status = world.status(broken)
    assert (status.state, status.reason) == ("dead_letter", "binding_evaluation_failed")
    assert world.evaluator.asked.count("broken") == MAX_ATTEMPTS
    assert world.processor.tally.last_error == "binding_evaluation_failed"


@pytest.mark.spec("INV-K-BATCH-PARTIAL-1")
async def test_an_outcome_that_is_none_fails_alone(world: BindingWorld):
    [strange, fine] = await world.ask_for("strange", "fine")
    world.evaluator.changes["strange"] = {"outcome_state": "succeeded"}
    await world.deliver()
    assert (world.status(strange).state, world.status(fine).state) == ("dead_letter", "completed")
    assert world.processor.tally.last_error == "rejected"


async def test_an_evaluation_that_does_not_end_is_stopped(world: BindingWorld, monkeypatch):
    monkeypatch.setattr(bindings, "EVALUATION_S_MAX", 0.01)
    world.evaluator.during = anyio.sleep_forever
    await world.ask_for("b-1")
    await world.deliver()
    assert world.processor.tally.last_error == "binding_evaluation_timeout"
    assert await world.leases.active_leases(CAPACITY_RESOURCE) == []


@pytest.mark.spec("§14.1", "V4-AT-26-FANOUT")
async def test_an_event_is_evaluated_for_fifty_bindings_and_the_rest_in_the_next_cycle(
    world: BindingWorld,
):
    names = [f"b-{number:02}" for number in range(60)]
    ids = await world.ask_for(*names)
    await world.deliver()
    assert sorted(world.evaluator.asked) == names[:50]
    depth = await world.queue.depth()
    assert (depth.delayed, depth.dead) == (10, 0)
    assert world.processor.tally.failed == 0
    # Whatever Redis forgets: what the cycle has used up is on the record.
    await world.redis.flushall()
    await world.relay.sweep()
    world.pass_ms(1000)
    assert len(await world.deliver()) == 10
    assert len(world.evaluator.asked) == 50
    world.pass_ms(ready_requests.FAN_OUT_CYCLE_US // 1000)
    assert {claim.attempt for claim in await world.deliver()} == {1}
    assert sorted(world.evaluator.asked) == names
    assert {world.status(id_).state for id_ in ids} == {"completed"}


async def test_while_the_gateway_has_no_room_an_evaluation_is_no_attempt(
    world: BindingWorld, monkeypatch
):
    [request_id] = await world.ask_for("b-1")
    ask = world.door.services.sessions.ask

    async def full(*_: Any) -> Any:
        raise MailboxFull("the session has too much waiting")

    monkeypatch.setattr(world.door.services.sessions, "ask", full)
    for _ in range(2 * MAX_ATTEMPTS):
        [claim] = await world.deliver()
        assert claim.attempt == 1
        assert not await world.processor.ready()
        world.pass_ms(10_000)
    monkeypatch.setattr(world.door.services.sessions, "ask", ask)
    assert await world.processor.ready()
    await world.deliver()
    assert world.status(request_id).state == "completed"
    assert world.processor.tally.failed == 0


async def end_of_the_worker(world: BindingWorld) -> None:
    world.pass_ms(30_000)
    await world.queue.reap()


async def test_an_item_that_ends_its_worker_is_set_aside_alone_and_its_neighbours_complete(
    world: BindingWorld,
):
    *sound, marker = await world.ask_for("a", "b", "c", "d", "marker")

    class Ended(BaseException):
        pass

    ends = 0
    world.evaluator.raises["marker"] = Ended()  # type: ignore[assignment]  # nothing in the worker may catch it
    for _ in range(20):
        try:
            if not await world.deliver():
                break
        except (BaseExceptionGroup, Ended):
            ends += 1
            await end_of_the_worker(world)
    assert [world.status(request_id).state for request_id in sound] == ["completed"] * 4
    # Once with the others, which counts for none of them, and three times alone.
    assert (ends, world.evaluator.asked.count("marker")) == (1 + ENDS_MAX, 1 + ENDS_MAX)
    assert world.evaluator.asked.count("a") == 1
    status = world.status(marker)
    assert (status.state, status.reason) == ("dead_letter", ENDED_ITS_WORKERS)
    assert (await world.queue.depth()).dead == 1


async def test_what_another_slot_held_when_a_suspect_ended_the_worker_has_no_end_counted(
    world: BindingWorld,
):
    await world.ask_for("marker", "neighbour")
    await world.queue.claim(10, 30_000)
    await end_of_the_worker(world)
    [first] = await world.queue.claim(10, 30_000)
    [second] = await world.queue.claim(10, 30_000)
    began = anyio.Event()

    async def never_ends() -> None:
        began.set()
        await anyio.sleep_forever()

    world.evaluator.during = never_ends
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.processor.drain, [first])
        await began.wait()
        await world.processor.drain([second])
        assert world.processor.tally.put_off == 1
        tasks.cancel_scope.cancel()
    await end_of_the_worker(world)
    ends = {claim.key: claim.ends for _ in range(2) for claim in await world.queue.claim(1, 30_000)}
    assert ends == {first.key: 1, second.key: 0}


@pytest.mark.parametrize("name", [*ENDS, "another type", "stands still"])
async def test_however_the_reader_of_a_plugin_ends_its_evaluation_fails_alone(
    world: BindingWorld, name: str, monkeypatch: pytest.MonkeyPatch
):
    if name == "stands still":
        monkeypatch.setattr(binding_evaluator, "READ_S_MAX", 0.02)
        monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
        monkeypatch.setattr(foreign_threads, "LEFT_BEHIND_MAX", 100)
    kind = "court_disposition_observation"
    furnish(world.ledger, bound("b", kind))

    ends = {**ENDS, "stands still": stands_still}

    class Reader:
        read = staticmethod(ends.get(name, lambda *_: "granted"))

    readers = ReadersOfPlugins({kind: Reader()}, DocketParticulars())
    world.evaluator = RecordEvaluator(world.ledger, readers)  # type: ignore[assignment]
    world.drain_by(client_of(world.door.app, give_up_after_s=0.0), world.new_handler)
    [request_id] = await world.ask_for("b", source_event_id=EVENT)
    with released_at_the_end(), nobody_at_the_keyboard(), capture_logs() as logs:
        for _ in range(MAX_ATTEMPTS):
            assert world.status(request_id).state == "open"
            await world.deliver()
            world.pass_s(24 * 3600)
    status = world.status(request_id)
    assert (status.state, status.reason) == ("dead_letter", "binding_evaluation_failed")
    said = [log for log in logs if log.get("request_id") == request_id]
    assert [log["attempt"] for log in said] == [*range(1, MAX_ATTEMPTS + 1)]
    assert all("Traceback" in log["exception"] for log in said)
