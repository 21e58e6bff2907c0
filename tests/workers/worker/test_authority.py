"""The drainer: every claim is settled, and an item leaves when the record asks for it no more."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import anyio
import pytest
from fakeredis import FakeAsyncRedis
from pydantic import TypeAdapter

from actors.commit.work_units import WorkReportUnit
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.values.errors import LedgerUnavailable
from kernel.verify import verify
from kernel.work.reports import WorkReport
from queues.queue.items import Claim, NewItem
from queues.queue.outbox_relay import OutboxRelay
from queues.queue.work_queue import WorkQueue
from tests.actors.harness import bench_on
from tests.kernel.build import (
    FakeHost,
    adapt,
    advance_policy,
    create,
    drain,
    link,
    memory_ledger,
    submit,
    understandings,
)
from tests.workers.api.door import client_of, eventually, rows, running_door
from tests.world import MAX_ATTEMPTS, QUICK_RETRIES, QueuedWorld
from workers.client.errors import GatewayError
from workers.demo.ingest import Ingest
from workers.dockets.reader import sample_path
from workers.worker.attempts import ErrorTexts
from workers.worker.batches import (
    INPUT_PENDING_DELAY_MS,
    BatchProcessor,
    ClaimResult,
    settlement_of,
)
from workers.worker.gateway_reports import AWAY_MAX_S, NO_ROOM, REPORTS_PATH, GatewayReporter
from workers.worker.handlers import authority
from workers.worker.handlers.authority import AuthorityHandler

pytestmark = pytest.mark.anyio

BASE_MS = QUICK_RETRIES.first_pause_ms
REPORTS = TypeAdapter(list[WorkReport]).validate_python
AWAY = GatewayError("gateway_unreachable", "the gateway cannot be reached")
NO_CODE = {"outcome": "rejected"}


class AnsweringGateway:
    """A gateway that answers as a test says, and what it was asked."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.outcomes: list[Any] = []
        """For each result in turn; an error fails the whole request. Then: completed."""
        self.asked: list[tuple[str, Any]] = []
        self.alive = True
        self.buries: GatewayError | None = None
        """Fails whoever reports an attempt."""
        self.given_up: list[tuple[list[str], str]] = []

    async def post(self, path: str, body: Any) -> Any:
        self.asked.append((path, body))
        if path == REPORTS_PATH:
            if self.buries is not None:
                raise self.buries
            return {"outcomes": [self.record(report) for report in REPORTS(body["reports"])]}
        answers = []
        for _ in body["results"]:
            outcome = self.outcomes.pop(0) if self.outcomes else {"outcome": "completed"}
            if isinstance(outcome, GatewayError):
                raise outcome
            answers.append(outcome)
        return {"outcomes": answers}

    async def answers(self, _: str) -> bool:
        return self.alive

    def record(self, report: Any) -> Any:
        with bench_on(self.ledger) as context:
            outcome, pause = WorkReportUnit(report).run(context)
        if outcome == "completed":
            self.given_up.append(([report.request_id, *report.joined], report.error.code))
        return {"outcome": outcome, "pause_ms": getattr(pause, "pause_ms", 0)}

    def dead_letters(self) -> list[tuple[list[str], str]]:
        """Return the requests that were given up together, and why."""
        return self.given_up


def handler_of(ledger: Ledger, reporter: GatewayReporter) -> AuthorityHandler:
    return AuthorityHandler(ledger, reporter, BetaPosteriorMean(), ErrorTexts("worker-1"))


def new_drainer(
    ledger: Ledger, queue: WorkQueue, gateway: Any, random_unit: Callable[[], float]
) -> BatchProcessor:
    reporter = GatewayReporter(gateway)
    return BatchProcessor(queue, handler_of(ledger, reporter), reporter, random_unit)


class DrainedWorld(QueuedWorld):
    """A drainer whose gateway answers as a test says."""

    def __init__(self) -> None:
        super().__init__(AUTHORITY_QUEUE)
        self.gateway = AnsweringGateway(self.ledger)
        self.drain_by(self.gateway, partial(handler_of, self.ledger))

    async def ask(self, *names: str) -> None:
        self.accept(*(create(name, "ConsolidatedUnderstanding") for name in names))
        await self.relay.sweep()

    async def depth(self) -> tuple[int, int, int, int]:
        """Ready, delayed, in flight, dead."""
        depth = await self.queue.depth()
        return sum(depth.ready.values()), depth.delayed, depth.in_flight, depth.dead


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[DrainedWorld]:
    world = DrainedWorld()
    yield world
    await world.redis.aclose()


