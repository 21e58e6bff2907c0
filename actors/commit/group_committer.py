"""Commits in groups: what the actors submit while one batch is being written is the next batch.

An idle committer commits at once; a busy one collects whatever waits, up to a limit. A unit that
fails is undone alone; one that fails the whole transaction is found by halving, refused on the
record, and left out. Nobody is answered before COMMIT has returned (the output gate). When COMMIT
itself failed the outcome is unknown and is looked up, never guessed (K25); when it cannot be looked
up for half a minute, or the disk failed, the process ends and recovers. Operations that a failed
COMMIT has undone get a durable receipt each, `envelope_commit_rolled_back`, if the ledger can still
be written (§2.3); their authors may send them again.

On PostgreSQL a batch is computed on a snapshot, and the head is held only while it is written; a
batch beside which others have written is computed again (decision kernel/0255), at last with the
head held, and in halves where that would be for long (decision actors/0099). The next batch is
computed when this one is durable, not while it is written (decision kernel/0300, measured by stage
in decision kernel/0450).

When another writer has not given the head up in time, everybody who waits behind the batch is
answered like it: the next batch would wait as long again (decision actors/0098).

Units for a shard come with its fence, which is compared with the ledger inside the transaction
(decision actors/0020). When the shard has changed hands, they fail with `stale_epoch`, and only
they.

Urgent units wait for the batch that is being written and for no other: they are first in the next
one, and a batch has as many units as the last ones wrote in a quarter of a second (decision
actors/0042).
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import anyio
import anyio.to_thread
import structlog

from actors.commit.batch import (
    BatchPart,
    Outcomes,
    Waiting,
    anchor,
    answer_all,
    fail_unsettled,
    halve,
    run_units,
    split_failed,
    units_of,
    whole,
)
from actors.commit.belief_units import BeliefUnit
from actors.commit.priority_lanes import PriorityLanes
from actors.commit.reading_ahead import HintFailed, ReadingAhead
from actors.commit.unit_context import CommitContext
from actors.commit.units import ConsumedUnit, EnvelopeUnit, IntentUnit, Unit, stale
from actors.errors import ActorFailed, CommitFailed, MailboxFull, RecordWentBack
from actors.orchestrator.orchestrator import Orchestrator
from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.ledger import Head, Ledger, LedgerTransaction
from kernel.ledger.receipts import append_receipt
from kernel.ledger.recorded import Recorded
from kernel.ledger.shards import Fence, holds, rows_while_held
from kernel.ledger.store.tables import Expected, HeadMoved, Questions
from kernel.model.receipt import Receipt
from kernel.model.result import SubmissionResult
from kernel.records.active_bindings import note_commit
from kernel.simulate.operation import SimulationResult
from kernel.transaction.kernel import Kernel
from kernel.values.errors import OF_THE_LEDGER, CommitOutcomeUnknown, LedgerHeld, LedgerUnavailable

BATCH_MAX_UNITS = 256
LOOK_UP_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Pauses between looks for a COMMIT whose answer was lost: a restarting server takes its time."""

COMPUTED_MAX = 2
"""How often a batch is computed beside other writers before the head is held meanwhile."""

HELD_S = 0.5
"""How long the head may be held for what is computed meanwhile; what takes longer is halved."""

_Begin = Callable[
    [Callable[[], Sequence[Expected]], Callable[[], Questions]],
    AbstractContextManager[LedgerTransaction],
]
"""Opens a transaction. Where the head is locked late, rows must then be as the first function says,
and the answers to the second's questions come with the snapshot."""

_QUIET = (BeliefUnit, ConsumedUnit)

_UNHINTED_ALONE = (BeliefUnit, IntentUnit)
"""Units for which a hint costs more than it saves where each is the only one of its batch, and a
question to the store costs no round trip."""

ROLLED_BACK = "envelope_commit_rolled_back"
WAITING_MAX = 1024
URGENT_MAX = 256

BATCH_S = 0.25
"""How long a batch should take at most, because urgent units wait for it."""

BATCH_UNITS_LEAST = 32
"""Units that a batch may always have: below, the cost of a commit outweighs that of its units."""

_ASK_AGAIN = "nothing was committed; ask again"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """One transaction that has ended, for metrics."""

    units: int
    seconds: float
    durable: bool
    results: list[Any]
    """The result of every unit whose outcome is durable."""

    ended: Sequence[tuple[str, int]]
    """The requests that it has ended; see `Recorded.ended`."""


