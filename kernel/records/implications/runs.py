"""Runs of detectors of implications: how far each has read, and under which number (§19.1, K31).

A run is one stretch of the log. Its operation states the stretch and takes the next number, and
what the run emits follows in the same transaction and carries that number. So a crash loses and
doubles nothing, and a run ends before anything that bears its own number begins: no detector sees
what belongs to its epoch (decision kernel/0298). The numbers count the runs of all detectors.
"""

from dataclasses import dataclass

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.envelope import Envelope, Implied
from kernel.model.receipt import sole_receipt
from kernel.model.stated_receipts import ImplicationRun
from kernel.records.implications.halts import detector_halt_id, is_halted
from kernel.records.implications.loop_limits import count_implied
from kernel.records.operation_steps import AppliedOperation
from kernel.values.errors import EffectInapplicable
from kernel.values.host import iso_time

RUN_RECEIPT = "implication_detection_run"
DETECTORS_MAX = 64
"""Detectors that one ledger may have had."""

INVALID = "implication_run_invalid"
NOT_NEXT = "implication_run_does_not_follow"
UNREAD = "implication_source_not_in_run"
_SOURCES = "implication.implied_by_operation_ids"

Problem = tuple[str, str, str]
"""The code, the field and the message."""


@dataclass(frozen=True, slots=True)
class DetectorRun:
    """The newest run of a detector."""

    detector: str
    implication_epoch: int
    after_sequence: int
    through_sequence: int
    """Up to which the detector has read the log."""

    operation_id: str
    recorded_at: str


def runs_of(view: LedgerView) -> list[DetectorRun]:
    """Return the newest run of every detector, by its name."""
    rows = view.tables.scan(TableQuery(schema.implication_detectors, limit=DETECTORS_MAX))
    return [_run(row) for row in rows]


def run_of(view: LedgerView, detector: str) -> DetectorRun | None:
    """Return the newest run of a detector, None before its first."""
    row = view.tables.get(schema.implication_detectors, detector)
    return None if row is None else _run(row)


def newest_epoch(view: LedgerView) -> int:
    """Return the number of the newest run, 0 before the first."""
    return max((run.implication_epoch for run in runs_of(view)), default=0)


def placement_problem(view: LedgerView, implied: Implied) -> Problem | None:
    """Return why an operation is of no run that stands, or implied by what belongs to its epoch."""
    run = run_of(view, implied.detector)
    epoch = implied.implication_epoch
    if run is None or run.implication_epoch != epoch or epoch != newest_epoch(view):
        message = f"epoch {epoch} is not the newest run, or not one of {implied.detector}"
        return "implication_epoch_not_open", "implication.implication_epoch", message
    for index, operation_id in enumerate(implied.implied_by_operation_ids):
        row = view.tables.get(schema.implied_operations, operation_id)
        if row is not None and row["implication_epoch"] >= epoch:
            message = f"{operation_id} belongs to epoch {row['implication_epoch']}"
            return UNREAD, f"{_SOURCES}.{index}", message
    return None


def unread(view: LedgerView, implied: Implied) -> Problem | None:
    """Return which of the operations that imply another the run has not read; the run stands."""
    run = run_of(view, implied.detector)
    for index, operation_id in enumerate(implied.implied_by_operation_ids):
        row = view.log_row_of(operation_id)
        if row is None:
            message = f"{operation_id} is on no row of the log, so it implies nothing"
            return "implication_source_unknown", f"{_SOURCES}.{index}", message
        place = row["ec_sequence_number"]
        if run is None or not run.after_sequence < place <= run.through_sequence:
            message = f"run {implied.implication_epoch} has not read {operation_id}"
            return UNREAD, f"{_SOURCES}.{index}", message
    return None


def record_run(operation: AppliedOperation) -> None:
    """Record how far a run has read, as the newest of its detector.

    Raises:
        EffectInapplicable: `implication_run_invalid`; `implication_run_does_not_follow` where it
            does not go on where the detector's last one ended, under the next number;
            `implication_detection_halted`.
    """
    transaction, run = operation.transaction, _run_in(operation.envelope)
    last = run_of(transaction, run.detector)
    after, through = int(run.after_sequence), int(run.through_sequence)
    if is_halted(transaction, detector_halt_id(run.detector)):
        message = f"{run.detector} is halted until a person resumes it"
        raise _refusal("implication_detection_halted", message)
    goes_on = after == (0 if last is None else last.through_sequence) < through < operation.sequence
    if not goes_on or run.implication_epoch != newest_epoch(transaction) + 1:
        message = f"run {run.implication_epoch} of {run.detector} does not go on behind the last"
        raise _refusal(NOT_NEXT, message)
    if (
        last is None
        and transaction.tables.count(TableQuery(schema.implication_detectors)) >= DETECTORS_MAX
    ):
        raise _refusal(INVALID, f"a ledger has {DETECTORS_MAX} detectors at most")
    transaction.tables.put(
        schema.implication_detectors,
        {
            "detector": run.detector,
            "implication_epoch": run.implication_epoch,
            "after_sequence": after,
            "through_sequence": through,
            "operation_id": operation.operation_id,
            "recorded_at_us": transaction.head_now.committed_at_us,
        },
    )


def record_implied(operation: AppliedOperation) -> None:
    """Record an operation that others imply, and count its loops.

    Raises:
        EffectInapplicable: it is of no run that stands, or implied by what belongs to its epoch.
    """
    implied = operation.envelope.implication
    if implied is None:
        return
    problem = placement_problem(operation.transaction, implied)
    if problem is not None:
        code, field, message = problem
        raise EffectInapplicable(message, code=code, field=field)
    count_implied(operation.transaction, operation.envelope, implied)


def _run(row: Row) -> DetectorRun:
    return DetectorRun(
        row["detector"],
        row["implication_epoch"],
        row["after_sequence"],
        row["through_sequence"],
        row["operation_id"],
        iso_time(row["recorded_at_us"]),
    )


def _run_in(envelope: Envelope) -> ImplicationRun:
    try:
        return sole_receipt(envelope, RUN_RECEIPT, ImplicationRun)
    except ValueError as error:
        raise _refusal(INVALID, str(error)) from None


def _refusal(code: str, message: str) -> EffectInapplicable:
    return EffectInapplicable(message, code=code, field="primitive_effects.0.payload")
