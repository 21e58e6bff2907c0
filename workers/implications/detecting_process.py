"""Runs detectors of implications in a process that reads the ledger and writes nothing.

A detector that never returns is ended with its process, and one that takes all the memory that the
process may have raises; whoever asked is told by a code, and the next question begins a new process
(decision workers/0130). A process says when it has begun, and a detector's time counts from there:
a busy machine is not a failure of a detector. The process ends with its parent, however that ends.
"""

import os
import resource
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.implications.detector import ImplicationDetector
from actors.implications.page import (
    ANSWER_BYTES_MAX,
    DetectedPage,
    DetectorFailed,
    detect_page,
)
from actors.orchestrator.intents import Implication
from kernel.ledger.damage import Damage, DamageFound, damage_of
from kernel.ledger.ledger import Ledger
from kernel.model.numbers import SEQUENCE_MAX
from kernel.values.errors import KernelError, LedgerCorrupt, LedgerUnavailable
from kernel.verify.checked_reading import CheckedLedger
from workers.environment.ledger_access import LedgerPlace, open_ledger

START_S_MAX = 60.0
"""How long the process may take to begin: to start, to load the detectors, to open the ledger."""

DETECTION_S_MAX = 10.0
"""How long a detector may take for a page, in a process that has begun."""

MEMORY_BYTES_MAX = 2 << 30
"""The address space of the process."""

_BEGUN = b"{}"
_ANSWER_BYTES_MAX = 2 * ANSWER_BYTES_MAX
_END_S = 1.0
_PARENT_EVERY_S = 1.0


class _Damage(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    table: str
    key: str
    message: str


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    through_sequence: Annotated[int, Field(ge=0, le=SEQUENCE_MAX)] = 0
    implications: tuple[Implication, ...] = ()
    error_code: str | None = None
    message: str = ""
    traceback: str = ""
    damage: _Damage | None = None


class DetectingProcess:
    """The detectors of one ledger, in a process that is begun when it is first asked."""

    def __init__(
        self,
        place: LedgerPlace,
        detectors: Sequence[ImplicationDetector],
        *,
        limit_s: float = DETECTION_S_MAX,
        start_limit_s: float = START_S_MAX,
        damage: DamageFound | None = None,
    ) -> None:
        """Take detectors; damaged records that they read are noted in `damage`."""
        self._damage = damage or DamageFound()
        self._place = place
        self._detectors = {detector.name: detector for detector in detectors}
        self._limit_s = limit_s
        self._start_limit_s = start_limit_s
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def detect(self, detector: str, after_sequence: int) -> DetectedPage:
        """Have a detector look at what follows a row; blocks for the two time limits at most.

        Raises:
            DetectorFailed: `implication_detector_timed_out`, `implication_detector_ended`, and what
                `detect_page` raises.
            LedgerUnavailable: the process did not begin, or cannot read the ledger.
        """
        connection = self._connection or self._begin()
        try:
            connection.send((detector, after_sequence))
            content = _receive(connection, self._limit_s)
        except TimeoutError as error:
            self.close()
            raise DetectorFailed(str(error), code="implication_detector_timed_out") from error
        except (EOFError, OSError) as error:
            self.close()
            message = "its process ended"
            raise DetectorFailed(message, code="implication_detector_ended") from error
        return self._page(content)

    def close(self) -> None:
        """End the process, whatever it does."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            process.join(_END_S)

    def _begin(self) -> Connection:
        """Begin a process, and wait until it says that it has; no failure of it is a detector's."""
        context = get_context("spawn")
        connection, theirs = context.Pipe()
        arguments = (theirs, self._place, self._detectors, os.getpid())
        process = context.Process(target=_serve, args=arguments, daemon=True)
        self._connection = connection
        try:
            process.start()
            self._process = process
            # The other end is the process's alone, so that reading ends when the process does.
            theirs.close()
            self._page(_receive(connection, self._start_limit_s))
        except (EOFError, OSError, KernelError) as error:
            self.close()
            message = f"the process of the detectors did not begin: {error!r}"
            raise LedgerUnavailable(message) from error
        return connection

    def _page(self, content: bytes) -> DetectedPage:
        try:
            answer = _Answer.model_validate_json(content)
        except ValidationError as error:
            message = "its process answered what is no page"
            raise DetectorFailed(message, code="implication_answer_invalid") from error
        if answer.damage is not None:
            self._damage.add(Damage(**answer.damage.model_dump()))
        if answer.error_code == LedgerUnavailable.code:
            raise LedgerUnavailable(answer.message)
        if answer.error_code is not None:
            failed = DetectorFailed(answer.message, code=answer.error_code)
            failed.traceback = answer.traceback
            raise failed
        return DetectedPage(answer.through_sequence, answer.implications)


def _receive(connection: Connection, limit_s: float) -> bytes:
    """Return the next message, or raise a TimeoutError."""
    if not connection.poll(limit_s):
        message = f"no answer within {limit_s:g} s"
        raise TimeoutError(message)
    return connection.recv_bytes(_ANSWER_BYTES_MAX)


def _serve(
    connection: Connection,
    place: LedgerPlace,
    detectors: Mapping[str, ImplicationDetector],
    parent: int,
) -> None:
    """Say that it has begun, then answer until the parent closes its end or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with suppress(EOFError, OSError):
        try:
            ledger = CheckedLedger(open_ledger(place, read_only=True, primary=True))
        except KernelError as error:
            connection.send_bytes(_refusal(error))
            return
        connection.send_bytes(_BEGUN)
        while True:
            name, after = connection.recv()
            connection.send_bytes(_answer(ledger, detectors[name], after))


def _refusal(error: KernelError) -> bytes:
    """Return the answer for an error, which is the detector's or one of the ledger."""
    code = error.code if isinstance(error, DetectorFailed) else LedgerUnavailable.code
    traceback = error.traceback if isinstance(error, DetectorFailed) else ""
    answer: dict[str, Any] = {
        "error_code": code,
        "message": str(error)[:1000],
        "traceback": traceback,
    }
    if (damage := damage_of(error)) is not None:
        answer["damage"] = asdict(damage)
    return orjson.dumps(answer)


def _answer(ledger: Ledger, detector: ImplicationDetector, after: int) -> bytes:
    try:
        with ledger.view() as view:
            page = detect_page(detector, view, after)
    except (DetectorFailed, LedgerCorrupt, LedgerUnavailable) as error:
        return _refusal(error)
    except MemoryError:
        return _refusal(DetectorFailed("MemoryError", code="implication_detector_raised"))
    return orjson.dumps(
        {
            "through_sequence": page.through_sequence,
            "implications": [each.model_dump(mode="json") for each in page.implications],
        }
    )


def _end_with(parent: int) -> None:
    """End this process once its parent is gone, whatever its detector does."""
    while os.getppid() == parent:
        time.sleep(_PARENT_EVERY_S)
    os._exit(1)
