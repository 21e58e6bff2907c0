"""Reads the dashboard's snapshot from Redis and the ledger; counts by differences, never by scans.

A number that grows without bound is counted once at the start, and afterwards by what is new since
the last snapshot.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any, TypeVar

import anyio
import orjson

from actors.commit.refusal_units import SET_ASIDE
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.belief.record import read_survivors
from kernel.ledger.shards import shards_of
from kernel.ledger.store.tables import PAGE_ROWS, Row
from kernel.records.access.readable_view import ReadableView, RecordReader
from kernel.values.visibility import VISIBILITY_CLASSES
from kernel.work.pauses import Pause
from kernel.work.receipts import CLOSED
from queues.errors import QueueError
from queues.leases.lease_holder import capacity_of
from queues.queue.items import QueueDepth
from queues.queue.work_queue import WorkQueue
from queues.redis.dropped import DROPPED
from workers.api.services import Services
from workers.dashboard.hub import SnapshotHub
from workers.dashboard.snapshot import (
    Count,
    Counters,
    DashboardSnapshot,
    Death,
    Fleet,
    Hold,
    LeaseView,
    LedgerPicture,
    LedgerRow,
    NewestSessions,
    PriorityBacklog,
    PublishedCheckpoint,
    Queue,
    Requests,
    Session,
    SetAsideRequest,
    SnapshotPart,
    Worker,
)
from workers.environment.system_host import now_ms, utc_now
from workers.views.attention_facts import (
    FleetFacts,
    RecordFacts,
    deaths_of_tree,
    facts_of,
    fleet_facts,
)
from workers.views.attention_items import AttentionItem
from workers.views.attention_rules import attention_items
from workers.views.backlog import backlog
from workers.views.checkpoints import CheckpointStatusDocument
from workers.views.late_workers import is_late
from workers.views.records import RequestCounts, count_requests
from workers.views.session_lists import session_state

TAIL_ROWS = 15
SESSIONS_SHOWN = 50
HASH_CHARS = 12
NOBODY_SHOWN = "(nobody)"

BEST_EFFORT = "background_low_priority"

CLEARED_INTERVAL_S = 2.0
"""Between two pictures of a clearance below everything: each row in them is looked at."""

REDIS_S = 1.5
"""How long Redis may take over a part; the hub waits five seconds for all of them."""

T = TypeVar("T")
U = TypeVar("U")


@dataclass(slots=True)
class Rate:
    """A counter's growth per second between two looks."""

    value: int = 0
    at: datetime | None = None

    def per_s(self, value: int, at: datetime) -> float:
        """Return the growth since the look before, 0 where there is none to compare with."""
        before, since = self.value, self.at
        self.value, self.at = value, at
        if since is None or at <= since:
            return 0.0
        return max(0, value - before) / (at - since).total_seconds()


@dataclass(slots=True)
class _LedgerPart:
    ledger: LedgerPicture
    sessions: NewestSessions
    counters: Counters
    gateways: tuple[Count, ...]
    rejections: tuple[Count, ...]
    requests: Requests
    set_aside: tuple[SetAsideRequest, ...]
    counts: RequestCounts
    attention: RecordFacts
    pauses: dict[str, tuple[str, ...]]
    """What is paused of a queue, a sentence each."""

    completed: dict[str, int]
    """Requests that were completed, by queue."""


