"""The relay: what is open in the ledger becomes items, whatever Redis has lost."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from structlog.testing import capture_logs

from kernel.authority.requests import AUTHORITY_QUEUE, close_requests
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerView, Request
from kernel.ledger.shards import Fence, create_shards, shards_of, take_shards
from kernel.values.errors import LedgerUnavailable
from kernel.values.fleet_protocol import PROTOCOL
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.outcomes import close, reject_for_capacity
from kernel.work.pauses import PauseDecision, pause, resume
from kernel.work.reports import CapacityRejected
from kernel.work.requests import WorkRequest, enqueue
from queues.errors import QueueError
from queues.queue import outbox_relay as relay_module
from queues.queue import queue_view
from queues.queue.items import BATCH_ITEMS_MAX
from queues.queue.outbox_relay import RESEND_AFTER_S, SWEEP_EVERY_S, OutboxRelay, route_of
from queues.queue.queue_view import ANY_RELAY
from queues.queue.work_queue import WorkQueue
from queues.redis.memory import RedisMemory
from tests.extraction_steps import extraction_step
from tests.kernel.build import (
    adapt,
    create,
    drain,
    link,
    memory_ledger,
    recompute,
    submit,
    work,
)
from tests.kernel.deciding import deciding
from tests.world import QueuedWorld

pytestmark = pytest.mark.anyio

LONG = "ü" * 400


class RelayWorld(QueuedWorld):
    """Authorities that are asked for and served, and other work by hand."""

    def __init__(self, queue: str = AUTHORITY_QUEUE, ledger: Ledger | None = None) -> None:
        super().__init__(queue, ledger)

    def ask(self, node_id: str, **changes: Any) -> None:
        """An understanding, and with it a request to compute its authority."""
        document = create(node_id, "ConsolidatedUnderstanding", envelope=changes)
        submitted = submit(self.ledger, document, submitter="orchestrator")
        assert submitted.document()["validation_result"] == "accepted"

    def serve(self, node_id: str) -> None:
        with self.ledger.view() as view:
            document = recompute(view, node_id)
        assert work(self.ledger, document).document()["validation_result"] == "accepted"

    async def waiting(self) -> list[str]:
        return [item.key for item in await self.queue.peek(1000)]

    async def until_waiting(self, count: int) -> None:
        with anyio.fail_after(10):
            while True:
                if len(await self.waiting()) == count:
                    return
                self.pass_s(SWEEP_EVERY_S)
                await anyio.sleep(0.005)

    async def claim(self) -> list[str]:
        claims = await self.queue.claim(100, 60_000)
        await self.queue.acknowledge(claims)
        return [claim.key for claim in claims]

    def ask_for(self, *requests: WorkRequest) -> list[str]:
        with self.ledger.transaction() as transaction:
            return [request.request_id for request in enqueue(transaction, requests)]

    def end(self, request_id: str) -> None:
        with self.ledger.transaction() as transaction:
            close(transaction, request_id, "completed")


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[RelayWorld]:
    world = RelayWorld()
    await world.queue.mark()
    yield world
    await world.redis.aclose()


async def test_what_is_recorded_is_sent_once(world: RelayWorld):
    world.ask("u-1")
    world.ask("u-2")
    assert await world.relay.sweep() == 2
    assert await world.waiting() == ["u-1", "u-2"]
    assert await world.relay.send_new() == 0
    assert await world.relay.sweep() == 0
    world.ask("u-3")
    assert await world.relay.send_new() == 1


async def test_an_item_carries_its_request_priority_and_target(world: RelayWorld):
    world.ask("u-1", recompute_priority="user_initiated_critical")
    await world.relay.send_new()
    [item] = await world.queue.peek(10)
    assert item.priority == "user_initiated_critical"
    assert item.payload == b'{"protocol":%d,"target_cu_id":"u-1"}' % PROTOCOL
    with world.ledger.view() as view:
        [request] = view.open_requests()
    assert item.causes == (f"{request.request_id}!user_initiated_critical",)
    [lineage] = item.lineage
    assert lineage.operation_id == request.document["trigger_source_id"]


async def test_requests_for_one_understanding_are_one_item_with_every_cause(world: RelayWorld):
    world.ask("u-1")
    submit(world.ledger, adapt("u-1", title="another"))
    assert await world.relay.send_new() == 2
    [item] = await world.queue.peek(10)
    assert item.causes_count == 2


async def test_what_was_flushed_is_sent_again_at_the_next_sweep(world: RelayWorld):
    world.ask("u-1")
    await world.relay.sweep()
    await world.redis.flushall()
    assert await world.relay.sweep() == 1
    assert await world.waiting() == ["u-1"]
    assert await world.relay.sweep() == 0


async def test_what_a_server_lost_without_its_mark_is_sent_again_after_a_while(world: RelayWorld):
    world.ask("u-1")
    await world.relay.sweep()
    assert await world.claim() == ["u-1"]
    world.pass_s(RESEND_AFTER_S - 0.1)
    assert await world.relay.sweep() == 0
    world.pass_s(0.1)
    assert await world.relay.sweep() == 1
    assert await world.waiting() == ["u-1"]


async def test_what_is_sent_again_and_was_not_lost_stays_one_item(world: RelayWorld):
    world.ask("u-1")
    await world.relay.sweep()
    world.pass_s(RESEND_AFTER_S)
    await world.relay.sweep()
    [item] = await world.queue.peek(10)
    assert item.causes_count == 1


async def test_a_relay_that_finds_a_redis_without_its_mark_leaves_one(world: RelayWorld):
    await world.relay.sweep()
    world.ask("u-1")
    await world.redis.flushall()
    with pytest.raises(QueueError) as refused:
        await world.relay.send_new()
    assert refused.value.code == "queue_mark_differs"
    assert await world.waiting() == []
    assert await world.relay.sweep() == 1
    assert await world.queue.current_mark() == ANY_RELAY
    assert await world.relay.sweep() == 0


@pytest.mark.parametrize("mark", [b"\xed\xa0\x80", b"\xff", "é".encode(), b"x" * 40, b"\x00"])
async def test_whatever_stands_in_place_of_its_mark_a_relay_leaves_its_own(world: RelayWorld, mark):
    await world.relay.sweep()
    world.ask("u-1")
    await world.redis.set(f"{world.queue.prefix}mark", mark)
    assert await world.relay.sweep() == 1
    assert await world.queue.current_mark() == ANY_RELAY
    assert await world.waiting() == ["u-1"]


async def test_a_relay_that_starts_anew_sends_everything_that_is_open(world: RelayWorld):
    world.ask("u-1")
    await world.relay.sweep()
    assert await world.new_relay().sweep() == 1
    assert await world.waiting() == ["u-1"]


async def test_relays_of_several_gateways_make_one_item_of_a_request(world: RelayWorld):
    """Each sends all that is open; the one that finds the mark after a flush sends as well."""
    other = world.new_relay()
    for number in range(3):
        world.ask(f"u{number}")
    for relay in (world.relay, other):
        assert await relay.send_new() == 3
    assert sorted(await world.waiting()) == ["u0", "u1", "u2"]
    assert [claim.causes_count for claim in await world.queue.claim(9, 60_000)] == [1, 1, 1]
    await world.redis.flushdb()
    assert await other.sweep() == 3
    world.pass_s(SWEEP_EVERY_S)
    await world.relay.sweep()
    assert sorted(await world.waiting()) == ["u0", "u1", "u2"]


async def test_what_has_its_outcome_is_never_sent(world: RelayWorld):
    world.ask("u-1")
    world.ask("u-2")
    world.serve("u-1")
    await world.relay.send_new()
    assert await world.waiting() == ["u-2"]
    await world.redis.flushall()
    world.serve("u-2")
    await world.relay.sweep()
    assert await world.waiting() == []


async def test_what_was_given_up_is_not_sent_but_what_is_asked_afterwards_is(world: RelayWorld):
    world.ask("u-1")
    await world.relay.sweep()
    claims = await world.queue.claim(1, 1000)
    await world.queue.bury(claims)
    with world.ledger.transaction() as transaction:
        head = transaction.head_now
        close_requests(
            transaction,
            "u-1",
            head.ec_sequence_number,
            outcome="dead_letter",
            operation_id=None,
            closed_sequence=head.ec_sequence_number,
            closed_at_us=head.committed_at_us,
        )
    world.pass_s(RESEND_AFTER_S)
    assert await world.relay.sweep() == 0
    submit(world.ledger, adapt("u-1", title="another"))
    assert await world.relay.sweep() == 1
    assert await world.waiting() == ["u-1"]


@pytest.mark.spec("K12")
@pytest.mark.parametrize("anew", [False, True])
async def test_an_item_whose_urgency_rose_is_served_by_its_new_one(world: RelayWorld, anew):
    world.ask("u-parent", recompute_priority="background_low_priority")
    world.ask("u-other", recompute_priority="background_normal")
    world.ask("u-child", recompute_priority="background_low_priority")
    submit(world.ledger, link("e", "u-parent", "u-child"))
    await world.relay.sweep()
    assert await world.waiting() == ["u-other", "u-parent"]
    urgent = {"recompute_priority": "user_initiated_critical"}
    submit(world.ledger, adapt("u-child", envelope_changes=urgent, title="now"))
    relay = world.new_relay() if anew else world.relay
    await relay.sweep()
    assert [(claim.key, claim.priority) for claim in await world.queue.peek(1)] == [
        ("u-parent", "user_initiated_critical")
    ]
    assert await relay.sweep() == 0


@pytest.mark.spec("K12")
async def test_what_is_fed_by_one_that_waits_is_held_until_that_one_is_done(world: RelayWorld):
    world.ask("u-parent")
    world.ask("u-child")
    submit(world.ledger, link("e", "u-parent", "u-child"))
    await world.relay.send_new()
    assert await world.waiting() == ["u-parent"]
    await world.claim()
    # It was delivered, but it is open until the record says otherwise.
    await world.relay.send_new()
    assert "u-child" not in await world.waiting()
    world.serve("u-parent")
    await world.relay.send_new()
    assert await world.claim() == ["u-child"]


async def test_a_chain_is_released_one_by_one_and_everything_is_served(world: RelayWorld):
    names = [f"u-{number}" for number in range(5)]
    for name in names:
        world.ask(name)
    for parent, child in pairwise(names):
        submit(world.ledger, link(f"{parent}->{child}", parent, child))
    order = []
    for _ in names:
        await world.relay.send_new()
        [name] = await world.claim()
        world.serve(name)
        order.append(name)
    assert order == names
    assert await world.relay.sweep() == 0


async def test_what_an_outcome_sets_free_is_sent_without_looking_at_everything(
    world: RelayWorld, monkeypatch
):
    """Of a wide cascade a hundred thousand requests may be open at once."""
    names = [f"u-{number}" for number in range(6)]
    for name in names:
        world.ask(name)
    for parent, child in pairwise(names):
        submit(world.ledger, link(f"{parent}->{child}", parent, child))
    await world.relay.send_new()
    monkeypatch.setattr(world.relay, "sweep", None)
    for name in names:
        assert await world.claim() == [name]
        world.serve(name)
        await world.relay.send_new()
    assert await world.waiting() == []


async def test_a_sweep_looks_at_each_waiting_item_once(world: RelayWorld, monkeypatch):
    """Of a deep cascade each page of requests waits for all the pages before it."""
    monkeypatch.setattr(relay_module, "PAGE_REQUESTS", 3)
    names = [f"u-{number:02d}" for number in range(30)]
    for name in names:
        world.ask(name)
    for parent, child in pairwise(names):
        submit(world.ledger, link(f"{parent}->{child}", parent, child))
    looked_at: list[str] = []
    inner = LedgerView.input_sources

    def noted(view: LedgerView, node_id: str, source_kind: str) -> list[str]:
        looked_at.append(node_id)
        return inner(view, node_id, source_kind)

    monkeypatch.setattr(LedgerView, "input_sources", noted)
    await world.relay.sweep()
    assert len(looked_at) == len(set(looked_at)) == len(names)
    assert await world.waiting() == names[:1]


async def test_what_a_given_up_item_held_back_is_sent(world: RelayWorld, monkeypatch):
    """A dead letter is no operation: it bears the sequence of one that was looked at before."""
    world.ask("u-parent")
    world.ask("u-child")
    submit(world.ledger, link("e", "u-parent", "u-child"))
    await world.relay.sweep()
    await world.relay.send_new()
    monkeypatch.setattr(world.relay, "sweep", None)
    with world.ledger.transaction() as transaction:
        head = transaction.head_now
        at = {"closed_sequence": head.ec_sequence_number, "closed_at_us": head.committed_at_us}
        outcome = {"outcome": "dead_letter", "operation_id": None}
        close_requests(transaction, "u-parent", head.ec_sequence_number, **outcome, **at)
    assert await world.relay.send_new() == 2
    assert {"u-child"} <= set(await world.waiting())


async def test_after_a_long_sweep_there_is_none_for_a_while_but_a_flush_is_noticed(
    world: RelayWorld, monkeypatch
):
    world.ask("u-1")
    inner = LedgerView.open_requests

    def slow(view: LedgerView, **where: Any) -> Any:
        # A sweep alone reads from the first request on.
        world.pass_s(0.0 if where["after"] else 2.0)
        return inner(view, **where)

    monkeypatch.setattr(LedgerView, "open_requests", slow)
    assert await world.relay.look() == 1
    began_s = world.now_s()
    for _ in range(20):
        world.pass_s(SWEEP_EVERY_S)
        await world.relay.look()
    assert world.now_s() == began_s + 20 * SWEEP_EVERY_S
    await world.redis.flushall()
    assert await world.relay.look() == 1
    assert world.now_s() == began_s + 20 * SWEEP_EVERY_S + 2.0


async def test_however_long_a_sweep_takes_the_next_one_begins_within_a_minute(
    world: RelayWorld, monkeypatch
):
    """What Redis lost in part, its mark left, is found by a sweep alone."""
    world.ask("u-1")
    inner = LedgerView.open_requests

    def slow(view: LedgerView, **where: Any) -> Any:
        world.pass_s(0.0 if where["after"] else 20.0)
        return inner(view, **where)

    monkeypatch.setattr(LedgerView, "open_requests", slow)
    assert await world.relay.look() == 1
    began_s = world.now_s()
    mark = f"{world.queue.prefix}mark".encode()
    await world.redis.delete(*[key async for key in world.redis.scan_iter() if key != mark])
    while await world.relay.look() == 0:
        world.pass_s(SWEEP_EVERY_S)
        assert world.now_s() < began_s + 100
    assert world.now_s() <= began_s + 60
    assert await world.waiting() == ["u-1"]


async def test_a_relay_says_at_its_first_sweep_that_redis_may_evict(world: RelayWorld, monkeypatch):
    async def evicting(_: Redis) -> RedisMemory:
        return RedisMemory(1, 100, "allkeys-lru")

    monkeypatch.setattr(queue_view, "redis_memory", evicting)
    with capture_logs() as logs:
        await world.relay.sweep()
        await world.relay.sweep()
    assert [entry["policy"] for entry in logs if entry["event"] == "redis_may_evict"] == [
        "allkeys-lru"
    ]


@pytest.mark.spec("K12")
async def test_what_became_more_urgent_by_another_is_sent_with_it(world: RelayWorld, monkeypatch):
    world.ask("u-parent", recompute_priority="background_low_priority")
    world.ask("u-other", recompute_priority="background_normal")
    world.ask("u-child", recompute_priority="background_low_priority")
    submit(world.ledger, link("e", "u-parent", "u-child"))
    await world.relay.sweep()
    monkeypatch.setattr(world.relay, "sweep", None)
    urgent = {"recompute_priority": "user_initiated_critical"}
    submit(world.ledger, adapt("u-child", envelope_changes=urgent, title="now"))
    await world.relay.send_new()
    [first] = await world.queue.peek(1)
    assert (first.key, first.priority) == ("u-parent", "user_initiated_critical")


async def test_a_queue_that_is_away_gets_everything_at_the_sweep_after_it_came_back(
    world: RelayWorld,
):
    world.ask("u-1")
    world.server.connected = False
    with pytest.raises(QueueError) as caught:
        await world.relay.sweep()
    assert caught.value.code == "queue_unavailable"
    with pytest.raises(QueueError):
        await world.relay.send_new()
    world.server.connected = True
    assert await world.relay.sweep() == 1
    assert await world.waiting() == ["u-1"]


async def test_more_requests_than_one_call_may_carry_are_sent_in_several(
    world: RelayWorld, monkeypatch
):
    monkeypatch.setattr(relay_module, "PAGE_REQUESTS", 7)
    monkeypatch.setattr(relay_module, "BATCH_ITEMS_MAX", 3)
    for number in range(20):
        world.ask(f"u-{number}")
    assert await world.relay.send_new() == 20
    assert sorted(await world.waiting()) == sorted(f"u-{number}" for number in range(20))
    assert BATCH_ITEMS_MAX == 1000


@pytest.mark.parametrize("changes", [{}, {"operation_id": "o" * 500}])
@pytest.mark.parametrize("node_id", [LONG, "u-short"])
async def test_a_name_too_long_for_the_queue_holds_nothing_up(world: RelayWorld, node_id, changes):
    """Everything that the kernel takes can be sent, or one request would block all the others."""
    world.ask("u-before")
    world.ask(node_id, **changes)
    world.ask("u-after")
    assert await world.relay.send_new() == 3
    claims = await world.queue.claim(10, 1000)
    assert len(claims) == 3
    assert {"u-before", "u-after"} < {claim.key for claim in claims}
    assert any(node_id in claim.payload.decode() for claim in claims)
    world.pass_s(RESEND_AFTER_S)
    await world.queue.acknowledge(claims)
    assert await world.relay.sweep() == 3


async def test_it_runs_and_wakes_for_what_is_committed(world: RelayWorld):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.relay.run)
        for number in range(3):
            world.ask(f"u-{number}")
            world.relay.notify()
            await world.until_waiting(number + 1)
        tasks.cancel_scope.cancel()


async def test_it_outlives_a_ledger_that_goes_away_and_comes_back(world: RelayWorld, monkeypatch):
    monkeypatch.setattr(relay_module, "SWEEP_EVERY_S", 0.01)
    view, failed = world.ledger.view, anyio.Event()

    def away() -> Any:
        anyio.from_thread.run_sync(failed.set)
        raise LedgerUnavailable("the server starts again")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.relay.run)
        monkeypatch.setattr(world.ledger, "view", away)
        world.relay.notify()
        with anyio.fail_after(10):
            await failed.wait()
        monkeypatch.setattr(world.ledger, "view", view)
        world.ask("a")
        await world.until_waiting(1)
        tasks.cancel_scope.cancel()


async def test_it_outlives_a_queue_that_goes_away_and_comes_back(world: RelayWorld, monkeypatch):
    monkeypatch.setattr(relay_module, "SWEEP_EVERY_S", 0.02)
    world.server.connected = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.relay.run)
        world.ask("u-1")
        world.relay.notify()
        await anyio.sleep(0.05)
        world.server.connected = True
        await world.until_waiting(1)
        tasks.cancel_scope.cancel()


def _ledger_of(edges: list[tuple[int, int]]) -> Ledger:
    ledger = memory_ledger()
    for number in range(5):
        submit(ledger, create(f"u-{number}", "ConsolidatedUnderstanding"))
    for parent, other in edges:
        submit(ledger, link(f"{parent}->{other}", f"u-{parent}", f"u-{other}"))
    return ledger


@settings(max_examples=settings().max_examples // 4)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8, unique=True),
    st.lists(st.booleans(), max_size=20),
)
def test_whatever_the_graph_and_whatever_redis_loses_everything_is_served(edges, losses):
    """Cycles included: what is held is released in the end, and nothing closed is ever sent."""

    async def run() -> None:
        world = RelayWorld(ledger=_ledger_of(edges))
        lost = iter(losses)
        for _ in range(40):
            if next(lost, False):
                await world.redis.flushall()
            await world.relay.sweep()
            keys = await world.claim()
            with world.ledger.view() as view:
                still = {request.item_key for request in view.open_requests()}
            assert set(keys) <= still
            if not still:
                break
            for key in keys[:1]:
                world.serve(key)
            world.pass_s(RESEND_AFTER_S)
        assert drain(world.ledger) == []
        await world.redis.aclose()

    anyio.run(run)


@given(st.text(min_size=1, max_size=600))
def test_whatever_the_name_of_a_cause_its_request_becomes_an_item(source):
    """Also one with U+0000, which the queue does not take as it is."""

    async def run() -> None:
        world = RelayWorld()
        document = orjson.dumps({"trigger_source_id": source})
        request = Request("r", 1, AUTHORITY_QUEUE, "u-1", "background_normal", 0, 0, document)
        await world.queue.enqueue(route_of(AUTHORITY_QUEUE).item(request))
        assert await world.claim() == ["u-1"]
        await world.redis.aclose()

    anyio.run(run)


@pytest.mark.parametrize(
    "spoiled", [{"priority": "of another version"}, {"request_bytes": b"{}"}, {"item_key": ""}]
)
async def test_a_request_that_is_no_item_holds_up_no_other(world: RelayWorld, spoiled):
    for number in range(5):
        world.ask(f"u-{number}")
    with world.ledger.transaction() as transaction:
        [request_id] = [
            request.request_id
            for request in transaction.open_requests()
            if request.item_key == "u-3"
        ]
        transaction.tables.update(schema.outbox, (request_id,), spoiled)
    with capture_logs() as logged:
        await world.relay.sweep()
    assert await world.claim() == [f"u-{number}" for number in (0, 1, 2, 4)]
    [refused] = [event for event in logged if event["event"] == "request_not_sent"]
    assert refused["request_id"] == request_id


def step(run: str, number: int) -> WorkRequest:
    return WorkRequest(EXTRACTION_QUEUE, f"{run}:{number}", extraction_step(run, number))


def binding(number: int, **content: Any) -> WorkRequest:
    stated = {"binding_id": f"b-{number}", "source_event_id": "e", **content}
    return WorkRequest(BINDING_QUEUE, f"k-{number}", stated)


@pytest.mark.spec("§16.4")
async def test_the_steps_of_a_run_are_sent_one_after_another_and_runs_do_not_wait():
    world = RelayWorld(EXTRACTION_QUEUE)
    ids = world.ask_for(step("r", 2), step("s", 1), step("r", 1), step("r", 3))
    order = []
    for _ in range(4):
        await world.relay.send_new()
        for key in await world.claim():
            world.end(key)
            order.append(key)
    assert order == [ids[1], ids[2], ids[0], ids[3]]
    assert await world.relay.sweep() == 0


async def test_a_binding_that_is_put_back_is_sent_again_at_its_new_priority():
    world = RelayWorld(BINDING_QUEUE)
    [request_id] = world.ask_for(binding(1, capacity_priority="critical"))
    assert await world.relay.send_new() == 1
    [claim] = await world.queue.claim(1, 60_000)
    signal = {"ec_capacity_lease_state": "none", "queue_depth": 0, "inflight_operations": 0}
    with world.ledger.transaction() as transaction:
        report = CapacityRejected(request_id=request_id, capacity_signal_at_rejection=signal)
        assert reject_for_capacity(transaction, report)
    assert await world.relay.sweep() == 1
    await world.queue.acknowledge([claim])
    [item] = await world.queue.peek(10)
    assert (item.key, item.priority) == (request_id, "background")


async def test_what_is_delayed_is_sent_after_its_time_and_holds_nothing_else_up():
    world = RelayWorld(BINDING_QUEUE)
    delayed = WorkRequest(BINDING_QUEUE, "later", binding(1).content, delay_s=60)
    later, now = world.ask_for(delayed, binding(2))
    assert await world.relay.send_new() == 1
    assert await world.claim() == [now]
    assert (await world.queue.depth()).not_due == 1
    world.end(now)
    await world.redis.flushall()
    assert await world.relay.sweep() == 0
    assert (await world.queue.depth()).not_due == 1
    [even_later] = world.ask_for(replace(delayed, request_key="even later", delay_s=90))
    assert await world.relay.send_new() == 0
    assert (await world.queue.depth()).not_due == 2
    world.pass_s(60)
    assert await world.relay.sweep() == 1
    assert (await world.queue.depth()).not_due == 1
    assert await world.claim() == [later]
    world.end(later)
    world.pass_s(31)
    assert await world.relay.sweep() == 1
    assert (await world.queue.depth()).not_due == 0
    assert await world.claim() == [even_later]


async def test_each_queue_is_sent_its_own_requests_alone():
    world = RelayWorld(BINDING_QUEUE)
    world.ask("u-1")
    ids = world.ask_for(step("r", 1), binding(1), binding(2))
    assert await world.relay.sweep() == 2
    assert await world.claim() == ids[1:]


def decide(world: RelayWorld, verb: Any, priority: str | None = None) -> None:
    with world.ledger.transaction() as transaction:
        decision = PauseDecision(world.queue.name, priority)
        assert verb(transaction, decision, deciding(transaction))


async def test_a_pause_outlives_a_flush_and_critical_work_is_served_meanwhile(world: RelayWorld):
    for priority in ("background_normal", "user_initiated_critical"):
        world.ask(f"u-{priority}", recompute_priority=priority)
    decide(world, pause, "background_normal")
    await world.relay.look()
    await world.redis.flushall()
    world.pass_s(SWEEP_EVERY_S)
    await world.relay.look()
    assert await world.queue.paused_priorities() == {"background_normal"}
    assert await world.claim() == ["u-user_initiated_critical"]
    assert await world.waiting() == ["u-background_normal"]

    decide(world, resume, "background_normal")
    await world.redis.flushall()
    world.pass_s(SWEEP_EVERY_S)
    await world.relay.look()
    assert await world.claim() == ["u-user_initiated_critical", "u-background_normal"]


async def test_a_pause_that_nobody_decided_is_ended(world: RelayWorld):
    decide(world, pause)
    await world.queue.pause("background_normal")
    await world.relay.look()
    assert await world.queue.paused_priorities() == {None}


async def test_nothing_is_sent_to_a_redis_that_lost_a_pause_before_it_is_paused(world: RelayWorld):
    world.ask("u-1")
    decide(world, pause)
    seen: list[frozenset[str | None]] = []

    class Watched(WorkQueue):
        async def enqueue_many(self, items: Any, mark: str = "") -> Any:
            seen.append(await self.paused_priorities())
            return await super().enqueue_many(items, mark)

    world.queue = Watched(world.redis, AUTHORITY_QUEUE, world.now_ms)
    await world.new_relay().look()
    assert seen == [frozenset({None})]


# One relay in the fleet


class LeasedShard:
    """The lease of a gateway on the one shard of a ledger, as it believes to have it."""

    def __init__(self, ledger: Ledger, gateway: str) -> None:
        self.fence: Fence | None = None
        self._ledger = ledger
        self._gateway = gateway

    def take(self) -> None:
        with self._ledger.transaction() as transaction:
            [self.fence] = take_shards(transaction, self._gateway, shards_of(transaction))

    def lose(self, fence: Fence) -> None:
        assert fence == self.fence
        self.fence = None


class LeasedRelays(RelayWorld):
    """Two gateways on a ledger, each with a relay."""

    def __init__(self) -> None:
        super().__init__()
        with self.ledger.transaction() as transaction:
            create_shards(transaction, 1)
        self.leases = [LeasedShard(self.ledger, name) for name in "ab"]
        self.relays = [
            OutboxRelay(self.ledger, self.queue, self.now_s, lease) for lease in self.leases
        ]


@pytest.fixture
async def leased(anyio_backend: str) -> AsyncIterator[LeasedRelays]:
    world = LeasedRelays()
    yield world
    await world.redis.aclose()


async def test_who_does_not_hold_the_lease_neither_reads_nor_sends(leased):
    a, _ = leased.relays
    b = OutboxRelay(None, leased.queue, leased.now_s, leased.leases[1])  # with nothing to read
    leased.leases[0].take()
    leased.ask("u-1")
    assert [await b.look(), await b.send_new(), await b.sweep()] == [0, 0, 0]
    assert await a.look() == 1
    leased.ask("u-2")
    assert await a.send_new() == 1
    assert await leased.waiting() == ["u-1", "u-2"]


async def test_who_takes_the_lease_over_sends_what_is_open_and_was_not_sent(leased):
    a, b = leased.relays
    leased.leases[0].take()
    leased.ask("u-1")
    await a.look()
    leased.ask("u-2")
    leased.leases[1].take()
    assert await b.look() == 2
    assert await leased.waiting() == ["u-1", "u-2"]
    assert await leased.queue.current_mark() == "2"


async def test_who_was_replaced_while_it_was_paused_sends_nothing_and_learns_of_it(leased):
    a, b = leased.relays
    leased.leases[0].take()
    leased.ask("u-1")
    await a.look()
    leased.leases[1].take()
    await b.look()
    assert await leased.claim() == ["u-1"]
    leased.serve("u-1")
    leased.ask("u-2")
    with pytest.raises(QueueError) as refused:
        await a.send_new()
    assert refused.value.code == "queue_mark_differs"
    assert await leased.waiting() == []
    leased.pass_s(SWEEP_EVERY_S)
    assert await a.look() == 0
    assert leased.leases[0].fence is None
    assert await leased.queue.current_mark() == "2"
    assert await b.send_new() == 1
    assert await leased.waiting() == ["u-2"]


async def test_a_mark_that_no_lease_of_this_ledger_left_is_replaced(leased):
    """A ledger that was restored from a backup has lower epochs than Redis remembers."""
    leased.leases[0].take()
    await leased.queue.mark("99")
    leased.ask("u-1")
    assert await leased.relays[0].look() == 1
    assert await leased.queue.current_mark() == "1"


async def test_a_relay_that_runs_begins_as_soon_as_it_is_woken_with_the_lease(leased, monkeypatch):
    monkeypatch.setattr(relay_module, "SWEEP_EVERY_S", 3600.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leased.relays[1].run)
        await anyio.sleep(0.05)
        leased.ask("u-1")
        leased.leases[1].take()
        leased.relays[1].notify()
        with anyio.fail_after(20):
            while not await leased.waiting():
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
