"""The process in which detectors of implications run: it reads the ledger and writes nothing.

A detector that never returns is ended with its process, and one that takes all the memory that the
process may have raises; whoever asked is told by a code, and the next question begins a new process
(decision workers/0130). The process ends with its parent, however that ends.
"""

import os
import resource
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from actors.implications.detector import ImplicationDetector
from actors.implications.page import (
    ANSWER_BYTES_MAX,
    DetectedPage,
    DetectorFailed,
    detect_page,
)
from actors.orchestrator.intents import Implication
from kernel.errors import LedgerCorrupt, LedgerUnavailable
from kernel.ledger.ledger import Ledger
from workers.environment.ledger_access import LedgerPlace, open_store
from workers.environment.system_host import system_host

DETECTION_S_MAX = 10.0
"""How long a detector may take for a page; beginning the process counts."""

MEMORY_BYTES_MAX = 2 << 30
"""The address space of the process."""

_ANSWER_BYTES_MAX = 2 * ANSWER_BYTES_MAX
_END_S = 1.0
_PARENT_EVERY_S = 1.0


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    through_sequence: int = 0
    implications: tuple[Implication, ...] = ()
    error_code: str | None = None
    message: str = ""


class DetectingProcess:
    """The detectors of one ledger, in a process that is begun when it is first asked."""

    def __init__(
        self,
        place: LedgerPlace,
        detectors: Sequence[ImplicationDetector],
        *,
        limit_s: float = DETECTION_S_MAX,
    ) -> None:
        self._place = place
        self._detectors = {detector.name: detector for detector in detectors}
        self._limit_s = limit_s
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def detect(self, detector: str, after_sequence: int) -> DetectedPage:
        """Have a detector look at what follows a row; blocks for the time limit at most.

        Raises:
            DetectorFailed: `implication_detector_timed_out`, `implication_detector_ended`, and what
                `detect_page` raises.
            LedgerUnavailable: the process cannot read the ledger.
        """
        try:
            connection = self._begun()
            connection.send((detector, after_sequence))
            is_answered = connection.poll(self._limit_s)
            content = connection.recv_bytes(_ANSWER_BYTES_MAX) if is_answered else b""
        except (EOFError, OSError) as error:
            self.close()
            message = "its process ended"
            raise DetectorFailed(message, code="implication_detector_ended") from error
        if not is_answered:
            self.close()
            message = f"no answer within {self._limit_s:g} s"
            raise DetectorFailed(message, code="implication_detector_timed_out")
        return _page(content)

    def close(self) -> None:
        """End the process, whatever it does."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            process.join(_END_S)

    def _begun(self) -> Connection:
        if self._connection is None:
            context = get_context("spawn")
            self._connection, theirs = context.Pipe()
            arguments = (theirs, self._place, self._detectors, os.getpid())
            self._process = context.Process(target=_serve, args=arguments, daemon=True)
            self._process.start()
            # The other end is the process's alone, so that reading ends when the process does.
            theirs.close()
        return self._connection


def _page(content: bytes) -> DetectedPage:
    try:
        answer = _Answer.model_validate_json(content)
    except ValidationError as error:
        message = "its process answered what is no page"
        raise DetectorFailed(message, code="implication_answer_invalid") from error
    if answer.error_code == LedgerUnavailable.code:
        raise LedgerUnavailable(answer.message)
    if answer.error_code is not None:
        raise DetectorFailed(answer.message, code=answer.error_code)
    return DetectedPage(answer.through_sequence, answer.implications)


def _serve(
    connection: Connection,
    place: LedgerPlace,
    detectors: Mapping[str, ImplicationDetector],
    parent: int,
) -> None:
    """Answer until the parent closes its end or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    ledger: Ledger | None = None
    with suppress(EOFError, OSError):
        while True:
            name, after = connection.recv()
            try:
                ledger = ledger or Ledger(open_store(place, read_only=True), system_host())
                answer = _answer(ledger, detectors[name], after)
            except DetectorFailed as error:
                answer = {"error_code": error.code, "message": str(error)[:1000]}
            except (LedgerCorrupt, LedgerUnavailable) as error:
                answer = {"error_code": LedgerUnavailable.code, "message": str(error)[:1000]}
            except MemoryError:
                answer = {"error_code": "implication_detector_raised", "message": "MemoryError"}
            connection.send_bytes(orjson.dumps(answer))


def _answer(ledger: Ledger, detector: ImplicationDetector, after: int) -> dict[str, Any]:
    with ledger.view() as view:
        page = detect_page(detector, view, after)
    return {
        "through_sequence": page.through_sequence,
        "implications": [each.model_dump(mode="json") for each in page.implications],
    }


def _end_with(parent: int) -> None:
    """End this process once its parent is gone, whatever its detector does."""
    while os.getppid() == parent:
        time.sleep(_PARENT_EVERY_S)
    os._exit(1)
