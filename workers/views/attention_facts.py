"""Reads the facts of which the list of what needs somebody is made.

Each part is read by itself: one that is away is an error, and the others are still there. Counts
are bounded, and nothing here grows with the ledger.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from anyio import to_thread

from actors.commit.refusal_units import SET_ASIDE
from kernel.audit.open_reviews import ReviewCountsDocument, count_open_reviews
from kernel.landscape.errors import RecordDamaged
from kernel.landscape.recent_runs import RunTrouble, problems_of_runs
from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.ledger import Head
from kernel.ledger.quarantine import Quarantines, RecordKey
from kernel.records.access.readable_view import ReadableView
from kernel.records.implications.halts import Halt, halts_of
from kernel.work.dead_letters import DeadGroup, dead_groups
from kernel.work.pauses import Pause, pauses_of
from queues.fleet.cron_claims import CronFiring, Crons
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.gateways.shard_mailboxes import SetAside
from queues.queue.items import QueueDepth
from queues.queue.queue_view import depths_by_name
from workers.environment.system_host import now_ms
from workers.views.backlog import backlog
from workers.views.checkpoints import CheckpointStatusDocument
from workers.views.readiness import ReadyServices, damaged_records, problems_of_process
from workers.views.records import RequestCounts, count_requests

DEPENDENCIES: Final = frozenset({"ledger", "redis"})
HALTS_MAX: Final = 20
FINDINGS_MAX: Final = 100
SELDOM_US: Final = 5_000_000
"""What changes seldom is read again after so long, where anything was written since."""

UNCHANGED_US: Final = 60_000_000
"""And after so long where nothing was, because a run gets stuck by itself."""

FIRINGS_MS: Final = 30_000
DIFFERS_MS: Final = 10_000
"""For how long counts may differ: whoever writes is between two steps."""


@dataclass(frozen=True, slots=True)
class SeldomFacts:
    """What changes seldom, and costs some statements."""

    went_back: bool = False
    """Whether the ledger went back, and nobody has accepted it; its gateways know by themselves."""

    dead: Sequence[DeadGroup] = ()
    halts: Sequence[Halt] = ()
    reviews: ReviewCountsDocument | None = None
    runs: Sequence[RunTrouble] = ()
    not_read: Mapping[str, str] = field(default_factory=dict)
    """What could not be read because it is damaged, by name, with why."""

    shards_with_findings: Sequence[int] = ()
    """Of which the newest requests are that ended whoever took them."""


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """What the record says."""

    requests: RequestCounts
    pauses: Sequence[Pause]
    quarantines: Quarantines
    seldom: SeldomFacts


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """What Redis says of the queues and of who serves them."""

    depths: Mapping[str, QueueDepth]
    beats: Sequence[WorkerBeat]
    gone: Sequence[WorkerBeat]
    """The workers whose beats ended without a good-bye, for a day."""

    at_ms: int
    """When they were read, by this machine's clock."""

    firings: Sequence[CronFiring] = ()
    """When what the fleet runs periodically is due next, as it was known lately."""

    set_aside: Sequence[SetAside] = ()
    """Requests to sessions that nobody takes any more, and that can be put back."""


@dataclass(frozen=True, slots=True)
class ClosedItems:
    """Items of a queue whose requests are closed and that no worker has in hand."""

    count: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class AttentionFacts:
    """Everything that there is to go by; a part that is None is not known here."""

    record: RecordFacts | None = None
    fleet: FleetFacts | None = None
    checkpoint: CheckpointStatusDocument | None = None
    damaged: Collection[RecordKey] = ()
    """What this process has met damaged, whether or not that is on the record."""

    problems: Mapping[str, str] = field(default_factory=dict)
    """Why the gateway is not ready, by component; see `GET /readyz`."""

    shards: int = 0
    unowned: Mapping[int, str] = field(default_factory=dict)
    """The shards that no living gateway owns, with who has each on the record."""

    deaths: Sequence[Mapping[str, Any]] = ()
    """The processes of this machine's tree that die again and again, as their parent says."""

    at_ms: int = 0
    """When the facts were put together, by this machine's clock."""

    closed_items: Mapping[str, ClosedItems] = field(default_factory=dict)
    """By queue the items that no open request is for."""

    not_read: Mapping[str, str] = field(default_factory=dict)
    """The parts that could not be read, by name, with why."""

    away_since_ms: Mapping[str, int] = field(default_factory=dict)
    """By dependency with a problem, when this gateway saw the problem first."""