@dataclass(slots=True)
class LiveSource:
    """The picture of one gateway's ledger and Redis."""

    services: Services
    lease_slots: int
    _version: int = 0
    _rows: Rate = field(default_factory=Rate)
    _completed: dict[str, Rate] = field(default_factory=lambda: defaultdict(Rate))
    _asked_for: Counter[str] = field(default_factory=Counter)
    _rejections: Counter[str] = field(default_factory=Counter)
    _receipts_seen: int = 0
    _events: dict[str, int] = field(default_factory=dict)
    _events_in_all: int = 0
    _sessions_seen_us: int = 0

    async def read(self) -> DashboardSnapshot:
        """Return the state as it is now; a part that cannot be read says so."""
        self._version += 1
        now = utc_now()
        record = await _part("ledger", lambda: self.services.read(self._read_ledger))
        fleet = await self._redis(lambda: fleet_facts(self.services))
        checkpoint = await _part("published log", self.services.checkpoint)
        deaths = await _part("process tree", lambda: deaths_of_tree(self.services))
        completed_per_s: dict[str, float] = {}
        if record.value is not None:
            for name, count in record.value.completed.items():
                completed_per_s[name] = self._completed[name].per_s(count, record.read_at)

        return DashboardSnapshot(
            version=self._version,
            time=now,
            attention=self._attention(record, fleet, checkpoint, deaths),
            queues=_of(fleet, lambda seen: self._queues(seen, record.value, completed_per_s)),
            leases=await self._redis(self._leases),
            workers=_of(fleet, _workers),
            sessions=_of(record, lambda value: value.sessions),
            counters=_of(record, lambda value: value.counters),
            ledger=_of(record, lambda value: value.ledger),
            checkpoint=_of(checkpoint, _checkpoint),
            gateways=_of(record, lambda value: value.gateways),
            rejections=_of(record, lambda value: value.rejections),
            requests=_of(record, lambda value: value.requests),
            # Where Redis is away, what this process dropped is still known.
            dropped=SnapshotPart(
                "gateway and workers", fleet.read_at, _dropped_counts(fleet.value)
            ),
            set_aside=_of(record, lambda value: value.set_aside),
            deaths=_of(deaths, _deaths),
        )

    async def _redis(self, read: Callable[[], Awaitable[T]]) -> SnapshotPart[T]:
        """Read a part of Redis; one that hangs takes no other part with it."""

        async def in_time() -> T:
            if (problem := self.services.work.redis_watch.problem) is not None:
                raise QueueError(problem.code, str(problem))
            with anyio.fail_after(REDIS_S):
                return await read()

        return await _part("Redis", in_time)

    def _attention(
        self,
        record: SnapshotPart[_LedgerPart],
        fleet: SnapshotPart[FleetFacts],
        checkpoint: SnapshotPart[CheckpointStatusDocument],
        deaths: SnapshotPart[tuple[Mapping[str, Any], ...]],
    ) -> SnapshotPart[tuple[AttentionItem, ...]]:
        parts: dict[str, SnapshotPart[Any]] = {
            "ledger": record,
            "redis": fleet,
            "published log": checkpoint,
        }
        facts = facts_of(
            self.services,
            None if record.value is None else record.value.attention,
            fleet.value,
            checkpoint.value,
            deaths.value or (),
            {name: part.error for name, part in parts.items() if part.error is not None},
        )
        items = tuple(attention_items(facts))
        return SnapshotPart("ledger, Redis and gateway", record.read_at, items)

    def _queues(
        self, fleet: FleetFacts, record: _LedgerPart | None, completed_per_s: Mapping[str, float]
    ) -> tuple[Queue, ...]:
        return tuple(
            self._queue(queue, fleet.depths[name], record, completed_per_s.get(name, 0.0))
            for name, queue in tuple(self.services.work.queues.items())
            if name in fleet.depths
        )

    def _queue(
        self,
        queue: WorkQueue,
        depth: QueueDepth,
        record: _LedgerPart | None,
        completed_per_s: float,
    ) -> Queue:
        counts = None if record is None else record.counts
        open_requests = 0 if counts is None else counts["open_by_queue"].get(queue.name, 0)
        stands = backlog(depth, open_requests)
        priorities = tuple(
            PriorityBacklog(
                name=row.name,
                target_ms=None if row.name == BEST_EFFORT else row.service_target_ms,
                ready=depth.ready[row.name],
                oldest_ms=depth.oldest_eligible_age_ms[row.name] if depth.ready[row.name] else None,
            )
            for row in queue.priorities
        )
        return Queue(
            queue.name,
            priorities,
            suspended=stands.suspended,
            delayed=stands.delayed,
            in_flight=stands.in_flight,
            dead=depth.dead,
            open=None if counts is None else stands.open,
            held=None if counts is None else stands.held,
            oldest_open_ms=None if counts is None else _age_ms(counts, queue.name),
            pauses=() if record is None else record.pauses.get(queue.name, ()),
            completed_per_s=completed_per_s,
        )

    async def _leases(self) -> tuple[LeaseView, ...]:
        return tuple([await self._lease(resource) for resource in tuple(self.services.work.queues)])

    async def _lease(self, resource: str) -> LeaseView:
        held = await self.services.work.leases.active_leases(resource)
        at_ms = now_ms()
        leases = tuple(
            Hold(lease.holder, str(lease.token), lease.expires_at_ms - at_ms)
            for lease in sorted(held, key=lambda lease: lease.token)
        )
        slots = int(capacity_of(self.lease_slots).total.slots)
        return LeaseView(resource, slots, len(leases), leases)

    def _read_ledger(self, view: ReadableView) -> _LedgerPart:
        head = view.head()
        rows_per_s = self._rows.per_s(head.ec_sequence_number, utc_now())
        self._count_rejections(view, head.receipt_sequence)
        self._count_events(view)
        requests = count_requests(view)
        outcomes = requests["outcomes"]
        newest = view.newest_belief_sessions(SESSIONS_SHOWN)
        now_us = self.services.ledger.host.now_us()
        attention = self.services.attention.look(view, head, requests, now_us)
        return _LedgerPart(
            ledger=LedgerPicture(
                str(head.ec_sequence_number),
                head.row_hash,
                rows_per_s,
                tuple(_tail_row(view, row) for row in view.log_tail(TAIL_ROWS)),
            ),
            sessions=NewestSessions(tuple(_session(row) for row in newest), len(self._events)),
            counters=Counters(head.ec_sequence_number, self._events_in_all - len(self._events)),
            gateways=_gateways(view),
            rejections=tuple(Count(*pair) for pair in self._rejections.most_common()),
            requests=Requests(
                requests["open"],
                sum(outcomes.values()),
                tuple(Count(name, count) for name, count in outcomes.items()),
            ),
            set_aside=tuple(map(_set_aside, view.receipts_of_kind(SET_ASIDE, limit=TAIL_ROWS))),
            counts=requests,
            attention=attention,
            pauses=_pauses(attention.pauses),
            # Whatever was not asked for by a producer is an authority's, or an effect's outside.
            completed={name: self._asked_for[name] for name in tuple(self.services.work.queues)}
            | {AUTHORITY_QUEUE: outcomes["completed"] - self._asked_for.total()},
        )

    def _count_rejections(self, view: ReadableView, newest: int) -> None:
        while self._receipts_seen < newest:
            rows = view.receipt_rows(after=self._receipts_seen, limit=PAGE_ROWS)
            if not rows:
                return
            self._rejections.update(row["reason_code"] for row in rows if row["reason_code"])
            closed = [row["receipt_bytes"] for row in rows if row["receipt_kind"] == CLOSED]
            self._asked_for.update(
                outcome["queue"]
                for outcome in map(orjson.loads, closed)
                if outcome["outcome"] == "completed"
            )
            self._receipts_seen = rows[-1]["receipt_sequence"]

    def _count_events(self, view: ReadableView) -> None:
        """The first event of a session declares it; every other one may eliminate."""
        # A session can change twice in one microsecond of the clock, so the newest is read again.
        while rows := view.changed_belief_sessions(
            after_us=self._sessions_seen_us - 1, limit=PAGE_ROWS
        ):
            for row in rows:
                name, count = row["session_id"], row["n_events"]
                self._events_in_all += count - self._events.get(name, 0)
                self._events[name] = count
            self._sessions_seen_us = rows[-1]["updated_at_us"]
            if len(rows) < PAGE_ROWS:
                return


