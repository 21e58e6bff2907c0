"""Defines one page of the log, shown to a detector, and the limits of its answer (§19.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import orjson

from actors.implications.detector import CommittedOperation, ImplicationDetector
from actors.orchestrator.intents import Implication
from kernel.ledger.ledger import LedgerView, LogEntry
from kernel.values.errors import KernelError, LedgerCorrupt, LedgerUnavailable
from kernel.values.foreign_code import call_foreign, cause_of, message_of, traceback_of

PAGE_OPERATIONS = 256
"""Operations that a detector is shown at once."""

SCANNED_ROWS = 4096
"""Rows of the log that are looked through for them."""

PAGE_BYTES = 8 << 20
"""Bytes of their envelopes, of which one alone may have a mebibyte."""

ENDED: Final = "implication_detector_ended"
"""The detector ended its process, or raised what would have."""

RAISED: Final = "implication_detector_raised"

IMPLICATIONS_MAX = 256
ANSWER_BYTES_MAX = 1 << 20


class DetectorFailed(KernelError):
    """A detector raised, or its answer is none; nothing of it is recorded."""

    traceback: str = ""
    """Where it raised, for the log."""


@dataclass(frozen=True, slots=True)
class DetectedPage:
    """What a detector made of a stretch of the log."""

    through_sequence: int
    """The last row that was looked at."""

    implications: tuple[Implication, ...]


def detect_page(detector: ImplicationDetector, view: LedgerView, after: int) -> DetectedPage:
    """Show a detector what follows a row of the log, and return what it implies.

    Raises:
        DetectorFailed: `implication_detector_raised`, `implication_detector_ended`,
            `implication_answer_invalid`, `implication_answer_too_large`.
    """
    operations, through = _operations(detector, view, after)
    while operations:
        answers = _answers(detector, view, operations)
        if len(answers) <= IMPLICATIONS_MAX or len(operations) == 1:
            _check(answers, operations)
            return DetectedPage(through, tuple(answers))
        # Each of many operations may imply a little: what is left is the next page.
        operations = operations[: len(operations) // 2]
        through = operations[-1].ec_sequence_number
    return DetectedPage(through, ())


def _answers(
    detector: ImplicationDetector, view: LedgerView, operations: Sequence[CommittedOperation]
) -> list[Implication]:
    try:
        return call_foreign(
            lambda: list(islice(detector.detect(operations, view), IMPLICATIONS_MAX + 1))
        )
    except (LedgerCorrupt, LedgerUnavailable):
        raise
    except Exception as error:
        # A detector is a foreign program: however it ends is its failure and not ours.
        cause = cause_of(error)
        message = f"{type(cause).__name__}: {message_of(cause)}"
        wants_to_end = isinstance(cause, SystemExit)
        failed = DetectorFailed(message, code=ENDED if wants_to_end else RAISED)
        failed.traceback = traceback_of(error)
        raise failed from error


def has_any(detector: ImplicationDetector, view: LedgerView, after: int) -> tuple[bool, int]:
    """Tell whether a page behind a row has operations that a detector is shown, and its last row.

    It costs less than asking the detector, and the log is full of what concerns none.
    """
    entries = view.log_entries(after=after, limit=SCANNED_ROWS)
    shown = any(entry.semantic_intent in detector.semantic_intents for entry in entries)
    return shown, entries[-1].ec_sequence_number if entries else after


def _operations(
    detector: ImplicationDetector, view: LedgerView, after: int
) -> tuple[list[CommittedOperation], int]:
    operations: list[CommittedOperation] = []
    size, through = 0, after
    for entry in view.log_entries(after=after, limit=SCANNED_ROWS):
        if entry.semantic_intent in detector.semantic_intents:
            content = view.blob(entry.envelope_payload_blob_ref)
            size += len(content or b"")
            if operations and (size > PAGE_BYTES or len(operations) == PAGE_OPERATIONS):
                return operations, through
            # What is quarantined implies nothing, like what was erased.
            if content is not None and view.quarantines().over(entry.ec_sequence_number) is None:
                operations.append(_committed_operation(entry, content))
        through = entry.ec_sequence_number
    return operations, through


def _committed_operation(entry: LogEntry, content: bytes) -> CommittedOperation:
    return CommittedOperation(
        entry.ec_sequence_number, entry.operation_id, entry.committed_at, orjson.loads(content)
    )


def _check(answers: Sequence[object], operations: Sequence[CommittedOperation]) -> None:
    if len(answers) > IMPLICATIONS_MAX:
        message = f"more than {IMPLICATIONS_MAX} implications of {len(operations)} operations"
        raise DetectorFailed(message, code="implication_answer_too_large")
    shown = {operation.operation_id for operation in operations}
    size = 0
    for answer in answers:
        if not isinstance(answer, Implication):
            message = f"a {type(answer).__name__} is no implication"
            raise DetectorFailed(message, code="implication_answer_invalid")
        if not shown.issuperset(answer.implied_by_operation_ids):
            message = "it names an operation that it was not shown"
            raise DetectorFailed(message, code="implication_answer_invalid")
        size += len(answer.model_dump_json())
    if size > ANSWER_BYTES_MAX:
        message = f"{size} bytes; at most {ANSWER_BYTES_MAX} are taken"
        raise DetectorFailed(message, code="implication_answer_too_large")