class AttentionServices(ReadyServices, Protocol):
    """What is needed of a gateway's services to read the facts."""

    @property
    def attention(self) -> "RecordLook":
        """What remembers what changes seldom."""

    async def checkpoint(self) -> CheckpointStatusDocument:
        """Return the published checkpoint with its verdict."""


@dataclass(slots=True)
class CountsLook:
    """Compares what queues hold with what the record asks for, from look to look.

    Redis is read after the ledger, so what is asked for between the two is in no count of open
    requests. As much as was recorded up to the next look may be that, and is no finding.
    """

    _before: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By queue the items beyond the open requests at the last look, what was recorded, and when."""

    _since_ms: dict[str, int] = field(default_factory=dict)

    def look(self, record: RecordFacts, fleet: FleetFacts) -> dict[str, ClosedItems]:
        """Return the queues whose counts have not added up for a while."""
        recorded, closed = record.requests["recorded"], {}
        for queue, depth in fleet.depths.items():
            stands = backlog(depth, record.requests["open_by_queue"].get(queue, 0))
            beyond, recorded_before, at_ms = self._before.get(queue, (0, 0, 0))
            self._before[queue] = stands.stale - stands.in_flight, recorded, fleet.at_ms
            certain = beyond - (recorded - recorded_before)
            if certain <= 0:
                self._since_ms.pop(queue, None)
                continue
            since_ms = self._since_ms.setdefault(queue, at_ms)
            if fleet.at_ms - since_ms >= DIFFERS_MS:
                closed[queue] = ClosedItems(certain, since_ms)
        return closed


@dataclass(slots=True)
class AwayLook:
    """Remembers since when each dependency is away, from look to look."""

    _since_ms: dict[str, int] = field(default_factory=dict)

    def look(self, problems: Collection[str], at_ms: int) -> dict[str, int]:
        """Return the dependencies among the components with problems, and since when each is."""
        away = DEPENDENCIES.intersection(problems)
        self._since_ms = {name: self._since_ms.get(name, at_ms) for name in away}
        return dict(self._since_ms)


@dataclass(slots=True)
class RecordLook:
    """Reads what the record says again and again, and what changes seldom not each time."""

    seldom: SeldomFacts = field(default_factory=SeldomFacts)
    """As it was read last."""

    counts: CountsLook = field(default_factory=CountsLook)
    away: AwayLook = field(default_factory=AwayLook)
    firings: Sequence[CronFiring] = ()
    firings_at_ms: int = -FIRINGS_MS
    """When they were read last."""

    _read_at_us: int = -UNCHANGED_US
    _read_to: tuple[int, int] = (-1, -1)

    def look(
        self,
        view: ReadableView,
        head: Head,
        requests: RequestCounts,
        now_us: int,
        *,
        anew: bool = False,
    ) -> RecordFacts:
        """Return what a snapshot says, with what changes seldom as it was lately, or is now."""
        stands_at = head.ec_sequence_number, head.receipt_sequence
        age_us = now_us - self._read_at_us
        pause_us = SELDOM_US if stands_at != self._read_to else UNCHANGED_US
        if anew or not 0 <= age_us < pause_us:
            self.seldom = _seldom_facts(view, now_us)
            self._read_at_us, self._read_to = now_us, stands_at
        return RecordFacts(requests, pauses_of(view), view.quarantines(), self.seldom)


def record_facts(view: ReadableView, now_us: int) -> RecordFacts:
    """Return everything that a snapshot of the record says."""
    return RecordLook().look(view, view.head(), count_requests(view), now_us)


async def fleet_facts(services: AttentionServices) -> FleetFacts:
    """Return what Redis says.

    Raises:
        QueueError: it does not answer.
    """
    work, mail = services.work, services.fleet.mail
    depths = await depths_by_name(work.queues)
    fleet, at_ms = await work.heartbeats.look(), now_ms()
    look = services.attention
    if not 0 <= at_ms - look.firings_at_ms < FIRINGS_MS:
        look.firings, look.firings_at_ms = await Crons(work.redis).firings(), at_ms
    shards = look.seldom.shards_with_findings
    aside = await mail.aside(shards) if shards and mail is not None else ()
    return FleetFacts(depths, fleet.alive, fleet.gone, at_ms, look.firings, aside)


async def deaths_of_tree(services: AttentionServices) -> tuple[Mapping[str, Any], ...]:
    """Return the processes of this machine's tree that die again and again."""
    facts = await to_thread.run_sync(services.health.tree) or {}
    return tuple(facts.get("died_alike", ()))


