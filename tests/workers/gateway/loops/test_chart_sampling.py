"""A gateway counts once a second what charts show, and keeps it beside the record."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
import pytest
from fakeredis import FakeAsyncRedis

from actors.commit.group_committer import CommittedTransaction
from actors.sharding.held_shards import HeldShards, SessionLease
from kernel.ledger import schema
from kernel.ledger.chart_blocks import MINUTES, SECONDS
from kernel.ledger.ledger import Ledger
from kernel.ledger.outbox import CANCELLED, COMPLETED, DEAD_LETTER
from kernel.ledger.shards import Fence
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from tests.actors.harness import running_committer
from tests.kernel.build import FakeHost
from workers.gateway.loops.chart_sampling import LEADER, ChartSampling, CommitSamples
from workers.gateway.wiring import writing
from workers.use_cases.authority_sweeps import FencedWrite
from workers.views.charts import ChartsDocument, charts

pytestmark = pytest.mark.anyio

QUEUE = "extraction-transition"
HOUR_S = 1_800_000_000 - 1_800_000_000 % 3600
SHARDS = 4
US = 1_000_000


def batch(seconds: float, ended: dict[tuple[str, int], int] | None = None) -> CommittedTransaction:
    requests = [request for request, count in (ended or {}).items() for _ in range(count)]
    return CommittedTransaction(1, seconds, True, [None], requests)


@dataclass
class Gateway:
    """What of a gateway samples, over a ledger that may be another one's as well."""

    ledger: Ledger
    commits: CommitSamples
    held_shards: HeldShards
    queue: WorkQueue
    write: FencedWrite
    sampling: ChartSampling

    def begin_again(self) -> "Gateway":
        """Return one that knows what is on the ledger alone, as after a crash."""
        return gateway_on(self.ledger, self.held_shards, self.queue, self.write)

    async def sample(self, first_s: int, count: int) -> None:
        for time_s in range(first_s, first_s + count):
            await self.sampling.sample(time_s)
        await self.sampling.keep()

    def charts(self, now_s: int, span_s: int = 3600) -> ChartsDocument:
        with self.ledger.view() as view:
            since_us, until_us = (now_s - span_s) * US, now_s * US
            now_us = until_us + (SECONDS.block_s + 1) * US
            return charts(view, now_us, since_us=since_us, until_us=until_us)

    def points(self, measure: str, now_s: int, span_s: int = 3600) -> list[int | None]:
        series = self.charts(now_s, span_s)["series"]
        [points] = [each["points"] for each in series if each["measure"] == measure]
        return points


def gateway_on(
    ledger: Ledger,
    held_shards: HeldShards,
    queue: WorkQueue,
    write: FencedWrite,
    commits: CommitSamples | None = None,
) -> Gateway:
    commits = commits or CommitSamples()
    sampling = ChartSampling(ledger, write, commits, {QUEUE: queue}, held_shards, "1")
    return Gateway(ledger, commits, held_shards, queue, write, sampling)


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    ledger, redis = Ledger.create(MemoryStore(), FakeHost()), FakeAsyncRedis()
    held_shards = HeldShards(SHARDS)
    held_shards.add(Fence(shard, 1, "g") for shard in range(SHARDS))
    commits, queue = CommitSamples(), WorkQueue(redis, QUEUE)
    async with running_committer(ledger, measured=commits.note_transaction) as committer:
        yield gateway_on(ledger, held_shards, queue, writing(committer), commits)
    await redis.aclose()


async def test_what_commits_come_to_is_a_sample_of_their_second(gateway: Gateway):
    ended = {(QUEUE, COMPLETED): 3, (QUEUE, DEAD_LETTER): 1, (QUEUE, CANCELLED): 5}
    gateway.commits.note_transaction(batch(0.004, ended))
    gateway.commits.note_transaction(batch(0.002))
    await gateway.sample(HOUR_S, 16)
    now_s = HOUR_S + 15
    assert gateway.points("done", now_s, 15) == [3, *[0] * 14]
    assert gateway.points("failed", now_s, 15) == [1, *[0] * 14]
    assert gateway.points("commits", now_s, 15) == [2, *[0] * 14]
    assert gateway.points("commit_p95", now_s, 15) == [4000, *[None] * 14]


async def test_a_transaction_that_keeps_charts_is_not_in_them(gateway: Gateway):
    for block in range(3):
        await gateway.sample(HOUR_S + block * SECONDS.block_s, 16)
    assert gateway.points("commits", HOUR_S + 45, 45) == [0] * 45