class Committer:
    """The one writer of this process; run `run` in a task group."""

    def __init__(
        self,
        ledger: Ledger,
        kernel: Kernel,
        orchestrator: Orchestrator,
        *,
        batch_max_units: int = BATCH_MAX_UNITS,
        committed: Callable[[Recorded], None] = lambda _: None,
        measured: Callable[[CommittedTransaction], None] = lambda _: None,
    ) -> None:
        self._ledger = ledger
        self._kernel = kernel
        self._orchestrator = orchestrator
        self._batch_max_units = batch_max_units
        self._committed = committed
        """Called on the event loop with what a durable batch has put on the record, so that those
        alone are woken who follow that; not for what has only recorded belief events, which ask for
        no work and end none."""

        self._measured = measured
        """Called on the event loop after each batch, when everybody has been answered."""

        self._lanes = PriorityLanes[Waiting](WAITING_MAX, URGENT_MAX)
        self._unit_s = 0.0
        """How long a unit took of late; 0 while that is not known."""

        self._computed_s = 0.0
        """How long the last computation took, written or not."""

        self._unwritten_since_s: float | None = None
        """When the first batch began since the last one that was committed."""

    @property
    def waiting(self) -> int:
        """How many callers wait for the next batch."""
        return self._lanes.waiting

    @property
    def ledger(self) -> Ledger:
        """The ledger to which it commits."""
        return self._ledger

    @property
    def stalled_s(self) -> float:
        """For how long nothing could be committed; 0 while nobody asked since the last commit."""
        since_s = self._unwritten_since_s
        return 0.0 if since_s is None else time.perf_counter() - since_s

    @property
    def batch_units(self) -> int:
        """How many units the next batch has at most, but for those of its last caller."""
        if not self._unit_s:
            return self._batch_max_units
        in_time = max(BATCH_UNITS_LEAST, int(BATCH_S / self._unit_s))
        return min(self._batch_max_units, in_time)

    async def commit(
        self, units: Sequence[Unit], fence: Fence | None = None, *, urgent: bool = False
    ) -> list[Any]:
        """Run units in order in one transaction and return their results once it is durable.

        A unit that failed has its exception as its result, `RequestUnprocessable` where it fails
        whoever carries it out. A caller that is cancelled does not
        learn the outcome; the units may be on the record. `urgent` ones are in the next batch.

        Raises:
            MailboxFull: too much that is urgent waits; nothing was taken.
            StaleEpoch: the fence is not held any more; the record tells whether some was written.
            CommitFailed: nothing was written; the same may be asked again.
            ActorFailed: the ledger failed in between; the record tells the outcome.
        """
        waiting = Waiting(units, fence)
        try:
            if urgent:
                self._lanes.put_urgent(waiting)
            else:
                await self._lanes.put(waiting)
        except anyio.WouldBlock:
            raise MailboxFull("too much that is urgent waits") from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise CommitFailed("the committer has stopped") from None
        await waiting.done.wait()
        if waiting.error is not None:
            raise waiting.error
        return waiting.results or []

    async def probe(self) -> bool:
        """Commit nothing, behind what waits, and tell whether that could be done."""
        try:
            await self.commit(())
        except (CommitFailed, ActorFailed):
            return False
        return True

    async def confirm(self, fence: Fence | None) -> None:
        """Return if a fence is still held, so that what is known under it is up to date.

        Raises:
            StaleEpoch: it is not held any more.
            CommitFailed: the ledger cannot be read; the same may be asked again.
        """
        if fence is None:
            return
        try:
            is_held = await anyio.to_thread.run_sync(
                self._ledger.read, lambda view: holds(view, fence)
            )
        except LedgerUnavailable as error:
            raise ledger_away(error, "the ledger cannot be read; ask again") from error
        if not is_held:
            raise stale(fence)

    async def run(self) -> None:
        """Write batches until cancelled; a batch that is being written is finished first.

        Raises:
            Exception: when the ledger can no longer be trusted; the process must end.
        """
        # A thread of its own: a commit waits behind no reader.
        thread = anyio.CapacityLimiter(1)
        try:
            while True:
                batch = await self._lanes.take(self.batch_units, _size)
                await self._commit_batch(batch, thread)
        finally:
            # Whoever still waits was never begun, and nobody may wait for a committer that is gone.
            answer_all(self._lanes.close(), CommitFailed("the committer has stopped"))

    async def _commit_batch(self, batch: list[Waiting], thread: anyio.CapacityLimiter) -> None:
        began_s = time.perf_counter()
        if self._unwritten_since_s is None:
            self._unwritten_since_s = began_s
        with anyio.CancelScope(shield=True):
            try:
                recorded, is_held = await anyio.to_thread.run_sync(
                    self._write, batch, limiter=thread
                )
            except Exception as error:
                answer_all(batch, ActorFailed(f"the ledger failed: {error}"))
                raise
        if is_held:
            answer_all(self._lanes.take_all(), CommitFailed(_ASK_AGAIN))
        seconds = time.perf_counter() - began_s
        if recorded is not None:
            self._unwritten_since_s = None
        for waiting in batch:
            waiting.done.set()
        units = [unit for waiting in batch for unit in waiting.units]
        if recorded is not None and not all(isinstance(unit, _QUIET) for unit in units):
            _tell(self._committed, recorded)
        results = _each_once(result for waiting in batch for result in waiting.results or ())
        ended = () if recorded is None else recorded.ended
        is_durable = recorded is not None
        _tell(self._measured, CommittedTransaction(len(units), seconds, is_durable, results, ended))

    def _learn(self, units: int, seconds: float) -> None:
        """Learn from how long a batch took; small ones show the cost of a commit, not of a unit."""
        if units >= BATCH_UNITS_LEAST:
            unit_s = seconds / units
            self._unit_s = (self._unit_s + unit_s) / 2 if self._unit_s else unit_s

    def _write(self, batch: list[Waiting]) -> tuple[Recorded | None, bool]:
        """Run on a worker thread, and fill in results or errors.

        Return what is durable, and whether another writer had the head for too long.
        """
        recorded, is_held, to_write = None, False, deque([whole(batch)])
        while to_write:
            parts = to_write.popleft()
            try:
                written = self._write_at_once(parts)
                recorded = written if recorded is None else recorded.then(written)
            except _NotCommitted as error:
                _log.warning("batch_not_committed", error=str(error))
                fail_unsettled(batch, ledger_away(error.__cause__))
                is_held = isinstance(error.__cause__, LedgerHeld)
                break
            except _TooLongToHold:
                to_write.extendleft(reversed(halve(parts)))
            except OF_THE_LEDGER:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, a unit is to blame for it
                units = sum(1 for _ in units_of(parts))
                _log.warning("batch_taken_apart", units=units, error=repr(error))
                to_write.extendleft(reversed(split_failed(parts, error)))
        return recorded, is_held

    def _write_at_once(self, parts: list[BatchPart]) -> Recorded | None:
        """Write parts in one transaction, and settle them.

        Raises:
            _NotCommitted: the ledger cannot be reached; nothing was written.
            _TooLongToHold: others were always faster, and this is too much to hold the head for.
            Exception: likewise; where it is not of the ledger, for what some unit holds.
        """
        for unit in units_of(parts):
            if isinstance(unit, EnvelopeUnit):
                # Read while others may still write; what cannot be read fails where it runs.
                with suppress(Exception):
                    _ = unit.parsed
        first = [*islice(units_of(parts), 2)]
        is_alone = len(first) == 1 and isinstance(first[0], _UNHINTED_ALONE)
        hinted = not (is_alone and self._ledger.is_local)
        try:
            return self._commit_parts(parts, hinted=hinted)
        except HintFailed as error:
            _log.warning("read_ahead_failed", error=repr(error.__cause__))
            return self._commit_parts(parts, hinted=False)

    def _commit_parts(self, parts: list[BatchPart], *, hinted: bool) -> Recorded | None:
        for _ in range(COMPUTED_MAX):
            with suppress(HeadMoved), _no_collection():
                return self._commit_once(parts, self._ledger.optimistic_transaction, hinted=hinted)
        if self._computed_s > HELD_S and len(halve(parts)) > 1:
            raise _TooLongToHold
        # Others are always faster; nobody is while the head is held.
        with _no_collection():
            return self._commit_once(parts, lambda *_: self._ledger.transaction(), hinted=hinted)

    def _commit_once(
        self, parts: list[BatchPart], begin: _Begin, *, hinted: bool
    ) -> Recorded | None:
        """Compute parts, write them in one transaction, and settle them.

        Raises:
            HeadMoved: others have written meanwhile; nothing was written.
            _NotCommitted: the ledger cannot be reached; nothing was written.
        """
        before = head = recorded = None
        outcomes: Outcomes = []
        held: dict[Fence, bool] = {}

        fences = {part.waiting.fence for part in parts if part.waiting.fence is not None}
        ahead = ReadingAhead(self._ledger, fences, parts if hinted else [])

        def still_held() -> list[Expected]:
            return rows_while_held(fence for fence, is_held in held.items() if is_held)

        try:
            with begin(still_held, ahead.questions) as transaction:
                # What it waited for was others' time.
                began_s = time.perf_counter()
                before = transaction.head_now.copy()
                ahead.read(transaction)
                held.update((fence, holds(transaction, fence)) for fence in fences)
                context = CommitContext(transaction, self._kernel, self._orchestrator)
                outcomes += _run_parts(parts, held, context)
                if ahead.is_asked_at_once:
                    ahead.note(transaction)
                head = transaction.head_now
                recorded = Recorded.of(transaction)
                self._computed_s = time.perf_counter() - began_s
            note_commit(transaction)
            units = sum([part.end - part.first for part in parts])
            self._learn(units, time.perf_counter() - began_s)
        except LedgerUnavailable as error:
            raise _NotCommitted(str(error)) from error
        except CommitOutcomeUnknown as error:
            _log.error("commit_outcome_unknown", error=str(error))
            if before is None or head is None or not self._is_on_record(before, head):
                self._record_rolled_back(outcomes)
                raise _NotCommitted("the transaction was not committed") from error
            self._ledger.settle_outcome()
        except Exception as error:
            if before is None and hinted and not isinstance(error, OF_THE_LEDGER):
                raise HintFailed from error
            raise
        for part, outcome in zip(parts, outcomes, strict=True):
            part.settle(outcome)
        return recorded

    def _record_rolled_back(self, outcomes: Outcomes) -> None:
        """Leave a receipt for each operation that was undone; none when that fails as well."""
        results = (
            result for outcome in outcomes if isinstance(outcome, list) for result in outcome
        )
        undone = list(_submissions(_each_once(results)))
        if not undone:
            return
        try:
            with self._ledger.transaction() as transaction:
                transaction.next_commit_time_us()
                for submission in undone:
                    body = {
                        "reason_code": ROLLED_BACK,
                        "undone_ec_sequence_number": str(submission.ec_sequence_number),
                        "undone_row_hash": submission.row_hash,
                    }
                    receipt_id = f"receipt:{transaction.host.new_id()}"
                    append_receipt(
                        transaction, receipt_id, Receipt(ROLLED_BACK, body), submission.operation_id
                    )
        except (LedgerUnavailable, CommitOutcomeUnknown) as error:
            _log.warning("rolled_back_without_receipt", operations=len(undone), error=str(error))

    def _is_on_record(self, before: Head, head: Head) -> bool:
        """Tell whether a batch is there, by the newest row of a chain that it has written.

        Others may have written since. Where it wrote to neither chain, it has found everything
        that it answers on the record.
        """
        for pause_s in LOOK_UP_PAUSES_S:
            try:
                return self._ledger.read(lambda view: view.has_written(before, head))
            except LedgerWentBack as error:
                raise _NotCommitted(str(error)) from error
            except LedgerUnavailable:
                time.sleep(pause_s)
        return self._ledger.read(lambda view: view.has_written(before, head))