async def attention_facts(services: AttentionServices) -> AttentionFacts:
    """Return all facts as they are now; a part that cannot be read says so."""
    not_read: dict[str, str] = {}
    now_us = services.ledger.host.now_us()

    async def part(name: str, read: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await read()
        except Exception as error:  # noqa: BLE001 - whatever it is, it could not be read
            not_read[name] = getattr(error, "code", type(error).__name__)
            return None

    def look(view: ReadableView) -> RecordFacts:
        requests = count_requests(view)
        return services.attention.look(view, view.head(), requests, now_us, anew=True)

    record = await part("ledger", lambda: services.read(look))
    fleet = await part("redis", lambda: fleet_facts(services))
    checkpoint = await part("published log", services.checkpoint)
    deaths = await part("process tree", lambda: deaths_of_tree(services))
    return facts_of(services, record, fleet, checkpoint, deaths or (), not_read)


def facts_of(
    services: AttentionServices,
    record: RecordFacts | None,
    fleet: FleetFacts | None,
    checkpoint: CheckpointStatusDocument | None,
    deaths: Sequence[Mapping[str, Any]],
    not_read: Mapping[str, str],
) -> AttentionFacts:
    """Return the facts of parts that were read, with what this process knows without reading."""
    shards = services.fleet.held_shards
    problems = problems_of_process(services)
    for name in not_read.keys() & DEPENDENCIES:
        went_back = not_read[name] == LedgerWentBack.code
        problems.setdefault("ledger_went_back" if went_back else name, not_read[name])
    seldom = {} if record is None else record.seldom.not_read
    not_read = {name: why for name, why in not_read.items() if name not in DEPENDENCIES}
    return AttentionFacts(
        record,
        fleet,
        checkpoint,
        damaged_records(services),
        problems,
        0 if shards is None else shards.shards,
        services.fleet.absent_owners(),
        deaths,
        now_ms(),
        {} if record is None or fleet is None else services.attention.counts.look(record, fleet),
        {**not_read, **seldom},
        services.attention.away.look(problems, now_ms()),
    )


def _seldom_facts(view: ReadableView, now_us: int) -> SeldomFacts:
    runs: Sequence[RunTrouble] = ()
    not_read = {}
    try:
        runs = problems_of_runs(view, now_us)
    except RecordDamaged as error:
        not_read["runs"] = str(error)
    findings = view.receipts_of_kind(SET_ASIDE, limit=FINDINGS_MAX)
    return SeldomFacts(
        view.finding_stands(),
        dead_groups(view),
        halts_of(view, limit=HALTS_MAX),
        count_open_reviews(view),
        runs,
        not_read,
        sorted({int(finding["shard"]) for finding in findings}),
    )
