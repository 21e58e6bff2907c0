"""Runs the detectors of implications over the log as it grows (§19.1, K31).

If gateways share a ledger, one of them does it, under the lease of a shard, and its runs are
committed under that fence (decision actors/0095). A failed page is tried again, ever later; after
`ATTEMPTS_MAX` failures of one page the detector is halted, with a durable receipt, until a person
resumes it. The others go on meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
import structlog

from actors.commit.implication_units import (
    HaltDetectorUnit,
    ImplicationRunUnit,
    ImplicationsRefused,
    RecordedRun,
)
from actors.errors import ActorError, IntentInvalid, StaleEpoch
from actors.implications.detector import ImplicationDetector
from actors.implications.page import DetectorFailed, has_any
from actors.sharding.held_shards import SessionLease
from actors.supervision import WakeSignal
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import Fence
from kernel.records.implications.halts import HALTED, detector_halt_id, is_halted
from kernel.records.implications.runs import NOT_NEXT, run_of
from kernel.values.errors import LedgerUnavailable
from workers.implications.detecting_process import DetectingProcess
from workers.use_cases.authority_sweeps import FencedWrite

IMPLICATIONS = "implications"
"""The work that one gateway does at a time, as its lease calls it."""

PAUSE_BETWEEN_LOOKS_S = 0.25
"""Collects what is committed meanwhile."""

RECORD_EVERY_ROWS = 4096
"""Rows without an implication after which the mark is recorded all the same."""

ATTEMPTS_MAX = 3
DELAY_MIN_S = 1.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Progress:
    """How far a detector is, as this process knows it."""

    recorded: int
    """The row up to which its newest run on the record has read."""

    read: int
    """The row up to which it has read since, without an implication."""

    attempts: int = 0
    due_s: float = float("-inf")


class ImplicationDetection:
    """The detectors of one ledger; run `run` in a task group."""

    def __init__(
        self,
        ledger: Ledger,
        write: FencedWrite,
        detectors: Sequence[ImplicationDetector],
        process: DetectingProcess,
        clock_s: Callable[[], float],
        lease: SessionLease | None = None,
    ) -> None:
        """Without a lease, nobody else does it for this ledger."""
        self._ledger = ledger
        self._write = write
        self._detectors = tuple(detectors)
        self._process = process
        self._clock_s = clock_s
        self._lease = lease
        self._fence: Fence | None = None
        self._progress: dict[str, _Progress] = {}
        self._wake = WakeSignal()

    def notify(self) -> None:
        """Wake the detection after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Detect until cancelled; what fails is tried again later."""
        try:
            while True:
                await self.detect_new()
                await self._wake.next_look(PAUSE_BETWEEN_LOOKS_S)
        finally:
            self._process.close()

    async def detect_new(self) -> int:
        """Let every detector read up to the head; return how many operations were emitted.

        Nothing is read where another gateway does it.
        """
        if not self._is_ours():
            return 0
        emitted = 0
        for detector in self._detectors:
            try:
                emitted += await self._go_on(detector)
            except StaleEpoch:
                _log.warning("implications_lost")
                if self._lease is not None and self._fence is not None:
                    self._lease.lose(self._fence)
                return emitted
            except (ActorError, LedgerUnavailable) as error:
                _log.warning("implications_wait", detector=detector.name, code=error.code)
                self._progress.pop(detector.name, None)
        return emitted

    def _is_ours(self) -> bool:
        """Tell whether this process detects; one that begins to reads the marks anew."""
        if self._lease is None:
            return True
        fence = self._lease.fence
        if fence != self._fence:
            self._fence = fence
            self._progress.clear()
        return fence is not None

    async def _go_on(self, detector: ImplicationDetector) -> int:
        emitted = 0
        while True:
            progress = await anyio.to_thread.run_sync(self._look, detector)
            if progress is None:
                return emitted
            try:
                recorded = await self._page(detector, progress)
            except (DetectorFailed, IntentInvalid) as error:
                await self._handle_failure(detector, progress, error.code, error)
                return emitted
            except ImplicationsRefused as refused:
                await self._handle_refusal(detector, progress, refused)
                return emitted
            progress.attempts = 0
            emitted += 0 if recorded is None else len(recorded.operation_ids)

    def _look(self, detector: ImplicationDetector) -> _Progress | None:
        """Return how far a detector is, None where it has nothing to read now."""
        return self._ledger.read(partial(self._progress_of, detector))

    def _progress_of(self, detector: ImplicationDetector, view: LedgerView) -> _Progress | None:
        if is_halted(view, detector_halt_id(detector.name)):
            self._progress.pop(detector.name, None)
            return None
        progress = self._progress.get(detector.name)
        if progress is None:
            run = run_of(view, detector.name)
            through = 0 if run is None else run.through_sequence
            progress = self._progress[detector.name] = _Progress(through, through)
        if progress.due_s > self._clock_s():
            return None
        while progress.read - progress.recorded < RECORD_EVERY_ROWS:
            shown, through = has_any(detector, view, progress.read)
            if shown:
                return progress
            if through == progress.read:
                return None
            progress.read = through
        return progress

    async def _page(self, detector: ImplicationDetector, progress: _Progress) -> RecordedRun | None:
        detect = partial(self._process.detect, detector.name, progress.read)
        page = await anyio.to_thread.run_sync(detect, abandon_on_cancel=True)
        progress.read = max(progress.read, page.through_sequence)
        if not page.implications and progress.read - progress.recorded < RECORD_EVERY_ROWS:
            return None
        unit = ImplicationRunUnit(
            detector.name, progress.recorded, progress.read, page.implications
        )
        try:
            recorded: RecordedRun = await self._write(unit, self._fence)
        except BaseException:
            # Nothing of it is on the record, or nobody knows: the mark tells.
            progress.read = progress.recorded
            raise
        progress.recorded = progress.read
        if recorded.refused:
            _log.warning(
                "implications_refused",
                detector=detector.name,
                implication_epoch=recorded.implication_epoch,
                codes=sorted(set(recorded.refused)),
            )
        return recorded

    async def _handle_refusal(
        self, detector: ImplicationDetector, progress: _Progress, refused: ImplicationsRefused
    ) -> None:
        if refused.code in (NOT_NEXT, HALTED):
            # Somebody else has read on: the record says how far.
            self._progress.pop(detector.name, None)
        elif refused.retry_after_s is not None:
            progress.due_s = self._clock_s() + refused.retry_after_s
            _log.warning("implications_wait", detector=detector.name, code=refused.code)
        else:
            await self._handle_failure(detector, progress, refused.code)

    async def _handle_failure(
        self,
        detector: ImplicationDetector,
        progress: _Progress,
        error_code: str,
        error: Exception | None = None,
    ) -> None:
        progress.read = progress.recorded
        progress.attempts += 1
        _log.error(
            "implication_detector_failed",
            detector=detector.name,
            after_sequence=progress.recorded,
            attempts=progress.attempts,
            code=error_code,
            error="" if error is None else str(error),
            exception=getattr(error, "traceback", ""),
        )
        if progress.attempts < ATTEMPTS_MAX:
            progress.due_s = self._clock_s() + DELAY_MIN_S * 2 ** (progress.attempts - 1)
            return
        await self._write(HaltDetectorUnit(detector.name, error_code), self._fence)
        self._progress.pop(detector.name, None)
