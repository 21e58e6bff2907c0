"""The dashboard's picture: every part from its own place, counted by what is new."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from anyio import to_thread
from fakeredis import FakeAsyncRedis, FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.commit.refusal_units import SetAsideUnit
from actors.commit.work_units import RequestWorkUnit, WorkReportUnit
from actors.errors import RequestSetAside
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.shards import Position, shards_of, take_shards
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore, MemoryTables
from kernel.ledger.store.tables import TableQuery
from kernel.values.priorities import PRIORITIES_OF
from kernel.work.contents import BINDING_QUEUE
from kernel.work.requests import WorkRequest
from queues.errors import QueueError
from queues.fleet.worker_heartbeats import Heartbeats, WorkerBeat
from queues.queue.items import NewItem
from tests.actors.harness import ScriptedStore
from tests.bench.bench_dashboard import add_sessions
from tests.kernel.binding_world import of_nobody
from tests.kernel.build import FakeHost
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, Door, claim, rows, running_door, source, understanding
from workers.dashboard.snapshot import PARTS, Count, Death, SnapshotPart
from workers.gateway import dashboard_source as snapshot_source
from workers.gateway.dashboard_source import HASH_CHARS, TAIL_ROWS, LiveSource, Rate
from workers.views import late_workers
from workers.views.attention_facts import SELDOM_US
from workers.views.readiness import Health
from workers.views.records import count_requests

pytestmark = pytest.mark.anyio

LEDGER_PARTS = (
    *("sessions", "counters", "ledger", "gateways", "rejections", "requests"),
    "set_aside",
)
REDIS_PARTS = ("queues", "leases", "workers")
ORIGINS = {
    **dict.fromkeys(LEDGER_PARTS, "ledger"),
    **dict.fromkeys(REDIS_PARTS, "Redis"),
    "dropped": "gateway and workers",
    "deaths": "process tree",
    "attention": "ledger, Redis and gateway",
    "checkpoint": "published log",
}


@pytest.fixture
async def filled(door: Door) -> Door:
    """Two sessions, five operations and two refusals, two requests, two of each in Redis."""
    await door.declare(SESSION, "a", "b", "c", metadata={"case_name": "A v. B"})
    await door.declare("00000000-0000-4000-8000-000000000002", "x")
    strike = {"source_id": "s", "observation_id": "o", "eliminated": ["a"]}
    await door.post("eliminate", strike)
    await door.operate(source("s-1"), understanding("u-1", "s-1"), claim("c-1", "s-1", "u-1"))
    for _ in range(2):
        await door.post("envelopes", {"operation_id": "op-refused"})
    queue = door.services.work.queues[AUTHORITY_QUEUE]
    await queue.enqueue_many(
        [NewItem(f"u-{number}", "user_active_session", "c", b"{}") for number in range(3)]
    )
    await queue.claim(1, 30_000)
    for holder in ("w-1/0", "w-1/1"):
        await door.services.work.leases.acquire(queue.name, 4, holder, 10_000)
    for worker_id in ("w-1", "w-2"):
        beat = WorkerBeat(worker_id, 7, (queue.name,), 2, 0, 10, 1, 3)
        await door.services.work.heartbeats.beat(beat, 60_000)
    return door


async def test_every_part_says_where_and_when_it_was_read(filled: Door):
    before = datetime.now(UTC)
    snapshot = await LiveSource(filled.services, 4).read()
    for name in PARTS:
        part = getattr(snapshot, name)
        assert part.error is None, (name, part.error)
        assert part.value is not None
        assert part.origin == ORIGINS[name]
        assert before <= part.read_at <= datetime.now(UTC)
    assert set(PARTS) == set(ORIGINS)


def value_of(part: SnapshotPart[Any]) -> Any:
    assert part.value is not None, part.error
    return part.value


async def test_the_queue_shows_each_priority_and_what_is_underway(filled: Door):
    queues = value_of((await LiveSource(filled.services, 4).read()).queues)
    assert [queue_view.name for queue_view in queues] == [
        "authority-recompute",
        "binding-evaluation",
        "extraction-transition",
    ]
    for queue_view in queues:
        assert [row.name for row in queue_view.priorities] == list(PRIORITIES_OF[queue_view.name])
    queue = queues[0]
    assert (queue.delayed, queue.in_flight, queue.dead) == (0, 1, 0)
    ready = {priority.name: priority.ready for priority in queue.priorities}
    assert ready["user_active_session"] == 2
    assert sum(ready.values()) == 2
    by_name = {priority.name: priority for priority in queue.priorities}
    assert by_name["user_active_session"].oldest_ms is not None
    assert by_name["background_normal"].oldest_ms is None
    assert by_name["user_active_session"].target_ms == 30_000
    assert by_name["background_low_priority"].target_ms is None


async def test_leases_and_workers_are_those_that_live(filled: Door):
    snapshot = await LiveSource(filled.services, 4).read()
    lease, *other_leases = value_of(snapshot.leases)
    assert [other.used for other in other_leases] == [0, 0]
    assert (lease.resource, lease.slots, lease.used) == ("authority-recompute", 5, 2)
    assert [hold.holder for hold in lease.held] == ["w-1/0", "w-1/1"]
    assert all(0 < hold.expires_ms <= 10_000 for hold in lease.held)
    fleet = value_of(snapshot.workers)
    assert fleet.total == 2
    assert [worker_.worker_id for worker_ in fleet.workers] == ["w-1", "w-2"]
    [worker, _] = fleet.workers
    assert (worker.completed, worker.failed, worker.in_flight, worker.slots) == (10, 1, 3, 2)
    assert worker.state == "alive"


async def test_a_worker_that_was_not_heard_of_for_a_while_is_late(filled: Door, monkeypatch):
    monkeypatch.setattr(late_workers, "LATE_AFTER_MS", -1)
    fleet = value_of((await LiveSource(filled.services, 4).read()).workers)
    assert [worker.state for worker in fleet.workers] == ["late", "late"]


async def test_what_was_dropped_is_counted_over_this_gateway_and_the_living_workers(
    filled: Door, monkeypatch
):
    monkeypatch.setattr(snapshot_source, "DROPPED", Counter(item=2))
    beat = WorkerBeat("w-1", 7, (), 2, 0, 0, 0, 0, dropped={"item": 3, "note": 1})
    await filled.services.work.heartbeats.beat(beat, 60_000)
    counts = value_of((await LiveSource(filled.services, 4).read()).dropped)
    assert counts == (Count("item", 5), Count("note", 1))


async def test_what_this_gateway_dropped_is_shown_while_redis_is_away(filled: Door, monkeypatch):
    async def away() -> None:
        raise QueueError("queue_unavailable", "away")

    monkeypatch.setattr(snapshot_source, "DROPPED", Counter(item=2))
    monkeypatch.setattr(Heartbeats, "alive", lambda _: away())
    counts = value_of((await LiveSource(filled.services, 4).read()).dropped)
    assert counts == (Count("item", 2),)


async def test_what_was_set_aside_is_shown_newest_first(filled: Door):
    for number in (1, 2):
        position = Position("0" * 16, f"{number:015}-{0:020}")
        with pytest.raises(RequestSetAside):
            await filled.services.write(SetAsideUnit(SESSION, 5, position, 3, "0" * 64))
    sessions = value_of((await LiveSource(filled.services, 4).read()).set_aside)
    assert [
        (session.shard, session.offset[:15], session.session_id, session.ends)
        for session in sessions
    ] == [("5", f"{number:015}", SESSION, "3") for number in (2, 1)]


async def test_processes_that_die_alike_are_shown_as_their_tree_tells_of_them(filled: Door):
    at = datetime(2026, 3, 14, 12, tzinfo=UTC)
    death = {"name": "worker-1", "times": 4, "reason": "exit code 1", "last_line": "MemoryError"}
    facts = {"died_alike": [death | {"at": at.isoformat()}]}
    services = replace(filled.services, health=Health(tree=lambda: facts))
    deaths = value_of((await LiveSource(services, 4).read()).deaths)
    assert deaths == (Death(**death, at=at),)


async def test_the_ledger_shows_its_head_and_its_newest_rows(filled: Door):
    ledger = value_of((await LiveSource(filled.services, 4).read()).ledger)
    log = rows(filled.ledger, schema.kernel_event_log)
    assert ledger.sequence == str(len(log))
    assert ledger.head_hash == log[-1]["row_hash"]
    newest = [row["operation_id"] for row in reversed(log)][:TAIL_ROWS]
    assert [row.operation_id for row in ledger.tail] == newest
    assert ledger.tail[0].row_hash == log[-1]["row_hash"][:HASH_CHARS]
    assert ledger.tail[0].session_id == SESSION
    assert "node_write" in ledger.tail[0].effect_kinds


async def test_sessions_come_newest_first_with_what_survives(filled: Door):
    sessions = value_of((await LiveSource(filled.services, 4).read()).sessions)
    assert sessions.total == 2
    [newest, other] = sessions.newest
    assert (newest.session_id, newest.title) == (SESSION, "A v. B")
    assert (newest.n_survivors, newest.n_universe) == (2, 3)
    assert newest.survivors == ("b", "c")
    assert other.n_universe == 1
    assert newest.last_activity > other.last_activity


async def test_it_says_which_gateway_owns_how_many_shards():
    async with running_door(host=FakeHost().host, shards=4) as door:
        with door.ledger.transaction() as transaction:
            take_shards(transaction, "a", shards_of(transaction)[:3])
        snapshot = await LiveSource(door.services, 4).read()
    assert value_of(snapshot.gateways) == (Count("(nobody)", 1), Count("a", 3))


async def test_counters_rejections_and_requests_are_counted(filled: Door):
    snapshot = await LiveSource(filled.services, 4).read()
    counters = value_of(snapshot.counters)
    assert counters.operations == len(rows(filled.ledger, schema.kernel_event_log))
    assert counters.eliminations == 1
    assert value_of(snapshot.rejections) == (Count("envelope_schema_invalid", 2),)
    requests = value_of(snapshot.requests)
    assert (requests.open, requests.closed) == (2, 0)
    assert {outcome_row.name for outcome_row in requests.by_outcome} == {
        "completed",
        "dead_letter",
        "cancelled",
    }


async def test_each_queue_shows_how_fast_its_own_requests_are_completed(filled: Door):
    live = LiveSource(filled.services, 4)
    await live.read()
    requests = [
        WorkRequest(BINDING_QUEUE, f"k-{n}", {"binding_id": "b", "source_event_id": "e"})
        for n in range(3)
    ]
    for request in await filled.services.write(RequestWorkUnit(tuple(requests[:2]))):
        await filled.services.write(_closed(request.request_id))
    await filled.services.write(RequestWorkUnit((requests[2],)))
    snapshot = await live.read()
    rates = {
        queue_depth.name: queue_depth.completed_per_s for queue_depth in value_of(snapshot.queues)
    }
    assert rates["binding-evaluation"] > 0
    assert (rates["authority-recompute"], rates["extraction-transition"]) == (0, 0)
    assert value_of(snapshot.requests).open == 3


def _closed(request_id: str) -> WorkReportUnit:
    return WorkReportUnit(of_nobody(request_id))


async def test_pictures_are_numbered(filled: Door):
    live = LiveSource(filled.services, 4)
    assert [(await live.read()).version for _ in range(3)] == [1, 2, 3]


async def test_without_redis_its_parts_say_so_and_the_others_are_shown():
    server = FakeServer()
    redis = FakeAsyncRedis(server=server)
    async with running_door(host=FakeHost().host, redis=redis) as door:
        await door.declare(SESSION, "a")
        server.connected = False
        snapshot = await LiveSource(door.services, 4).read()
        for name in REDIS_PARTS:
            assert getattr(snapshot, name).error == "queue_unavailable", name
            assert getattr(snapshot, name).value is None
        for name in LEDGER_PARTS:
            assert getattr(snapshot, name).error is None, name
        [item] = value_of(snapshot.attention)
        assert (item.kind, item.subject.name) == ("dependency_away", "redis")
        assert item.since is not None
        again = await LiveSource(door.services, 4).read()
        assert value_of(again.attention)[0].since == item.since
        server.connected = True
        snapshot = await LiveSource(door.services, 4).read()
        kinds = {each.kind for each in value_of(snapshot.attention)}
        assert "dependency_away" not in kinds


async def test_a_redis_that_hangs_takes_no_other_part_with_it(filled: Door, monkeypatch):
    async def hang(_: Heartbeats) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(Heartbeats, "look", hang)
    monkeypatch.setattr(snapshot_source, "REDIS_S", 0.01)
    snapshot = await LiveSource(filled.services, 4).read()
    assert snapshot.queues.error == "TimeoutError"
    assert value_of(snapshot.counters).operations > 0
    [away] = [each for each in value_of(snapshot.attention) if each.kind == "dependency_away"]
    assert away.sentence.endswith("goes on once Redis is back (TimeoutError)")


async def test_without_the_ledger_its_parts_say_so_and_the_others_are_shown():
    store = ScriptedStore()
    async with running_door(store, host=FakeHost().host) as door:
        await door.declare(SESSION, "a")
        live = LiveSource(door.services, 4)
        store.views_fail = True
        snapshot = await live.read()
        for name in LEDGER_PARTS:
            assert getattr(snapshot, name).error == "ledger_unavailable", name
        for name in REDIS_PARTS:
            assert getattr(snapshot, name).error is None, name
        store.views_fail = False
        assert value_of((await live.read()).counters).operations == 1


async def test_what_changes_seldom_is_read_again_seconds_after_something_was_written(door: Door):
    live, now_us = LiveSource(door.services, 4), door.ledger.host.now_us()

    async def kinds(after_us: int) -> set[str]:
        with door.ledger.view() as view:
            facts = door.services.attention.look(
                view, view.head(), count_requests(view), now_us + after_us
            )
        return {group.error_signature for group in facts.seldom.dead}

    assert [item.kind for item in value_of((await live.read()).attention)]
    assert await kinds(0) == set()
    [requested] = await enqueued(door, BINDINGS, binding("a"))
    await given_up(door, BINDING_QUEUE, requested["request_id"], "model: away")
    assert await kinds(SELDOM_US // 2) == set()
    assert await kinds(2 * SELDOM_US) == {"model: away"}
    assert "model: away" in (await door.http.get("/v1/attention")).text


def test_a_rate_is_the_growth_between_two_looks():
    rate, start = Rate(), datetime(2024, 1, 1, tzinfo=UTC)
    assert rate.per_s(100, start) == 0.0
    assert rate.per_s(130, start + timedelta(seconds=10)) == 3.0
    assert rate.per_s(130, start + timedelta(seconds=20)) == 0.0
    # A clock that stands or runs back, and a counter that starts anew, are no rate at all.
    assert rate.per_s(140, start + timedelta(seconds=20)) == 0.0
    assert rate.per_s(150, start) == 0.0
    assert rate.per_s(0, start + timedelta(seconds=30)) == 0.0


def counted_by_scan(door: Door) -> tuple[Any, ...]:
    receipts = rows(door.ledger, schema.receipts)
    events = rows(door.ledger, schema.belief_events)
    sessions = rows(door.ledger, schema.belief_sessions)
    return (
        Counter(row["reason_code"] for row in receipts if row["reason_code"]),
        len(events) - len(sessions),
        len(sessions),
        len(rows(door.ledger, schema.kernel_event_log)),
    )


def counted_by_difference(snapshot: Any) -> tuple[Any, ...]:
    return (
        Counter({rejection.name: rejection.count for rejection in value_of(snapshot.rejections)}),
        value_of(snapshot.counters).eliminations,
        value_of(snapshot.sessions).total,
        value_of(snapshot.counters).operations,
    )


_STEPS = st.lists(
    st.sampled_from(["declare", "strike", "no strike", "refuse", "actor", "source", "look", "new"]),
    max_size=25,
)


@settings(max_examples=settings().max_examples // 3)
@given(_STEPS, st.sampled_from([1, 2, 1000]))
def test_whatever_happens_between_two_looks_the_counts_are_those_of_a_scan(steps, page_rows):
    """Also where one look reads many pages, and where a look comes after nothing at all."""

    async def run() -> None:
        async with running_door(MemoryStore(), host=FakeHost().host) as door:
            await door.declare(SESSION, "a", "b", "c")
            live = LiveSource(door.services, 4)
            for number, step in enumerate(steps):
                await take(door, step, number)
                if step == "look":
                    assert counted_by_difference(await live.read()) == counted_by_scan(door)
                if step == "new":
                    live = LiveSource(door.services, 4)
            assert counted_by_difference(await live.read()) == counted_by_scan(door)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_source, "PAGE_ROWS", max(2, page_rows))
        anyio.run(run)


async def take(door: Door, step: str, number: int) -> None:
    if step == "declare":
        await door.declare(f"00000000-0000-4000-8000-{number:012d}", "x", "y")
    elif step in ("strike", "no strike"):
        struck = ["a"] if step == "strike" else []
        body = {"source_id": "s", "observation_id": f"o-{number}", "eliminated": struck}
        assert (await door.post("eliminate", body)).is_success
    elif step == "refuse":
        await door.post("envelopes", {})
    elif step == "actor":
        await door.post("envelopes", {"schema_version": 2})
    elif step == "source":
        await door.operate(source(f"s-{number}"))


async def test_a_picture_of_a_large_record_is_taken_in_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_source, "PAGE_ROWS", 3)
    store = SqliteStore(tmp_path / "ledger.db")
    async with running_door(store, host=FakeHost().host) as door:
        for number in range(10):
            await door.declare(f"00000000-0000-4000-8000-{number:012d}", "x")
        await door.declare(SESSION, "a")
        for _ in range(10):
            await door.post("envelopes", {})
        snapshot = await LiveSource(door.services, 4).read()
        assert counted_by_difference(snapshot) == counted_by_scan(door)
    store.close()


async def test_a_snapshot_reads_no_more_where_there_are_more_sessions(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    read_rows: list[int] = []
    scan = MemoryTables.scan

    def counting(tables: MemoryTables, query: TableQuery) -> list[Any]:
        rows = scan(tables, query)
        read_rows.append(len(rows))
        return rows

    monkeypatch.setattr(MemoryTables, "scan", counting)
    source, counts, of_sessions = LiveSource(door.services, 4), [], []
    for first, count in ((0, 60), (60, 1500)):
        await to_thread.run_sync(add_sessions, door.ledger, first, count)
        await source.read()
        read_rows.clear()
        snapshot = await source.read()
        counts.append(sum(read_rows))
        of_sessions.append((value_of(snapshot.sessions).total, value_of(snapshot.counters)))
    assert counts[0] == counts[1]
    assert [total for total, _ in of_sessions] == [60, 1560]
    assert [counters.eliminations for _, counters in of_sessions] == [180, 4680]
