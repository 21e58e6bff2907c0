"""Reads the metrics of a gateway, its queues and its ledger at `/metrics`.

Operations and requests are counted when they end. Everything else is read from where it stands
when somebody asks, at most once a second however many ask (decision workers/0043).
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import anyio
from fastapi import APIRouter
from starlette.responses import Response

from actors.commit.group_committer import CommittedTransaction, Committer
from actors.sessions.runtime import SessionRuntime
from kernel.ledger.quarantine import RecordKey
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.records.implications.halts import count_halts
from queues.errors import QueueError
from queues.queue.items import QueueDepth
from queues.queue.queue_view import depths_by_name
from queues.queue.work_queue import WorkQueue
from workers.api.services import Services
from workers.dashboard.headers import LIVE
from workers.environment.settings import Settings
from workers.environment.system_host import utc_now
from workers.telemetry.http_metrics import SpanTally, dropped_counts, span_counts
from workers.telemetry.metric_registry import CONTENT_TYPE, Metrics, Readings
from workers.telemetry.metric_table import GATEWAY
from workers.use_cases.access import does
from workers.views.backlog import backlog
from workers.views.closed_requests import RequestTally
from workers.views.records import count_requests

FRESH_S = 1.0
PART_S = 3.0
"""How long Redis may take: Prometheus waits ten seconds. The ledger bounds its own waits."""

Labels = tuple[str, ...]


class _Readings(dict[str, dict[Labels, float]]):
    """The values that were read, by metric and labels."""

    def put(self, name: str, value: float, *labels: str) -> None:
        self.setdefault(name, {})[labels] = value


class GatewayMeasures:
    """The metrics that can only be observed when something happens."""

    def __init__(self) -> None:
        self.operations: Counter[Labels] = Counter(
            {("accepted",): 0, ("duplicate",): 0, ("rejected",): 0}
        )
        self.rejections: Counter[Labels] = Counter()
        self.commits: Counter[Labels] = Counter({("committed",): 0, ("rolled_back",): 0})
        self.requests: Counter[Labels] = Counter()
        self.refused: Counter[Labels] = Counter(
            {(kind,): 0 for kind in ("entry", "answer", "expired", "replayed")}
        )
        self.read: Readings = {}
        """The values that were read last."""

        self._metrics = Metrics(GATEWAY, lambda: self.read)

    def note_transaction(self, batch: CommittedTransaction) -> None:
        """Take note of a transaction that has ended."""
        self.commits["committed" if batch.durable else "rolled_back",] += 1
        self._metrics.observe("rotulus_commit_batch_units", batch.units)
        self._metrics.observe("rotulus_commit_duration_seconds", batch.seconds)
        for result in batch.results:
            self._count(result)

    def count_refused_mail(self, kind: str) -> None:
        """Count a message from elsewhere that was refused."""
        self.refused[kind,] += 1

    def note_answer(self, method: str, route: str, status: int, seconds: float) -> None:
        """Take note of a request whose answer begins."""
        self.requests[method, route, str(status)] += 1
        self._metrics.observe("rotulus_http_request_duration_seconds", seconds, route)

    def text(self) -> bytes:
        """Return everything as Prometheus reads it."""
        return self._metrics.text()

    def _count(self, result: Any) -> None:
        if isinstance(result, SubmissionResult):
            self.operations["duplicate" if result.duplicate else "accepted",] += 1
        elif isinstance(result, RejectedResult):
            self.operations["rejected",] += 1
            self.rejections[result.rejection.check,] += 1
        elif isinstance(result, list | tuple):
            for part in result:
                self._count(part)


@dataclass(slots=True)
class GatewayMetrics:
    """Reads what `/metrics` of a gateway answers from where it stands."""

    measures: GatewayMeasures
    services: Services
    committer: Committer
    runtime: SessionRuntime
    settings: Settings
    spans: SpanTally | None = None
    _closed: RequestTally = field(default_factory=RequestTally)
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _read_at_s: float = float("-inf")

    async def text(self) -> bytes:
        """Return everything as Prometheus reads it; a part that is away says so and is left out."""
        async with self._lock:
            if time.monotonic() - self._read_at_s >= FRESH_S:
                self.measures.read = await self._readings()
                self._read_at_s = time.monotonic()
        return self.measures.text()

    async def _readings(self) -> Readings:
        readings = _Readings()
        self._process(readings)
        await _part(readings, "ledger", self._ledger)
        await self._put_damage(readings)
        open_requests = readings.get("rotulus_requests_open")
        await _part(readings, "redis", lambda part: self._redis(part, open_requests))
        await _part(readings, "published_log", self._read_published_log)
        return {
            **readings,
            "rotulus_operations_total": self.measures.operations,
            "rotulus_rejections_total": self.measures.rejections,
            "rotulus_commits_total": self.measures.commits,
            "rotulus_http_requests_total": self.measures.requests,
            "rotulus_mail_refused_total": self.measures.refused,
            "rotulus_redis_values_dropped_total": dropped_counts(),
            "rotulus_trace_spans_total": span_counts(self.spans),
        }

    def _process(self, readings: _Readings) -> None:
        waiting = self.runtime.mailbox_depths
        readings.put("rotulus_sessions_active", len(waiting))
        readings.put("rotulus_sessions_corrupt", len(self.services.sessions.corrupt_sessions))
        readings.put("rotulus_mailbox_messages", sum(waiting))
        readings.put("rotulus_mailbox_messages_max", max(waiting, default=0))
        readings.put("rotulus_mailbox_limit", self.settings.mailbox_max)
        went_back = self.services.health.went_back() is not None
        readings.put("rotulus_ledger_went_back", float(went_back))
        readings.put("rotulus_commit_waiting", self.committer.waiting)
        for asker, places in self.services.admission.places.items():
            readings.put("rotulus_http_requests_in_flight", places.taken, asker)
            readings.put("rotulus_http_requests_limit", places.limit, asker)
            readings.put("rotulus_http_requests_refused_total", places.refused, asker)
        if (door := self.services.door) is not None:
            readings.put("rotulus_principals", len(door.uses))
            for code, count in door.refused.items():
                readings.put("rotulus_access_refused_total", count, code)
            for limit, count in door.uses.limited_counts().items():
                readings.put("rotulus_principal_limited_total", count, limit)
        if (shards := self.services.fleet.held_shards) is not None:
            readings.put("rotulus_shards", shards.shards)
            readings.put("rotulus_shards_owned", len(shards.held))

    async def _redis(
        self, readings: _Readings, open_requests: Mapping[Labels, float] | None
    ) -> None:
        if (problem := await self.services.work.redis_watch.current()) is not None:
            raise QueueError(problem.code, str(problem))
        work = self.services.work
        for name, depth in (await depths_by_name(work.queues)).items():
            queue = work.queues[name]
            delayed = depth.delayed
            if open_requests is not None:
                stands = backlog(depth, int(open_requests[queue.name,]))
                delayed = stands.delayed
                readings.put("rotulus_requests_held", stands.held, queue.name)
            _put_depth(readings, queue, depth, delayed)
        for resource, most in tuple(work.slots.items()):
            held = await work.leases.active_leases(resource)
            readings.put("rotulus_lease_slots_held", len(held), resource)
            readings.put("rotulus_lease_slots", most, resource)
        readings.put("rotulus_workers_alive", len(await work.heartbeats.alive()))

    async def _ledger(self, readings: _Readings) -> None:
        head, requests, halts, closed = await self.services.read(
            lambda view: (
                view.head(),
                count_requests(view),
                count_halts(view),
                self._closed.look(view),
            )
        )
        readings.put("rotulus_chain_height", head.ec_sequence_number)
        readings.put("rotulus_receipt_chain_height", head.receipt_sequence)
        readings.put("rotulus_requests_recorded_total", requests["recorded"])
        for queue, count in requests["open_by_queue"].items():
            age_s = _age_s(requests["oldest_open_at"].get(queue))
            readings.put("rotulus_requests_open", count, queue)
            readings.put("rotulus_requests_oldest_open_age_seconds", age_s, queue)
        for reason, count in halts.items():
            readings.put("rotulus_implications_halted", count, reason)
        for labels, count in (closed or {}).items():
            readings.put("rotulus_requests_closed_total", count, *labels)

    async def _put_damage(self, readings: _Readings) -> None:
        """Count what stands as damaged, and what this process met and is not on the record yet."""
        records = {RecordKey(each.table, each.key) for each in self.services.ledger.damage.all()}
        ranges = 0
        with suppress(Exception):  # what was met is told all the same
            standing = await self.services.read(lambda view: view.quarantines())
            records |= standing.records
            ranges = len(standing.ranges)
        counts = Counter(record.table for record in records)
        counts["kernel_event_log"] += ranges
        for table, count in (+counts).items():
            readings.put("rotulus_records_damaged", count, table)

    async def _read_published_log(self, readings: _Readings) -> None:
        status = await self.services.checkpoint()
        checkpoint, problem = status["checkpoint"], status["problem"]
        if checkpoint is not None:
            rows = int(checkpoint["tree_size"] or 0)
            readings.put("rotulus_checkpoint_rows", rows, checkpoint["verdict"])
            readings.put("rotulus_checkpoint_cosignatures", len(checkpoint["witnesses"]))
        if problem is not None:
            readings.put("rotulus_checkpoint_refused", 1.0, problem["code"])


def metrics_router(metrics: GatewayMetrics) -> APIRouter:
    """Return the router that answers `GET /metrics`."""
    router = APIRouter()

    @router.get("/metrics", include_in_schema=False, openapi_extra=does("read.metrics"))
    async def scrape() -> Response:
        return Response(await metrics.text(), headers={**LIVE, "Content-Type": CONTENT_TYPE})

    return router


async def _part(
    readings: _Readings, name: str, read: Callable[[_Readings], Awaitable[None]]
) -> None:
    """Add the readings of one part, all of them or, if one fails, none."""
    part, up = _Readings(), False
    with anyio.move_on_after(PART_S):
        try:
            await read(part)
            up = True
        except Exception:  # noqa: BLE001 - whatever it is, it could not be read, and that is told
            up = False
    if up:
        readings |= part
    readings.put("rotulus_dependency_up", float(up), name)


def _age_s(recorded_at: str | None) -> float:
    if recorded_at is None:
        return 0.0
    return max(0.0, (utc_now() - datetime.fromisoformat(recorded_at)).total_seconds())


def _put_depth(readings: _Readings, queue: WorkQueue, depth: QueueDepth, delayed: int) -> None:
    for row in queue.priorities:
        labels = (queue.name, row.name)
        paused = depth.paused or row.name in depth.paused_priorities
        age_s = depth.oldest_eligible_age_ms[row.name] / 1000
        readings.put("rotulus_queue_ready_items", depth.ready[row.name], *labels)
        readings.put("rotulus_queue_suspended_items", depth.suspended[row.name], *labels)
        readings.put("rotulus_queue_oldest_eligible_age_seconds", age_s, *labels)
        readings.put("rotulus_queue_service_target_seconds", row.service_target_ms / 1000, *labels)
        readings.put("rotulus_queue_paused", float(paused), *labels)
    counts = {"delayed": delayed, "in_flight": depth.in_flight, "dead": depth.dead}
    for state, number in counts.items():
        readings.put("rotulus_queue_items", number, queue.name, state)
