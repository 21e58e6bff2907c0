"""Drains a batch of any queue: hands it to the handler of the queue and settles each claim.

A handler knows what an item is; this module knows what a claim is. Each claim ends in one of four
ways: the item leaves the queue, it is put off or suspended (which counts as no attempt), or it
failed or asked for a pause. The latter two are reported with the batch, and the gateway decides by
the policy of the queue whether the item is tried again, and when, or is a dead letter (decision
kernel/0680). An item leaves the queue only when the record no longer asks for it.

Whoever claims an item whose worker is gone reports that first. An item with which three workers
ended (decision queues/0041) is a dead letter then, `worker_ended_three_times`. A process works
on one suspect at a time, whatever its slots: another slot waits and puts its suspect off, so that
the end of the process counts against one item. After a worker was killed, what it held is therefore
done one by one in each process. An item that kills for the first time while a sound suspect is in
hand charges that one an end; it takes three such items to set a sound one aside.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.ledger import Ledger
from kernel.values.errors import LedgerUnavailable
from kernel.values.fleet_protocol import is_spoken
from kernel.values.priorities import CapacityPriority
from kernel.work.attempts import AttemptReport
from kernel.work.reports import (
    JOINED_MAX,
    AttemptError,
    AttemptFailed,
    AttemptSnoozed,
    WorkerLost,
)
from kernel.work.retry_policy import (
    DEFAULT_POLICY,
    ENDED_ITS_WORKERS,
    PAUSE_MS_MAX,
    SNOOZES_EXHAUSTED,
    RetryPolicy,
    pause_ms,
)
from queues.errors import QueueError
from queues.queue.items import Claim, claimed_us
from queues.queue.work_queue import WorkQueue
from workers.worker.attempts import (
    ErrorTexts,
    delivery_of,
    error_of_code,
    expired_delivery,
    log_fields,
)
from workers.worker.batch_progress import note_progress
from workers.worker.gateway_reports import NO_ROOM, REPORTS_PATH, GatewayReporter, Outcome

ABSENCE_DELAY_MS = 500
INPUT_PENDING_DELAY_MS = 20

REQUEST_UNKNOWN = "work_request_unknown"
"""The code of an item that leaves the queue because the record has no such request."""

ITEMS_NAMED = 20
"""Of items that are dropped at once, as many are named in the log."""

CAPACITY_SHORT = "envelope_capacity_unavailable"
"""Refusals that another attempt may not meet, although the kernel names no time (§18)."""

SNOOZED = "snoozed"
"""Why an item waits that asked for a pause itself."""

ALONE_WAIT_S = 0.2
"""How long a slot waits until no other slot of its process has a suspect in hand."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class BatchCounters:
    """Counts of a drainer since it started."""

    completed: int = 0
    failed: int = 0
    put_off: int = 0
    dropped: int = 0
    dead_letters: int = 0
    in_flight: int = 0
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The verdict with which one claim ends, and its reason code."""

    claim: Claim
    verdict: Literal["done", "put_off", "suspended", "snoozed", "failed", "buried"]
    code: str = ""
    delay_ms: int = ABSENCE_DELAY_MS
    """The delay of an item that is put off, or asked for a pause."""

    final: bool = False
    """Whether it failed and trying again would change nothing."""

    error: AttemptError | None = None
    """Why it failed, where an error tells of it."""

    ended_us: int | None = None
    """When it failed, where that was before its batch was settled."""


class Handler(Protocol):
    """Works on the items of one queue."""

    claim_items: int = 64
    """How many of them a slot takes in hand at once."""

    async def handle(self, claims: Sequence[Claim]) -> list[ClaimResult]:
        """Work on a batch and return how each claim ends; a claim that is left out is put off.

        May be cancelled, and may be given the same item again.
        """

    async def least_capacity(self) -> CapacityPriority:
        """Return the least capacity priority of which it could work on something now."""
        return "background"

    async def renew(self) -> None:
        """Keep the leases of the batches in hand; called as often as claims are renewed."""
        return

    async def requests_of(self, claim: Claim) -> Sequence[str]:
        """Return the requests that the claim was for, the oldest first; none where none is open."""
        return [claim.key]


class BatchObserver(Protocol):
    """A listener of batches, for traces."""

    def note_settled(self, queue: str, settled: Sequence[ClaimResult], claimed_ns: int) -> None:
        """Called when a batch is settled; `claimed_ns` is when it was claimed."""


class BatchProcessor:
    """Serves one queue by its handler."""

    def __init__(
        self,
        queue: WorkQueue,
        handler: Handler,
        reporter: GatewayReporter,
        random_unit: Callable[[], float],
        observer: BatchObserver | None = None,
        alone: anyio.Lock | None = None,
        policy: RetryPolicy = DEFAULT_POLICY,
        texts: ErrorTexts | None = None,
    ) -> None:
        """`alone` is shared by the drainers of a process; its holder works on a suspect."""
        self._policy = policy
        self._texts = texts or ErrorTexts()
        self._worker_id = self._texts.worker_id
        self._observer = observer
        self._alone = anyio.Lock() if alone is None else alone
        self.queue = queue
        self.tally = BatchCounters()
        self._handler = handler
        self._reporter = reporter
        self._random_unit = random_unit

    @property
    def claim_items(self) -> int:
        """How many items a slot claims at once."""
        return self._handler.claim_items

    async def ready(self) -> bool:
        """Tell whether claiming makes sense: there is a gateway that takes reports."""
        return await self._reporter.ready()

    async def least_capacity(self) -> CapacityPriority:
        """Return the least capacity priority that is worth a claim now, beside the slot's own."""
        return await self._handler.least_capacity()

    async def renew(self, claims: Sequence[Claim], visibility_ms: int) -> None:
        """Keep claims hidden, and the leases that their handler holds for them."""
        await self.queue.renew(claims, visibility_ms)
        await self._handler.renew()

    async def drain(self, claims: Sequence[Claim]) -> bool:
        """Serve claims, each settled before returning; tell whether anything left the queue.

        Raises:
            QueueError: when Redis is away; what was not settled comes back by itself.
        """
        self.tally.in_flight += len(claims)
        claimed_ns = 0 if self._observer is None else time.time_ns()
        try:
            settled, fresh = list[ClaimResult](), claims
            if strange := [claim for claim in fresh if not is_spoken(claim.payload)]:
                _log.error("protocol_differs", queue=self.queue.name, items=len(strange))
                settled += [ClaimResult(claim, "put_off", "protocol_differs") for claim in strange]
                fresh = [claim for claim in fresh if is_spoken(claim.payload)]
            for suspect in [claim for claim in fresh if claim.ends is not None]:
                settled += await self._handle_alone(suspect)
                note_progress()
            settled += await self._handle([claim for claim in fresh if claim.ends is None])
            settled_keys = {result.claim.key for result in settled}
            settled += [
                ClaimResult(claim, "put_off", "not_settled")
                for claim in fresh
                if claim.key not in settled_keys
            ]
            await self._settle(settled)
            if self._observer is not None:
                self._observer.note_settled(self.queue.name, settled, claimed_ns)
        finally:
            self.tally.in_flight -= len(claims)
        return any(result.verdict == "done" or result.final for result in settled)

    async def _handle_alone(self, suspect: Claim) -> list[ClaimResult]:
        """Work on an item with which a worker ended before, beside no other such item.

        The queue marks it before, so that the end of this process counts against this item and
        against none of those that its slots hold and have not begun.
        """
        with anyio.move_on_after(ALONE_WAIT_S) as waiting:
            await self._alone.acquire()
        if waiting.cancelled_caught:
            return [ClaimResult(suspect, "put_off", "another_suspect_in_hand")]
        try:
            if suspect.lost and (ended := await self._report_lost(suspect)) is not None:
                return ended
            if not all(await self.queue.begin([suspect])):
                return []  # Somebody else has it.
            return await self._handle([suspect])
        finally:
            self._alone.release()

    async def _handle(self, claims: Sequence[Claim]) -> list[ClaimResult]:
        if not claims:
            return []
        try:
            return await self._handler.handle(claims)
        except LedgerUnavailable as error:
            return [ClaimResult(claim, "put_off", error.code) for claim in claims]
        except (QueueError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - a defect fails the item that it is met with
            if len(claims) > 1:
                # What of the batch is recorded already is closed, and found so.
                results: list[ClaimResult] = []
                for claim in claims:
                    results += await self._handle([claim])
                    note_progress()
                return results
            [claim], code = claims, str(getattr(error, "code", "internal"))
            described = await self._texts.of(error, code)
            _log.error("item_failed", **self._claim_fields(claim), **log_fields(described))
            return [failed_claim(claim, described)]

    async def _settle(self, settled: Sequence[ClaimResult]) -> None:
        done = [result.claim for result in settled if result.verdict == "done"]
        unknown = [result for result in settled if result.code == REQUEST_UNKNOWN]
        if done:
            await self.queue.acknowledge(done)
            self.tally.completed += len(done) - len(unknown)
            self.tally.dropped += len(unknown)
        if unknown:
            # As after a ledger went back; the queue had them from what was there before.
            items = [result.claim.key for result in unknown[:ITEMS_NAMED]]
            queue, count = self.queue.name, len(unknown)
            _log.warning(
                "items_dropped", code=REQUEST_UNKNOWN, queue=queue, count=count, items=items
            )
        # In the order in which the handler tells of them.
        await self.queue.suspend(
            [result.claim for result in settled if result.verdict == "suspended"]
        )
        for code, put_off in _by_code(settled, "put_off").items():
            claims = [result.claim for result in put_off]
            await self.queue.put_off(claims, [self._spread(result) for result in put_off], code)
            self.tally.put_off += len(claims)
        unsuccessful = [result for result in settled if result.verdict in ("failed", "snoozed")]
        if unsuccessful:
            await self._settle_attempts(unsuccessful)

    async def _settle_attempts(self, results: Sequence[ClaimResult]) -> None:
        """Report what failed or asked for a pause, and let the items wait or go accordingly."""
        reports, reported, closed = [], list[ClaimResult](), list[Claim]()
        for result in results:
            try:
                request_ids = await self._handler.requests_of(result.claim)
            except LedgerUnavailable as error:
                await self.queue.put_off([result.claim], [ABSENCE_DELAY_MS], error.code)
                continue
            if request_ids:
                reports.append(self._report_of(result, request_ids))
                reported.append(result)
            else:
                closed.append(result.claim)
            if result.verdict == "failed":
                self.tally.failed += 1
                self.tally.last_error = result.code
        outcomes = await self._report(reports, [result.claim for result in reported])
        waiting: dict[tuple[str, bool], list[tuple[Claim, int]]] = {}
        for result, outcome in zip(reported, outcomes, strict=True):
            claim, state = result.claim, outcome["outcome"]
            if state == "waits":
                pause = claim, int(outcome["pause_ms"])
                waiting.setdefault((result.code, result.verdict == "failed"), []).append(pause)
            elif state == "completed":
                is_snooze = result.verdict == "snoozed"
                await self._bury(claim, SNOOZES_EXHAUSTED if is_snooze else result.code)
            elif state in ("closed", "unknown"):
                closed.append(claim)
            else:
                await self._let_wait_unreported(claim, outcome)
        for (code, is_attempt), pauses in waiting.items():
            let_wait = self.queue.retry if is_attempt else self.queue.put_off
            await let_wait([claim for claim, _ in pauses], [ms for _, ms in pauses], code)
        await self.queue.acknowledge(closed)

    def _report_of(self, result: ClaimResult, request_ids: Sequence[str]) -> AttemptReport:
        first, *joined = request_ids
        shared: dict[str, Any] = {
            "request_id": first,
            "joined": tuple(joined[:JOINED_MAX]),
            "policy": self._policy,
            "delivery": delivery_of(result.claim, self._worker_id, result.ended_us or now_us()),
        }
        if result.verdict == "snoozed":
            return AttemptSnoozed(**shared, pause_ms=min(result.delay_ms, PAUSE_MS_MAX))
        error = result.error or error_of_code(result.code or "internal")
        return AttemptFailed(
            **shared, error=error, random_unit=self._random_unit(), final=result.final
        )

    async def _report_lost(self, claim: Claim) -> list[ClaimResult] | None:
        """Report that the worker is gone that had an item before; None where it is worked on."""
        try:
            request_ids = await self._handler.requests_of(claim)
        except LedgerUnavailable as error:
            return [ClaimResult(claim, "put_off", error.code)]
        if not request_ids:
            return None  # Its handler finds nothing open, either.
        first, *joined = request_ids
        report = WorkerLost(
            request_id=first,
            joined=tuple(joined[:JOINED_MAX]),
            policy=self._policy,
            delivery=expired_delivery(claim, now_us()),
            worker_ends=claim.ends or 0,
        )
        [outcome] = await self._report([report], [claim])
        if outcome["outcome"] == "completed":
            self.tally.failed += 1
            self.tally.last_error = ENDED_ITS_WORKERS
            await self._bury(claim, ENDED_ITS_WORKERS)
            return [ClaimResult(claim, "buried", ENDED_ITS_WORKERS, final=True)]
        is_reported = outcome["outcome"] in ("waits", "closed", "unknown")
        return None if is_reported else [ClaimResult(claim, "put_off", str(outcome.get("code")))]

    async def _report(
        self, reports: Sequence[AttemptReport], claims: Sequence[Claim]
    ) -> list[Outcome]:
        shared = {"queue": self.queue.name}
        bodies = [report.model_dump(mode="json") for report in reports]
        return await self._reporter.batch(REPORTS_PATH, "reports", bodies, shared, claims)

    async def _let_wait_unreported(self, claim: Claim, outcome: Outcome) -> None:
        """Let an item wait whose failure could not be recorded; longer where that is its own."""
        code = str(outcome.get("code", "internal"))
        if outcome["outcome"] == "absent" or code in NO_ROOM:
            await self.queue.put_off([claim], [self._spread_ms(ABSENCE_DELAY_MS)], code)
            return
        _log.warning("attempt_not_recorded", code=code, **self._claim_fields(claim))
        pause = pause_ms(self._policy, claim.attempt, self._random_unit())
        await self.queue.retry([claim], [pause], code)

    def _spread(self, result: ClaimResult) -> int:
        if result.delay_ms != ABSENCE_DELAY_MS:
            return result.delay_ms
        return self._spread_ms(result.delay_ms)

    def _spread_ms(self, delay_ms: int) -> int:
        """Spread a pause between half and one and a half of it: a fleet must not return as one."""
        return int(delay_ms * (0.5 + self._random_unit()))

    async def _bury(self, claim: Claim, code: str) -> None:
        """Let an item leave the queue that is a dead letter on the record."""
        _log.error("item_dead_lettered", error_signature=code, **self._claim_fields(claim))
        await self.queue.bury([claim])
        self.tally.dead_letters += 1

    def _claim_fields(self, claim: Claim) -> dict[str, Any]:
        """Return what each line about a claim says of it."""
        return {
            "queue": self.queue.name,
            "item_key": claim.key,
            "attempt": claim.attempt,
            "worker": self._worker_id,
        }


def attempt_fields(claim: Claim, worker_id: str, ended_us: int) -> dict[str, Any]:
    """Return how long a claim of this worker's took that came to something, and whose it was."""
    return {
        "took_ms": (ended_us - claimed_us(claim.token, ended_us)) // 1000,
        "worker": worker_id,
    }


def now_us() -> int:
    """Return the time of this machine, in microseconds since 1970."""
    return time.time_ns() // 1000


async def leave_closed(ledger: Ledger, claims: Sequence[Claim]) -> list[ClaimResult]:
    """Let claims leave the queue for whose requests nothing is open; some may not be on record."""
    if not claims:
        return []
    names = [claim.key for claim in claims]
    unknown = await anyio.to_thread.run_sync(ledger.read, lambda view: view.unknown_requests(names))
    codes = [REQUEST_UNKNOWN if name in unknown else "" for name in names]
    return [ClaimResult(claim, "done", code) for claim, code in zip(claims, codes, strict=True)]


def failed_claim(claim: Claim, error: AttemptError, *, final: bool = False) -> ClaimResult:
    """Return how a claim ends that fails now."""
    return ClaimResult(claim, "failed", error.code, final=final, error=error, ended_us=now_us())


def settlement_of(claim: Claim, outcome: Outcome, *, rejection_is_final: bool) -> ClaimResult:
    """Return how a claim ends whose result was handed in."""
    state = outcome["outcome"]
    if state == "unknown":
        return ClaimResult(claim, "done", REQUEST_UNKNOWN)
    if state in ("completed", "closed"):
        return ClaimResult(claim, "done")
    code = str(outcome.get("code", "internal" if state == "failed" else state))
    if state in ("input_pending", "changed"):
        return ClaimResult(claim, "put_off", state, INPUT_PENDING_DELAY_MS)
    if state == "absent" or code in NO_ROOM:
        return ClaimResult(claim, "put_off", code)
    if outcome.get("retry_after_s") is not None:
        return ClaimResult(claim, "put_off", code, 1000 * int(outcome["retry_after_s"]))
    final = rejection_is_final and state == "rejected" and code != CAPACITY_SHORT
    return ClaimResult(claim, "failed", code, final=final)


def _by_code(settled: Sequence[ClaimResult], verdict: str) -> dict[str, list[ClaimResult]]:
    by_code: dict[str, list[ClaimResult]] = {}
    for result in settled:
        if result.verdict == verdict:
            by_code.setdefault(result.code, []).append(result)
    return by_code
