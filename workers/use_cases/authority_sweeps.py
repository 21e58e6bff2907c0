"""Recomputes that are asked for in bulk: deferred cascades, the nightly tick, the backfill (§8).

Each reads a thousand understandings to a snapshot and commits a page of 256 requests at a time, in
an order in which each page may be recorded by itself, so other requests come in between. A sweep
that is killed has recorded part of its requests, and the next run records the rest. One sweep of a
kind runs in a gateway at a time (`authority_sweep_running`, 409).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import anyio.to_thread
import structlog
from typing_extensions import TypedDict

from actors.commit.units import IntentUnit, Unit
from actors.errors import ActorError, StaleEpoch
from actors.orchestrator.intents import EnqueueRecompute
from actors.sharding.held_shards import SessionLease
from actors.supervision import WakeSignal
from kernel.authority.enqueue_pages import plan_deferred, plan_sweep
from kernel.authority.requests import CASCADE_QUEUE, CASCADES
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.sweeps import (
    BACKFILL,
    PAGE_NODES,
    BackfillProgress,
    NightlyTick,
    lacks_authority,
    page_of,
    tick_source,
)
from kernel.authority.triggers import DECAY_TICK, MIGRATION
from kernel.ledger.ledger import Document, Ledger, LedgerView
from kernel.ledger.shards import Fence
from kernel.model.node_kinds import UNDERSTANDING
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.model.stated_receipts import RecomputeRequested
from kernel.values.canonical import digest
from kernel.values.errors import KernelError, LedgerUnavailable
from workers.use_cases.queue_operations import Write

_US_PER_HOUR = 3600 * 1_000_000

"""Runs one unit in the next commit; raises what it raised."""


class FencedWrite(Protocol):
    """Runs one unit in the next commit, under a fence where there is one."""

    def __call__(self, unit: Unit, fence: Fence | None = None) -> Awaitable[Any]:
        """Return its result; raises what it raised, and `StaleEpoch`."""


_log = structlog.get_logger(__name__)


class SweepRefused(KernelError):
    """The kernel refused a page; those before it are on the record."""


class SweepPutOff(SweepRefused):
    """The kernel puts a page off, as the emergency throttle does; run again, the sweep goes on."""

    code = "authority_sweep_put_off"


class SweepDocument(TypedDict):
    """What a sweep has asked for."""

    trigger_source_id: str
    requested: int
    operations: int


@dataclass(slots=True)
class SweepResult:
    """The counts of a sweep so far."""

    trigger_source_id: str
    requested: int = 0
    operation_ids: list[str] = field(default_factory=list)

    def add(self, result: SubmissionResult) -> None:
        """Count a page that is on the record."""
        if not result.duplicate:
            kinds = [receipt["receipt_kind"] for receipt in result.emitted_receipts]
            self.requested += kinds.count("authority_recompute_request")
            self.operation_ids.append(result.operation_id)

    def document(self) -> SweepDocument:
        """Return it as it leaves the process."""
        return {
            "trigger_source_id": self.trigger_source_id,
            "requested": self.requested,
            "operations": len(self.operation_ids),
        }


@dataclass(frozen=True, slots=True)
class Sweep:
    """A kind of sweep: what is due, under whose name it is asked for, and as what."""

    is_due: Callable[[LedgerView, Document], bool]
    trigger_kind: str
    trigger_source_id: str

    def pages(self, ledger: Ledger) -> list[RecomputeRequested]:
        """Read what is due and return the pages that ask for it; writes nothing."""
        due: list[str] = []
        after: str | None = None
        while True:
            with ledger.view() as view:
                due_here, after = page_of(view, self.is_due, after)
            due += due_here
            if after is None:
                break
        if not due:
            return []
        with ledger.view() as view:
            return plan_sweep(view, due, self.trigger_kind, self.trigger_source_id)

    def unit(self, page: RecomputeRequested) -> IntentUnit:
        """Return the unit that records a page; the same page is recorded once."""
        actor = "migration" if self.trigger_kind == MIGRATION else "system"
        return IntentUnit(_intent(page), None, actor)  # type: ignore[arg-type]


def decay_tick(now_us: int, threshold_hours: int) -> Sweep:
    """Return the tick of a day: once across a fleet, however often it is run (T3)."""
    tick = NightlyTick(now_us, threshold_hours * _US_PER_HOUR, BetaPosteriorMean())
    return Sweep(tick.is_due, DECAY_TICK, tick_source(now_us))


def backfill() -> Sweep:
    """Return the sweep over every understanding without an authority (T7)."""
    return Sweep(lacks_authority, MIGRATION, BACKFILL)


async def run_sweep(sweep: Sweep, ledger: Ledger, write: Write) -> SweepResult:
    """Ask for everything that is due; durable when it returns, page by page before.

    Raises:
        SweepPutOff: when the kernel puts a page off.
        SweepRefused: when the kernel refused a page.
    """
    result = SweepResult(sweep.trigger_source_id)
    for page in await anyio.to_thread.run_sync(sweep.pages, ledger):
        result.add(expect_accepted(await write(sweep.unit(page))))
    return result


def expect_accepted(result: Any) -> SubmissionResult:
    """Return a result that is on the record.

    Raises:
        SweepPutOff: for one that may be on the record later.
        SweepRefused: for any other.
    """
    if isinstance(result, SubmissionResult):
        return result
    if isinstance(result, RejectedResult):
        rejection = result.rejection
        if rejection.retry_after_s is not None:
            raise SweepPutOff(rejection.message)
        raise SweepRefused(rejection.message, code=rejection.reason_code)
    raise result


def backfill_progress(ledger: Ledger) -> BackfillProgress:
    """Count how many understandings have an authority, and how many are asked for."""
    progress = BackfillProgress(0, 0, 0)
    after: str | None = None
    while True:
        with ledger.view() as view:
            nodes = view.nodes_of_kind(UNDERSTANDING, after=after, limit=PAGE_NODES)
            progress = progress.plus(view, nodes)
        if len(nodes) < PAGE_NODES:
            return progress
        after = nodes[-1]["node_id"]


class DeferredCascades:
    """Writes down the cascades that were too wide for their trigger; run `run` in a task group.

    What was recorded of one survives with its request, which stays open until its last page. Where
    gateways share a ledger, one of them does it, and its pages are committed under its fence.
    """

    def __init__(
        self, ledger: Ledger, write: FencedWrite, lease: SessionLease | None = None
    ) -> None:
        """Without a lease, nobody else does it for this ledger."""
        self._ledger = ledger
        self._write = write
        self._lease = lease
        self._wake = WakeSignal()

    def notify(self) -> None:
        """Wake the sweeps after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Write down what is deferred until cancelled; what fails is tried again later."""
        while True:
            try:
                await self.write_down()
            except StaleEpoch:
                _log.warning("cascades_lost")
            except (ActorError, SweepRefused, LedgerUnavailable) as error:
                # Another gateway may have been faster: the record tells at the next look.
                _log.warning("cascade_waits", code=getattr(error, "code", "internal"))
            await self._wake.next_look()

    async def write_down(self) -> int:
        """Write down every deferred cascade, the oldest first; return how many pages it took.

        Nothing is written down where another gateway does it.

        Raises:
            StaleEpoch: another gateway does it from now on.
        """
        count = 0
        while True:
            fence = None if self._lease is None else self._lease.fence
            if fence is None and self._lease is not None:
                return count
            pages = await anyio.to_thread.run_sync(self._plan)
            if not pages:
                return count
            for page in pages:
                await self._record(page, fence)
            count += len(pages)

    async def _record(self, page: RecomputeRequested, fence: Fence | None) -> None:
        try:
            expect_accepted(await self._write(IntentUnit(_intent(page), None, "system"), fence))
        except StaleEpoch:
            if self._lease is not None and fence is not None:
                self._lease.lose(fence)
            raise

    def _plan(self) -> list[RecomputeRequested]:
        with self._ledger.view() as view:
            waiting = view.open_requests_of(CASCADE_QUEUE, CASCADES)
            return plan_deferred(view, waiting[0]) if waiting else []


def _intent(page: RecomputeRequested) -> EnqueueRecompute:
    return EnqueueRecompute(intent_key=digest(page.model_dump()), asked_for=page)