def cleared_hubs(services: Services, lease_slots: int) -> dict[str, SnapshotHub]:
    """Return what takes a picture for each clearance below everything, once somebody asks.

    Where access is open nobody does, so there is none.
    """
    return {
        clearance: SnapshotHub(
            LiveSource(services.for_reader(RecordReader(clearance)), lease_slots),
            CLEARED_INTERVAL_S,
            idle_interval_s=inf,
        )
        for clearance in (() if services.door is None else VISIBILITY_CLASSES)
    }


def _gateways(view: ReadableView) -> tuple[Count, ...]:
    """How many shards each gateway owns; a ledger without shards has no gateways."""
    owners = Counter(shard.owner or NOBODY_SHOWN for shard in shards_of(view))
    return tuple(Count(owner, shards) for owner, shards in sorted(owners.items()))


async def _part(origin: str, read: Callable[[], Awaitable[T]]) -> SnapshotPart[T]:
    try:
        value = await read()
    except Exception as error:  # noqa: BLE001 - the part says that it failed, the page goes on
        code = getattr(error, "code", type(error).__name__)
        return SnapshotPart(origin, utc_now(), None, code)
    return SnapshotPart(origin, utc_now(), value)


def _of(part: SnapshotPart[T], picture: Callable[[T], U]) -> SnapshotPart[U]:
    """Return what a part that was read is shown as."""
    value = None if part.value is None else picture(part.value)
    return SnapshotPart(part.origin, part.read_at, value, part.error)


