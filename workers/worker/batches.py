"""Drains a batch of any queue: hands it to the handler of the queue and settles each claim.

A handler knows what an item is; this module knows what a claim is. Each claim ends in one of four
ways: the item leaves the queue, it is put off or suspended (which counts as no attempt), or it
failed. A failed item is tried again after a growing pause until its attempts are used up, and is
then recorded as a dead letter. An item leaves the queue only when the record no longer asks for it.

An item with which its worker ended `ENDS_MAX` times (decision queues/0041) is a dead letter,
`worker_ended_three_times`; the next worker records that before it begins anything. A process works
on one suspect at a time, whatever its slots: another slot waits and puts its suspect off, so that
the end of the process counts against one item. After a worker was killed, what it held is therefore
done one by one in each process. An item that kills for the first time while a sound suspect is in
hand charges that one an end; it takes three such items to set a sound one aside.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import anyio
import anyio.to_thread
import structlog

from kernel.ledger.ledger import Ledger
from kernel.values.errors import LedgerUnavailable
from kernel.values.fleet_protocol import is_spoken
from kernel.values.priorities import CapacityPriority
from queues.errors import QueueError
from queues.queue.items import Claim
from queues.queue.retries import ENDS_MAX, MAX_ATTEMPTS, backoff_ms
from queues.queue.work_queue import WorkQueue
from workers.client.errors import GatewayError
from workers.worker.batch_progress import progressed
from workers.worker.gateway_reports import NO_ROOM, GatewayReporter, Outcome

ABSENCE_DELAY_MS = 500
INPUT_PENDING_DELAY_MS = 20

REQUEST_UNKNOWN = "work_request_unknown"
"""The code of an item that leaves the queue because the record has no such request."""

ITEMS_NAMED = 20
"""Of items that are dropped at once, as many are named in the log."""

CAPACITY_SHORT = "envelope_capacity_unavailable"
"""Refusals that another attempt may not meet, although the kernel names no time (§18)."""

ENDED_ITS_WORKERS = "worker_ended_three_times"
"""The error of an item that ended a worker `ENDS_MAX` times while nothing else was begun."""

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
    verdict: Literal["done", "put_off", "suspended", "failed"]
    code: str = ""
    delay_ms: int = ABSENCE_DELAY_MS
    """The delay of an item that is put off."""

    final: bool = False
    """Whether it failed and trying again would change nothing."""


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

    async def give_up(self, claim: Claim, code: str) -> None:
        """Record the item's requests as dead letters; raises `GatewayError`."""


class BatchObserver(Protocol):
    """A listener of batches, for traces."""

    def settled(self, queue: str, settled: Sequence[ClaimResult], claimed_ns: int) -> None:
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
    ) -> None:
        """`alone` is shared by the drainers of a process; its holder works on a suspect."""
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
            settled = [
                ClaimResult(claim, "failed", code, final=True)
                for claim in claims
                if (code := _worn_out(claim))
            ]
            fresh = [claim for claim in claims if not _worn_out(claim)]
            if strange := [claim for claim in fresh if not is_spoken(claim.payload)]:
                _log.error("protocol_differs", queue=self.queue.name, items=len(strange))
                settled += [ClaimResult(claim, "put_off", "protocol_differs") for claim in strange]
                fresh = [claim for claim in fresh if is_spoken(claim.payload)]
            for suspect in [claim for claim in fresh if claim.ends is not None]:
                settled += await self._handle_alone(suspect)
                progressed()
            settled += await self._handle([claim for claim in fresh if claim.ends is None])
            settled_keys = {result.claim.key for result in settled}
            settled += [
                ClaimResult(claim, "put_off", "not_settled")
                for claim in fresh
                if claim.key not in settled_keys
            ]
            await self._settle(settled)
            if self._observer is not None:
                self._observer.settled(self.queue.name, settled, claimed_ns)
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
                    progressed()
                return results
            _log.exception("item_failed", queue=self.queue.name, item_key=claims[0].key)
            return [ClaimResult(claims[0], "failed", str(getattr(error, "code", "internal")))]

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
        for code, failed in _by_code(settled, "failed").items():
            self.tally.failed += len(failed)
            self.tally.last_error = code
            given_up = [
                result for result in failed if result.final or result.claim.attempt >= MAX_ATTEMPTS
            ]
            again = [result.claim for result in failed if result not in given_up]
            delays = [backoff_ms(claim.attempt, self._random_unit()) for claim in again]
            if again:
                await self.queue.retry(again, delays, code)
            for result in given_up:
                await self._bury(result.claim, code)

    def _spread(self, result: ClaimResult) -> int:
        """Spread a pause between half and one and a half of it: a fleet must not return as one."""
        if result.delay_ms != ABSENCE_DELAY_MS:
            return result.delay_ms
        return int(result.delay_ms * (0.5 + self._random_unit()))

    async def _bury(self, claim: Claim, code: str) -> None:
        """Record first, then leave the queue: an item that is lost in between comes back."""
        if not await self._record_dead_letter(claim, code):
            await self.queue.retry([claim], [backoff_ms(claim.attempt, 1.0)], code)
            return
        _log.error("item_dead_lettered", item_key=claim.key, error_signature=code)
        await self.queue.bury([claim])
        self.tally.dead_letters += 1

    async def _record_dead_letter(self, claim: Claim, code: str) -> bool:
        if not await self.ready():
            return False
        try:
            await self._handler.give_up(claim, code)
        except GatewayError as error:
            _log.warning("dead_letter_not_recorded", item_key=claim.key, code=error.code)
            return False
        return True


def _worn_out(claim: Claim) -> str:
    """Return why an item is not tried any more, or ""."""
    if (claim.ends or 0) >= ENDS_MAX:
        return ENDED_ITS_WORKERS
    return "attempts_exhausted" if claim.attempt > MAX_ATTEMPTS else ""


async def left_out(ledger: Ledger, claims: Sequence[Claim]) -> list[ClaimResult]:
    """Let claims leave the queue for whose requests nothing is open; some may not be on record."""
    if not claims:
        return []
    names = [claim.key for claim in claims]
    unknown = await anyio.to_thread.run_sync(ledger.read, lambda view: view.unknown_requests(names))
    codes = [REQUEST_UNKNOWN if name in unknown else "" for name in names]
    return [ClaimResult(claim, "done", code) for claim, code in zip(claims, codes, strict=True)]


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
