"""A ledger with the detection of implications beside its committer."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread

from actors.implications.detector import ImplicationDetector
from kernel.ledger.ledger import Ledger
from tests.actors.harness import running_committer
from workers.environment.ledger_access import LedgerPlace
from workers.gateway.wiring import writing
from workers.implications.detecting_process import DetectingProcess
from workers.implications.detection import ImplicationDetection


class Clock:
    """A clock that a test moves."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@asynccontextmanager
async def running_detection(
    ledger: Ledger,
    place: LedgerPlace,
    detectors: Sequence[ImplicationDetector],
    *,
    limit_s: float = 30.0,
    start_limit_s: float = 60.0,
    clock: Any = time.monotonic,
) -> AsyncIterator[ImplicationDetection]:
    process = DetectingProcess(place, detectors, limit_s=limit_s, start_limit_s=start_limit_s)
    async with running_committer(ledger) as committer:
        detection = ImplicationDetection(ledger, writing(committer), detectors, process, clock)
        try:
            yield detection
        finally:
            await anyio.to_thread.run_sync(process.close)


async def until_quiet(detection: ImplicationDetection) -> int:
    """Let the detectors run until there is nothing left to imply; return what they emitted."""
    emitted = 0
    while count := await detection.detect_new():
        emitted += count
    return emitted
