"""Crons: once across a fleet, again where they failed, and without harm when run twice."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.verify import recent
from kernel.work.queue_kinds import QUEUE_KINDS
from queues.fleet.cron_claims import Crons
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from tests.kernel.build import FakeHost, create
from tests.workers.api.door import Door, client_of
from tests.world import DoorWorld, behind_a_door
from workers.client.errors import GatewayError
from workers.plugins.cron_expression import CronExpression
from workers.use_cases.log_archiving import STEPS_AT_ONCE
from workers.worker import cron as crons
from workers.worker.cron import CRONS, Cron, CronRunner, CronTools
from workers.worker.gateway_reports import GatewayReporter

pytestmark = pytest.mark.anyio

NOW_S = 1_700_000_000.0


class CronWorld(DoorWorld):
    """The tools of any number of workers on one Redis."""

    def __init__(self, door: Door, host: FakeHost) -> None:
        super().__init__(door, host, AUTHORITY_QUEUE)
        queues = {name: WorkQueue(self.redis, name, self.now_ms) for name in QUEUE_KINDS}
        reporter = GatewayReporter(client_of(door.app, give_up_after_s=0.0))
        self.tools = CronTools(queues, door.ledger, reporter, Crons(self.redis))

    def violations(self) -> int:
        return len(self.receipts("kernel_event_log_integrity_violation"))


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[CronWorld]:
    async with behind_a_door(CronWorld) as world:
        world.accept(*(create(f"n-{number}", "ConsolidatedUnderstanding") for number in range(4)))
        yield world


def runners(world: CronWorld, table: dict[str, Cron]) -> list[CronRunner]:
    return [CronRunner(world.tools, f"worker-{n}", table) for n in range(3)]


async def test_of_a_fleet_one_worker_runs_a_period_and_the_next_period_comes(world: CronWorld):
    ran: list[str] = []

    async def run(_: CronTools) -> None:
        ran.append("once")

    fleet = runners(world, {"job": Cron(60, run)})
    for now_s in (NOW_S, NOW_S + 1, NOW_S + 5):
        for worker in fleet:
            await worker.tick(now_s)
    assert len(ran) == 1
    for worker in fleet:
        await worker.tick(NOW_S + 60)
    assert len(ran) == 2


async def test_it_is_said_when_a_cron_is_due_and_when_it_ran_last(world: CronWorld):
    failing = [GatewayError("gateway_unreachable", "away")]

    async def run(_: CronTools) -> None:
        if failing:
            raise failing.pop()

    times = CronExpression("0 3 * * *")
    [worker, *_] = runners(world, {"job": Cron(60, run, 5), "nightly": Cron(600, run, times=times)})
    await worker.tick(NOW_S)
    job, nightly = await world.tools.crons.firings()
    start = (int(NOW_S) - 5) // 60 * 60 + 5
    assert (job.every_s, job.next_s, job.last_s) == (60, start + 60, 0)
    assert (nightly.every_s, nightly.last_s) == (0, times.newest(NOW_S))
    assert nightly.next_s == times.newest(NOW_S) + 24 * 3600
    await worker.tick(NOW_S + 120)
    job, _ = await world.tools.crons.firings()
    assert (job.last_s, job.next_s, job.worker_id) == (start + 120, start + 180, "worker-0")


async def test_a_run_that_failed_is_taken_up_again_by_whoever_is_next(world: CronWorld):
    outcomes: list[Any] = [GatewayError("gateway_unreachable", "away"), None]
    ran: list[Any] = []

    async def run(_: CronTools) -> None:
        ran.append(outcomes.pop(0))
        if ran[-1] is not None:
            raise ran[-1]

    first, second, third = runners(world, {"job": Cron(3600, run)})
    for cron in (first, second, third, first):
        await cron.tick(NOW_S)
    assert len(ran) == 2


async def test_without_redis_nothing_runs_and_nothing_fails(world: CronWorld):
    async def run(_: CronTools) -> None:
        raise AssertionError("nobody has the period")

    [runner, *_] = runners(world, {"job": Cron(60, run)})
    world.server.connected = False
    await runner.tick(NOW_S)


async def test_claims_of_dead_workers_of_every_queue_come_back(world: CronWorld):
    for queue in world.tools.queues.values():
        await queue.enqueue_many([NewItem("a", queue.priorities[-1].name, "c", b"")])
        await queue.claim(1, 1000)
    world.pass_ms(1001)
    await crons.reap(world.tools)
    for queue in world.tools.queues.values():
        assert (await queue.depth()).in_flight == 0


async def test_the_sweep_is_the_gateways(world: CronWorld):
    await crons.sweep_retention(world.tools)
    await crons.sweep_retention(world.tools)


async def test_the_archival_is_the_gateways_and_goes_on_while_more_is_due(world: CronWorld):
    await crons.archive_log(world.tools)
    answers = [{"is_complete": False}, {"is_complete": True}]

    class Reporter:
        async def post(self, path: str, body: Any) -> Any:
            assert (path, body) == ("/internal/crons/log-archival", {})
            return {"result": answers.pop(0)}

    await crons.archive_log(replace(world.tools, reporter=Reporter()))  # type: ignore[arg-type]
    assert answers == []


async def test_an_hour_of_archivals_moves_so_many_rows_and_no_more(world: CronWorld):
    calls: list[str] = []

    class NeverDone:
        async def post(self, path: str, _body: Any) -> Any:
            calls.append(path)
            return {"result": {"is_complete": False}}

    await crons.archive_log(replace(world.tools, reporter=NeverDone()))  # type: ignore[arg-type]
    assert len(calls) * STEPS_AT_ONCE * SEGMENT_ROWS == 81_920
    assert CRONS[crons.LOG_ARCHIVAL].every_s == 3600


@pytest.mark.spec("§8.2")
async def test_the_tick_asks_once_for_what_waits_for_the_night(world: CronWorld):
    nightly = create(
        "n-9", "ConsolidatedUnderstanding", cu_authority_strategy="scheduled_nightly_only"
    )
    world.accept(nightly)
    for _ in range(2):
        await crons.tick_decay(world.tools)
        item_keys = [request.item_key for request in world.open()]
        assert item_keys == ["n-0", "n-1", "n-2", "n-3", "n-9"]


@pytest.mark.spec("§17.5")
async def test_the_audit_goes_on_from_where_it_was_and_records_what_it_finds_once(
    world: CronWorld, monkeypatch
):
    looked: list[int] = []
    audit = recent.audit_since

    def watched(view: Any, mark: Any) -> Any:
        looked.append(mark.ec_sequence_number)
        return audit(view, mark)

    monkeypatch.setattr(crons, "audit_since", watched)
    await crons.audit_chain(world.tools)
    world.accept(create("n-9", "ConsolidatedUnderstanding"))
    await crons.audit_chain(world.tools)
    assert looked == [0, 4]
    assert world.violations() == 0
    with world.ledger.store.transaction() as tables:
        row = tables.get(schema.kernel_event_log, 5)
        assert row is not None
        content = row["row_bytes"].replace(b"create", b"change")
        tables.update(schema.kernel_event_log, (5,), {"row_bytes": content})
    await crons.audit_chain(world.tools)
    # The mark is behind it. Whoever starts anew sees it, and says so once.
    assert world.violations() == 1
    await world.redis.flushall()
    for _ in range(3):
        await crons.audit_chain(world.tools)
    assert world.violations() == 1, "the same finding, from wherever it is looked for"


async def test_a_mark_that_makes_no_sense_is_no_mark(world: CronWorld):
    await world.tools.crons.remember(crons.CHAIN_AUDIT, {"anything": 1})
    await crons.audit_chain(world.tools)
    assert (await world.tools.crons.recall(crons.CHAIN_AUDIT))["ec_sequence_number"] == 4


def test_the_table_of_crons_has_a_period_for_each():
    keys = {
        "reap",
        "retention-sweep",
        "chain-audit",
        "decay-tick",
        "log-archival",
        "retry-policies",
    }
    assert CRONS.keys() == keys
    assert all(cron_job.every_s > 0 for cron_job in CRONS.values())
