"""Records a run of the detection of implications with what it emits, and a halt (§19.1).

A run and everything that it emits are one transaction, so that a crash loses and doubles nothing
(decision kernel/0298).
"""

from dataclasses import dataclass

from actors.commit.unit_context import CommitContext
from actors.commit.units import IntentUnit
from actors.orchestrator.intents import HaltDetector, Implication, RecordImplicationRun
from kernel.model.envelope import Implied
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.model.stated_receipts import ImplicationHalt, ImplicationRun
from kernel.records.implications.halts import FAILED, detector_halt_id, is_halted
from kernel.records.implications.runs import newest_epoch
from kernel.values.canonical import digest
from kernel.values.errors import KernelError


class ImplicationsRefused(KernelError):
    """A run could not be recorded, or something that it emits has to wait; nothing of it was."""

    def __init__(self, rejected: RejectedResult) -> None:
        super().__init__(rejected.rejection.message, code=rejected.rejection.reason_code)
        self.retry_after_s = rejected.rejection.retry_after_s


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What became of a run."""

    implication_epoch: int
    operation_ids: tuple[str, ...]
    """The operations that it emitted, in order."""

    refused: tuple[str, ...]
    """The codes of those that the kernel refused, each with a receipt or counted."""


@dataclass(frozen=True, slots=True)
class ImplicationRunUnit:
    """Record a run of a detector, and submit what it emits under the run's number."""

    detector: str
    after_sequence: int
    through_sequence: int
    implications: tuple[Implication, ...]

    def run(self, context: CommitContext) -> RecordedRun:
        """Record all of it.

        Raises:
            ImplicationsRefused: another process has recorded the stretch, the detector is halted,
                or capacity is short.
            IntentInvalid: an intent refers to what is not there.
        """
        epoch = newest_epoch(context.transaction) + 1
        self._record_run(context, epoch)
        results = [self._emit(context, epoch, each) for each in self.implications]
        return RecordedRun(
            epoch,
            tuple(each.operation_id for each in results if isinstance(each, SubmissionResult)),
            tuple(
                each.rejection.reason_code for each in results if isinstance(each, RejectedResult)
            ),
        )

    def _record_run(self, context: CommitContext, epoch: int) -> None:
        run = ImplicationRun(
            detector=self.detector,
            implication_epoch=epoch,
            after_sequence=str(self.after_sequence),
            through_sequence=str(self.through_sequence),
        )
        intent = RecordImplicationRun(intent_key=digest(run.model_dump()), run=run)
        result = IntentUnit(intent, None, "system").run(context)
        if isinstance(result, RejectedResult):
            raise ImplicationsRefused(result)

    def _emit(
        self, context: CommitContext, epoch: int, implication: Implication
    ) -> SubmissionResult | RejectedResult:
        intent = implication.intent
        key = digest([self.detector, intent.intent_key])
        document = context.orchestrator.construct(
            intent.model_copy(update={"intent_key": key}),
            context.transaction,
            actor="system",
            session_id=None,
            implied=Implied(
                detector=self.detector,
                implication_epoch=epoch,
                implied_by_operation_ids=implication.implied_by_operation_ids,
            ),
        )
        result = context.kernel.submit(
            context.transaction, document, "orchestrator", id_is_drawn=True
        )
        if isinstance(result, RejectedResult) and result.rejection.retry_after_s is not None:
            raise ImplicationsRefused(result)
        return result


@dataclass(frozen=True, slots=True)
class HaltDetectorUnit:
    """Halt a detector that fails again and again."""

    detector: str
    error_code: str

    def run(self, context: CommitContext) -> bool:
        """Halt it until a person resumes it; False where it is halted."""
        halt_id = detector_halt_id(self.detector)
        if is_halted(context.transaction, halt_id):
            return False
        halt = ImplicationHalt(
            halt_id=halt_id,
            detector=self.detector,
            reason_code=FAILED,
            error_code=self.error_code,
        )
        # A detector may be halted, resumed, and halted again for the same reason.
        place = str(context.transaction.head_now.ec_sequence_number)
        intent = HaltDetector(intent_key=digest([halt.model_dump(), place]), halt=halt)
        result = IntentUnit(intent, None, "system").run(context)
        if isinstance(result, RejectedResult):
            raise ImplicationsRefused(result)
        return True