async def test_the_gateway_that_leads_samples_the_queues(gateway: Gateway):
    await gateway.queue.enqueue_many([NewItem("k", "background", "c", b"{}")])
    await gateway.sample(HOUR_S, 16)
    assert gateway.points("ready", HOUR_S + 15, 15) == [1] * 15
    assert gateway.points("open", HOUR_S + 15, 15) == [0] * 15
    lead = SessionLease(gateway.held_shards, LEADER)
    assert lead.fence is not None
    gateway.held_shards.lose(lead.fence)
    await gateway.sample(HOUR_S + 16, 15)
    assert gateway.points("ready", HOUR_S + 30, 30) == [*[1] * 16, *[None] * 14]
    assert gateway.points("done", HOUR_S + 30, 30) == [0] * 30


async def test_a_crash_loses_the_block_that_was_not_full_and_leaves_a_gap(gateway: Gateway):
    gateway.commits.note_transaction(batch(0.001, {(QUEUE, COMPLETED): 7}))
    await gateway.sample(HOUR_S, 20)
    again = gateway.begin_again()
    again.commits.note_transaction(batch(0.001, {(QUEUE, COMPLETED): 2}))
    await again.sample(HOUR_S + 40, 21)
    assert again.points("done", HOUR_S + 60, 60) == [
        *[7, *[0] * 14],
        *[None] * 25,
        *[2, *[0] * 19],
    ]
    # The minute is made of what both have counted.
    await again.sample(HOUR_S + 61, 60)
    [minute, *later] = again.points("done", HOUR_S + 120 + 7200, 7200 + 120)[:2]
    assert (minute, later) == (9, [0])


async def test_half_hours_are_made_of_minutes(gateway: Gateway):
    month_s = 30 * 86_400
    for start_s in range(0, 3600, 600):
        gateway.commits.note_transaction(batch(0.001, {(QUEUE, COMPLETED): 1}))
        await gateway.sample(HOUR_S + start_s, 16)
    now_s = HOUR_S + month_s - 86_400
    points = gateway.points("done", now_s, month_s)
    assert sum(filter(None, points)) == 6
    first_s = HOUR_S - HOUR_S % 10_800
    since_s = now_s - month_s - (now_s - month_s) % 10_800
    assert points[(first_s - since_s) // 10_800] == 6


async def test_who_holds_no_shard_writes_nothing(gateway: Gateway):
    for shard in range(SHARDS):
        gateway.held_shards.drop(shard)
    await gateway.sample(HOUR_S, 31)
    assert gateway.charts(HOUR_S + 30)["series"] == []


async def test_what_is_written_never_grows(gateway: Gateway):
    for block in range(SECONDS.slots + 5):
        await gateway.sampling.sample(HOUR_S + block * SECONDS.block_s)
        await gateway.sampling.keep()
    with gateway.ledger.view() as view:
        of_seconds = TableQuery(schema.chart_blocks, {"sample_s": SECONDS.sample_s})
        assert view.tables.count(of_seconds) == SECONDS.slots
        of_minutes = TableQuery(schema.chart_blocks, {"sample_s": MINUTES.sample_s})
        assert view.tables.count(of_minutes) == 2
        assert view.tables.count(TableQuery(schema.chart_blocks)) <= SECONDS.slots + 2 + 2


async def test_a_clock_that_is_put_back_changes_no_block_that_was_written(gateway: Gateway):
    gateway.commits.note_transaction(batch(0.001, {(QUEUE, COMPLETED): 7}))
    await gateway.sample(HOUR_S, 16)
    before = gateway.points("done", HOUR_S + 15, 15)
    await gateway.sample(HOUR_S + 2, 3)
    assert gateway.points("done", HOUR_S + 15, 15) == before


async def test_it_samples_once_a_second(gateway: Gateway, monkeypatch: pytest.MonkeyPatch):
    times: list[int] = []
    clock_us = [HOUR_S * US + 700_000]

    async def sleep(seconds: float) -> None:
        clock_us[0] += round(seconds * US)
        if len(times) == 3:
            raise TimeoutError
        await anyio.lowlevel.checkpoint()

    async def sample(time_s: int) -> None:
        times.append(time_s)

    monkeypatch.setattr("workers.gateway.loops.chart_sampling.anyio.sleep", sleep)
    monkeypatch.setattr(gateway.sampling, "sample", sample)
    monkeypatch.setattr(gateway.ledger.host, "now_us", lambda: clock_us[0], raising=False)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - the group that holds the error
        await gateway.sampling.run()
    assert times == [HOUR_S, HOUR_S + 1, HOUR_S + 2]