async def test_what_is_completed_leaves_the_queue(world: DrainedWorld):
    await world.ask("u-1", "u-2")
    await world.deliver()
    [(path, body)] = world.gateway.asked
    assert path == "/internal/recomputed"
    assert [result["intent"]["target_cu_id"] for result in body["results"]] == ["u-1", "u-2"]
    assert {result["intent"]["as_of_sequence"] for result in body["results"]} == {2}
    assert body["attempt"]["worker"] == "worker-1"
    assert body["attempt"]["took_ms"] >= 0
    assert await world.depth() == (0, 0, 0, 0)
    assert (world.processor.tally.completed, world.processor.tally.in_flight) == (2, 0)


async def test_what_the_gateway_found_closed_leaves_the_queue(world: DrainedWorld):
    await world.ask("u-1")
    world.gateway.outcomes = [{"outcome": "closed"}]
    await world.deliver()
    assert await world.depth() == (0, 0, 0, 0)


async def test_what_the_record_asks_for_no_more_is_acknowledged_without_asking(world: DrainedWorld):
    await world.ask("u-1")
    drain(world.ledger)
    await world.queue.enqueue_many([NewItem("no-such-node", "background_normal", "c", b"{}")])
    await world.deliver()
    assert world.gateway.asked == []
    assert await world.depth() == (0, 0, 0, 0)
    assert world.processor.tally.completed == 2


async def test_what_came_too_early_is_delivered_again_shortly(world: DrainedWorld):
    await world.ask("u-1")
    world.gateway.outcomes = [{"outcome": "input_pending"}]
    await world.deliver()
    assert await world.depth() == (0, 1, 0, 0)
    world.pass_ms(INPUT_PENDING_DELAY_MS - 1)
    assert await world.deliver() == []
    world.pass_ms(1)
    [claim] = await world.deliver()
    assert claim.attempt == 1, "to wait for another is no attempt"
    assert (world.processor.tally.completed, world.processor.tally.failed) == (1, 0)


async def test_a_session_that_is_full_holds_up_nobody_elses_and_one_that_fails_is_given_up(
    world: DrainedWorld,
):
    await world.ask("u-1", "u-2")
    full = {"outcome": "failed", "code": "mailbox_full"}
    world.gateway.outcomes = [full, {"outcome": "completed"}]
    await world.deliver()
    assert await world.processor.ready()
    assert await world.depth() == (0, 1, 0, 0)
    # Whatever it is that makes an actor fail, it is not tried for ever.
    await wear_out(world, {"outcome": "failed", "code": "actor_failed"})
    assert [code for _, code in world.gateway.dead_letters()] == ["actor_failed"]
    assert world.processor.tally.dead_letters == 1


@pytest.mark.parametrize("code", sorted(NO_ROOM))
async def test_what_the_gateway_had_no_room_for_is_no_attempt_and_slows_claiming(
    world: DrainedWorld, code: str
):
    await world.ask("u-1")
    for _ in range(2 * MAX_ATTEMPTS):
        world.gateway.outcomes = [{"outcome": "failed", "code": code}]
        [claim] = await world.deliver()
        assert claim.attempt == 1
        assert not await world.processor.ready()
        world.pass_ms(60_000)
    assert world.gateway.dead_letters() == []
    assert (world.processor.tally.failed, world.processor.tally.put_off) == (0, 2 * MAX_ATTEMPTS)


@pytest.mark.spec("§18.1")
async def test_what_the_kernel_puts_off_comes_back_when_it_says_and_was_not_tried(
    world: DrainedWorld,
):
    await world.ask("u-1")
    throttled = {"outcome": "rejected", "code": "emergency_throttle", "retry_after_s": 2}
    for _ in range(2 * MAX_ATTEMPTS):
        world.gateway.outcomes = [throttled]
        [claim] = await world.deliver()
        assert claim.attempt == 1
        assert await world.processor.ready(), "it says nothing of others"
        world.pass_ms(1999)
        assert await world.deliver() == []
        world.pass_ms(1)
    await world.deliver()
    assert (world.processor.tally.completed, world.processor.tally.failed) == (1, 0)
    assert world.gateway.dead_letters() == []