def _workers(fleet: FleetFacts) -> Fleet:
    workers = tuple(
        Worker(
            beat.worker_id,
            beat.pid,
            beat.queues,
            beat.slots,
            beat.completed,
            beat.failed,
            beat.in_flight,
            fleet.at_ms - beat.seen_at_ms,
            "late" if is_late(beat, fleet.at_ms) else "alive",
        )
        for beat in fleet.beats
    )
    return Fleet(workers, len(workers))


def _dropped_counts(fleet: FleetFacts | None) -> tuple[Count, ...]:
    counts = Counter(DROPPED)
    for beat in () if fleet is None else fleet.beats:
        counts.update(beat.dropped)
    return tuple(Count(*pair) for pair in counts.most_common())


def _checkpoint(status: CheckpointStatusDocument) -> PublishedCheckpoint:
    checkpoint, problem = status["checkpoint"], status["problem"]
    reason = "" if problem is None else f"{problem['message']} ({problem['code']})"
    if checkpoint is None:
        return PublishedCheckpoint("", "nothing is published", "", "", reason)
    head, origin = checkpoint["tree_head"] or "", checkpoint["origin"] or ""
    return PublishedCheckpoint(checkpoint["verdict"], checkpoint["message"], head, origin, reason)


def _deaths(deaths: tuple[Mapping[str, Any], ...]) -> tuple[Death, ...]:
    return tuple(Death(**{**death, "at": datetime.fromisoformat(death["at"])}) for death in deaths)


def _age_ms(counts: RequestCounts, queue: str) -> int | None:
    recorded_at = counts["oldest_open_at"].get(queue)
    if recorded_at is None:
        return None
    age = utc_now() - datetime.fromisoformat(recorded_at)
    return max(0, int(age.total_seconds() * 1000))


def _pauses(pauses: Sequence[Pause]) -> dict[str, tuple[str, ...]]:
    said = defaultdict[str, tuple[str, ...]](tuple)
    for pause in pauses:
        what = f"{pause.priority} paused" if pause.priority else "paused"
        by = f" by {pause.decided_by}" if pause.decided_by else ""
        since = pause.paused_at[:16].replace("T", " ")
        said[pause.queue] += (f"{what} since {since} UTC{by}",)
    return dict(said)


def _tail_row(view: ReadableView, row: Row) -> LedgerRow:
    is_quarantined = view.quarantines().over(row["ec_sequence_number"]) is not None
    effect_kinds = ["quarantined"]
    if not is_quarantined:
        effect_kinds = orjson.loads(row["row_bytes"])["effect_kind_set"]
    return LedgerRow(
        sequence=str(row["ec_sequence_number"]),
        operation_id=row["operation_id"],
        semantic_intent=row["semantic_intent"],
        effect_kinds=tuple(effect_kinds),
        session_id=row["session_id"] or "",
        committed_at=datetime.fromisoformat(row["committed_at"]),
        row_hash=row["row_hash"][:HASH_CHARS],
    )


def _set_aside(finding: Mapping[str, Any]) -> SetAsideRequest:
    return SetAsideRequest(
        finding["shard"],
        finding["offset"],
        finding.get("session_id", ""),
        finding["process_ends"],
        datetime.fromisoformat(finding["emitted_at"]),
    )


def _session(row: Row) -> Session:
    return Session(
        session_id=row["session_id"],
        title=row["title"],
        n_universe=row["n_universe"],
        n_survivors=row["n_survivors"],
        survivors=tuple(read_survivors(row["survivors_shown"])),
        last_activity=datetime.fromtimestamp(row["updated_at_us"] / 1_000_000, UTC),
        state=session_state(row),
    )