def ledger_away(cause: BaseException | None, message: str = _ASK_AGAIN) -> CommitFailed:
    """Return what a caller is told; what went wrong names the database, no caller's business."""
    return (
        RecordWentBack(str(cause)) if isinstance(cause, LedgerWentBack) else CommitFailed(message)
    )


def _size(waiting: Waiting) -> int:
    return len(waiting.units)


class _NotCommitted(Exception):
    """Raised when the ledger could not be reached and nothing of a transaction was written."""


class _TooLongToHold(Exception):
    """Raised when a batch is to be written in parts, so that nobody waits long for the head."""


def _run_parts(
    parts: Iterable[BatchPart], held: Mapping[Fence, bool], context: CommitContext
) -> Outcomes:
    """Run the units of each part whose fence is held; the outcome of the others is an error."""
    outcomes: Outcomes = []
    for part in parts:
        fence = part.waiting.fence
        is_held = fence is None or held[fence]
        outcomes.append(run_units(part, context) if is_held else stale(fence))
    anchor(outcomes, context)
    return outcomes


def _tell(listener: Callable[[Any], None], batch: object) -> None:
    """Call a listener of durable batches; its failure changes nothing about the batch."""
    try:
        listener(batch)
    except Exception:  # noqa: BLE001 - what is durable stays so
        _log.exception("told_in_vain")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Put garbage collection off until a batch is over, which frees nearly all that it made.

    Collecting in between walks over it again and again: 5 to 12 % of the CPU time of a batch. So
    does one that begins before the names are gone under which a batch holds what it made.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _each_once(results: Iterable[Any]) -> list[Any]:
    """Return results; sessions that were anchored together share theirs."""
    return list({id(result): result for result in results}.values())


def _submissions(results: Any) -> Iterator[SubmissionResult]:
    """Yield the operations that these results are about, but for those on the record before."""
    if isinstance(results, SubmissionResult):
        if not results.duplicate:
            yield results
    elif isinstance(results, list | tuple):
        for result in results:
            yield from _submissions(result)
    elif isinstance(results, SimulationResult):
        yield from _submissions(results.submission)