@pytest.mark.spec("§8.3", "§18.1")
@pytest.mark.parametrize(
    ("priority", "waits"), [("background_normal", True), ("user_initiated_critical", False)]
)
async def test_the_emergency_throttle_puts_background_authorities_off_and_no_critical_one(
    priority: str, *, waits: bool
):
    fake = FakeHost()
    async with running_door(host=fake.host) as door:
        advance_policy(
            door.ledger, kernel_cost_governance={"emergency_throttle_threshold_ops_per_sec": 1}
        )
        fake.time_us += 2_000_000
        stated = {"recompute_priority": priority, "policy_generation_id": "PG-2"}
        submit(door.ledger, create("u-1", "ConsolidatedUnderstanding", envelope=stated))
        now_ms = 1_700_000_000_000
        queue = WorkQueue(FakeAsyncRedis(), AUTHORITY_QUEUE, lambda: now_ms)
        processor = new_drainer(door.ledger, queue, client_of(door.app), lambda: 0.5)
        await OutboxRelay(door.ledger, queue, lambda: 0.0).sweep()
        for _ in range(2 * MAX_ATTEMPTS if waits else 1):
            [claim] = await queue.claim(10, 30_000)
            assert claim.attempt == 1
            await processor.drain([claim])
            now_ms += 1000
            assert processor.tally.completed == (0 if waits else 1)
        fake.time_us += 2_000_000
        await processor.drain(await queue.claim(10, 30_000))
        assert (processor.tally.completed, processor.tally.failed) == (1, 0)
        assert outcomes_of(door.ledger).popitem()[1] == ["completed"]


@pytest.mark.parametrize(
    ("code", "final"),
    [("extraction_state_transition_invalid", True), ("envelope_capacity_unavailable", False)],
)
async def test_a_shortage_is_no_refusal_for_ever(world: DrainedWorld, code: str, *, final: bool):
    await world.ask("u-1")
    [claim] = await world.queue.claim(1, 1000)
    outcome = {"outcome": "rejected", "code": code}
    settled = settlement_of(claim, outcome, rejection_is_final=True)
    assert (settled.verdict, settled.final) == ("failed", final)


async def test_what_failed_is_delivered_again_after_a_growing_pause(world: DrainedWorld):
    await world.ask("u-1")
    for attempt in range(1, 4):
        world.gateway.outcomes = [{"outcome": "rejected", "code": "cu_authority_mismatch"}]
        [claim] = await world.deliver()
        assert claim.attempt == attempt
        delay_ms = BASE_MS * 2 ** (attempt - 1)
        world.pass_ms(delay_ms - 1)
        assert await world.deliver() == []
        world.pass_ms(1)
    await world.deliver()
    assert await world.depth() == (0, 0, 0, 0)
    assert (world.processor.tally.completed, world.processor.tally.failed) == (1, 3)


async def wear_out(
    world: DrainedWorld, outcome: Any = NO_CODE, attempts: int = MAX_ATTEMPTS
) -> None:
    for _ in range(attempts):
        world.gateway.outcomes = [outcome]
        world.pass_ms(60_000)
        await world.deliver()


async def test_what_failed_too_often_is_recorded_as_dead_and_then_buried(world: DrainedWorld):
    await world.ask("u-1")
    await wear_out(world, {"outcome": "rejected", "code": "broken"}, MAX_ATTEMPTS - 1)
    assert world.gateway.dead_letters() == []
    assert await world.depth() == (0, 1, 0, 0)
    with world.ledger.view() as view:
        [request] = view.open_requests_of(AUTHORITY_QUEUE, "u-1")
    await wear_out(world, {"outcome": "rejected", "code": "broken"}, 1)
    assert world.gateway.dead_letters() == [([request.request_id], "broken")]
    assert await world.depth() == (0, 0, 0, 1)


@pytest.mark.parametrize("is_relayed", [True, False], ids=["relayed", "not relayed yet"])
async def test_what_was_asked_for_during_the_last_try_is_no_dead_letter_and_is_tried(
    world: DrainedWorld, is_relayed
):
    await world.ask("u-1")
    with world.ledger.view() as view:
        [tried] = view.open_requests_of(AUTHORITY_QUEUE, "u-1")
    await wear_out(world, {"outcome": "rejected", "code": "broken"}, MAX_ATTEMPTS - 1)
    post = world.gateway.post

    async def asked_meanwhile(path: str, body: Any) -> Any:
        if path == "/internal/recomputed":
            world.accept(adapt("u-1", title="another"))
            if is_relayed:
                await world.relay.sweep()
        return await post(path, body)

    world.gateway.post = asked_meanwhile  # type: ignore[method-assign]
    await wear_out(world, {"outcome": "rejected", "code": "broken"}, 1)
    world.gateway.post = post  # type: ignore[method-assign]
    [(request_ids, _)] = world.gateway.dead_letters()
    assert request_ids == [tried.request_id]
    await world.relay.sweep()
    assert await world.depth() == (1, 0, 0, 1), "the later cause is an item of its own"
    [claim] = await world.deliver()
    assert (claim.key, claim.attempt) == ("u-1", 1)


async def test_a_failure_that_cannot_be_recorded_is_no_attempt(world: DrainedWorld):
    await world.ask("u-1")
    world.gateway.buries = GatewayError("commit_failed", "later", 503)
    await wear_out(world, attempts=2 * MAX_ATTEMPTS)
    assert await world.depth() == (0, 1, 0, 0)
    world.gateway.buries = None
    await wear_out(world, attempts=MAX_ATTEMPTS - 1)
    assert await world.depth() == (0, 1, 0, 0)
    await wear_out(world, attempts=1)
    assert await world.depth() == (0, 0, 0, 1)


async def test_a_failure_that_the_gateway_refuses_to_record_waits_longer_each_time(
    world: DrainedWorld,
):
    await world.ask("u-1")
    world.gateway.buries = GatewayError("INVALID_REQUEST", "no", 400)
    for attempt in range(1, 4):
        world.gateway.outcomes = [NO_CODE]
        [claim] = await world.deliver()
        assert claim.attempt == attempt
        world.pass_ms(BASE_MS * 2 ** (attempt - 1) - 1)
        assert await world.deliver() == []
        world.pass_ms(1)


async def test_a_gateway_that_is_away_gets_it_later_and_nothing_is_given_up_for_it(
    world: DrainedWorld,
):
    await world.ask("u-1")
    await wear_out(world, AWAY)
    assert world.gateway.dead_letters() == []
    assert await world.depth() == (0, 1, 0, 0)
    world.gateway.alive = True
    world.pass_ms(60_000)
    [claim] = await world.deliver()
    assert claim.attempt == 1


async def test_while_the_gateway_is_away_nothing_is_claimed(world: DrainedWorld):
    await world.ask("u-1")
    assert await world.processor.ready()
    world.gateway.alive = False
    assert await world.processor.ready(), "nobody has noticed yet"
    world.gateway.outcomes = [AWAY]
    await world.deliver()
    assert not await world.processor.ready()
    world.gateway.alive = True
    world.pass_ms(int(1000 * AWAY_MAX_S))
    assert await world.processor.ready()


async def test_failures_of_a_batch_are_reported_together_and_wait_for_a_gateway_that_is_away(
    world: DrainedWorld,
):
    await world.ask("u-1", "u-2", "u-3")
    world.gateway.buries = AWAY
    world.gateway.outcomes = [NO_CODE] * 3
    await world.deliver()
    assert [path for path, _ in world.gateway.asked] == ["/internal/recomputed", REPORTS_PATH]
    assert await world.depth() == (0, 3, 0, 0)
    assert not await world.processor.ready()


@pytest.mark.parametrize("status", [413, 422])
async def test_one_result_that_spoils_its_batch_fails_alone(world: DrainedWorld, status):
    await world.ask("u-1", "u-2", "u-3")
    refused = GatewayError("INVALID_REQUEST", "no", status)
    # The batch is refused, its second half, and of that the first.
    world.gateway.outcomes = [refused, {"outcome": "completed"}, refused, refused]
    await world.deliver()
    results = [body["results"] for _, body in world.gateway.asked if "results" in body]
    assert [*map(len, results)] == [3, 1, 2, 1, 1]
    assert await world.depth() == (0, 1, 0, 0)
    assert (world.processor.tally.completed, world.processor.tally.failed) == (2, 1)


async def test_a_refusal_that_is_of_no_result_is_not_asked_again_for_each(world: DrainedWorld):
    await world.ask("u-1", "u-2")
    world.gateway.outcomes = [GatewayError("unauthorized", "no", 401)]
    await world.deliver()
    assert len(world.gateway.asked) == 1
    assert await world.depth() == (0, 2, 0, 0)


async def test_one_that_cannot_be_computed_fails_alone(world: DrainedWorld, monkeypatch):
    await world.ask("u-1", "u-2")
    compute = authority.authority_of

    def computed(view: LedgerView, strategy: Any, node: Any) -> Any:
        if node["node_id"] == "u-1":
            raise ValueError("cannot be")
        return compute(view, strategy, node)

    monkeypatch.setattr(authority, "authority_of", computed)
    await world.deliver()
    assert (world.processor.tally.completed, world.processor.tally.failed) == (1, 1)
    assert await world.depth() == (0, 1, 0, 0)


async def test_what_a_handler_raises_for_one_item_of_a_batch_fails_that_item_alone(
    world: DrainedWorld, monkeypatch
):
    await world.ask("u-1", "u-2", "u-3")
    handle = AuthorityHandler.handle

    async def refusing(handler: AuthorityHandler, claims: Sequence[Claim]) -> list[ClaimResult]:
        if any(claim.key == "u-2" for claim in claims):
            raise ValueError("cannot be")
        return await handle(handler, claims)

    monkeypatch.setattr(AuthorityHandler, "handle", refusing)
    await world.deliver()
    assert (world.processor.tally.completed, world.processor.tally.failed) == (2, 1)
    assert await world.depth() == (0, 1, 0, 0)


async def test_a_drain_that_is_cut_off_is_not_counted_as_in_flight(
    world: DrainedWorld, monkeypatch
):
    await world.ask("u-1")

    async def fail(*_: Any) -> None:
        raise RuntimeError("redis is gone")

    monkeypatch.setattr(world.queue, "acknowledge", fail)
    with pytest.raises(RuntimeError):
        await world.deliver()
    assert world.processor.tally.in_flight == 0


@pytest.mark.spec("K18")
async def test_a_worker_can_read_the_ledger_and_not_write_it(tmp_path):
    path = tmp_path / "ledger.db"
    writer = Ledger.create(SqliteStore(path), FakeHost().host)
    submit(writer, create("u-1", "ConsolidatedUnderstanding"))
    handle = Ledger(SqliteStore(path, read_only=True), FakeHost().host)
    with handle.view() as view:
        assert view.node("u-1")
        with pytest.raises(Exception, match="readonly"):
            view.tables.insert(schema.pre_images, {"content_hash": "x", "content": b"y"})  # type: ignore[attr-defined]
    with pytest.raises(LedgerUnavailable) as caught, handle.transaction():
        pass
    assert caught.value.code == "ledger_read_only"
    handle.close()
    writer.close()


def outcomes_of(ledger: Ledger) -> dict[str, list[str]]:
    """The outcomes of every request for a recompute that was ever recorded."""
    requests = rows(ledger, schema.outbox)
    outcomes: dict[str, list[str]] = {
        row["request_id"]: [] for row in requests if row["queue"] == AUTHORITY_QUEUE
    }
    for row in rows(ledger, schema.outbox_outcomes):
        outcomes[row["request_id"]].append(row["outcome"])
    return outcomes


def assert_computed(ledger: Ledger) -> None:
    """Every authority is what computing it from nothing gives."""
    with ledger.view() as view:
        nodes = understandings(view)
        assert nodes
        for node in nodes:
            value, inputs = authority_of(view, BetaPosteriorMean(), node)
            assert node["payload"]["cu_authority"] == value, node["node_id"]
            assert inputs.payload().items() <= node["payload"].items()


async def serve_all(ledger: Ledger, queue: WorkQueue, processors: Sequence[BatchProcessor]) -> None:
    """Let slots drain until nothing is open."""

    async def slot(processor: BatchProcessor) -> None:
        while True:
            claims = await queue.claim(16, 30_000)
            await processor.drain(claims)
            if not claims:
                await anyio.sleep(0.005)

    async with anyio.create_task_group() as tasks:
        for processor in processors:
            tasks.start_soon(slot, processor)
        await eventually(lambda: not rows_open(ledger))
        tasks.cancel_scope.cancel()


def rows_open(ledger: Ledger) -> bool:
    with ledger.view() as view:
        return (
            view.tables.count(TableQuery(schema.outbox, {"open": 1, "queue": AUTHORITY_QUEUE})) > 0
        )


@pytest.mark.spec("K12")
@pytest.mark.spec("K19")
async def test_after_an_ingest_every_request_has_one_outcome_and_every_authority_is_right(tmp_path):
    path = tmp_path / "ledger.db"
    store = SqliteStore(path)
    async with (
        running_door(store, host=FakeHost().host) as door,
        anyio.create_task_group() as tasks,
    ):
        queue = door.services.work.queues[AUTHORITY_QUEUE]
        relay = OutboxRelay(door.ledger, queue, anyio.current_time)
        reader = Ledger(SqliteStore(path, read_only=True), FakeHost().host)
        tasks.start_soon(relay.run)
        processors = [
            new_drainer(reader, queue, client, lambda: 0.1)
            for client in (client_of(door.app), client_of(door.app))
        ]
        with sample_path().open("rb") as lines:
            summary = await Ingest(client_of(door.app)).run(lines)
        assert summary.accepted
        assert not summary.refused
        relay.notify()
        await serve_all(door.ledger, queue, processors)
        outcomes = outcomes_of(door.ledger)
        assert outcomes
        assert set(map(tuple, outcomes.values())) == {("completed",)}
        assert_computed(door.ledger)
        with door.ledger.view() as view:
            verification = verify(view)
        assert verification.ok, verification.findings
        assert verification.authorities_pending == 0
        assert verification.requests_closed == len(outcomes)
        reader.close()
        tasks.cancel_scope.cancel()
    store.close()


@pytest.mark.spec("K12")
async def test_a_graph_of_understandings_comes_out_the_same_as_in_one_thread():
    """Deep, branching and with a name too long for the queue; several slots at once."""
    names = [f"u-{number}" for number in range(8)] + ["ü" * 300]

    def build(ledger: Ledger) -> None:
        claims = [create(f"c-{name}", "VersionedClaim", authority=0.9) for name in names[:3]]
        submit(ledger, *claims, *(create(name, "ConsolidatedUnderstanding") for name in names))
        for name in names[:3]:
            submit(ledger, link(f"e-{name}", f"c-{name}", name))
        for index in range(1, len(names)):
            for parent in {index // 2, index - 1}:
                submit(ledger, link(f"{parent}->{index}", names[parent], names[index]))

    expected = memory_ledger()
    build(expected)
    drain(expected)
    async with (
        running_door(host=FakeHost().host, committed=lambda _: relay.notify()) as door,
        anyio.create_task_group() as tasks,
    ):
        build(door.ledger)
        relay = OutboxRelay(
            door.ledger, door.services.work.queues[AUTHORITY_QUEUE], anyio.current_time
        )
        tasks.start_soon(relay.run)
        processors = [
            new_drainer(
                door.ledger,
                door.services.work.queues[AUTHORITY_QUEUE],
                client_of(door.app),
                lambda: 0,
            )
            for _ in range(3)
        ]
        await serve_all(door.ledger, door.services.work.queues[AUTHORITY_QUEUE], processors)
        tasks.cancel_scope.cancel()
        assert_computed(door.ledger)
        assert authorities(door.ledger) == authorities(expected)
        assert set(map(tuple, outcomes_of(door.ledger).values())) == {("completed",)}


def authorities(ledger: Ledger) -> dict[str, float]:
    with ledger.view() as view:
        return {node["node_id"]: node["payload"]["cu_authority"] for node in understandings(view)}
