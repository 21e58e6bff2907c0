"""Models what workers report of a request: the step to record, how it ended, that it failed."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool

from kernel.model.bindings.dispatch import EvaluatedOn
from kernel.model.bindings.outcomes import BindingOutcomeRecord
from kernel.model.bindings.particulars import NONE_STATED, Particulars
from kernel.model.model_output import CapturedOutput
from kernel.model.numbers import Count, Share
from kernel.records.typed import Name, Sha256
from kernel.values.canonical import canonicalize_readable
from kernel.work.retry_policy import PAUSE_MS_MAX, RetryPolicy

RequestId = Annotated[str, Field(min_length=1, max_length=512)]
WorkerName = Annotated[str, Field(min_length=1, max_length=128)]

OUTPUTS_MAX = 8
"""Answers of a model that one extraction may need."""


MESSAGE_BYTES_MAX: Final = 2 * 1024
TRACEBACK_BYTES_MAX: Final = 9 * 1024
SIGNATURE_CHARS_MAX: Final = 300
JOINED_MAX: Final = 1000
RESULT_BYTES_MAX = 32 * 1024
"""The largest result of a plug-in's handler, as canonical JSON: it stands on a receipt."""


def _check_result(result: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(canonicalize_readable(result))
    except RecursionError:
        raise ValueError("the result is nested too deeply") from None
    if size > RESULT_BYTES_MAX:
        raise ValueError(f"a result has at most {RESULT_BYTES_MAX} bytes")
    return result


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReportedCapacity(_Model):
    """What was known of the capacity when it was refused (§14.5)."""

    ec_capacity_lease_state: Name
    queue_depth: Count
    inflight_operations: Count


class SuccessfulAttempt(_Model):
    """What is known of an attempt that came to something."""

    took_ms: Count | None = None
    """From the claim to the end, as of an attempt that failed."""

    worker: WorkerName | None = None


class _Success(SuccessfulAttempt):
    request_id: RequestId


class TransitionDue(_Success):
    """The step that a request asks for is to be recorded now."""

    report_kind: Literal["transition_due"] = "transition_due"


class BindingEvaluated(_Success):
    """An evaluation ended; the gateway evaluates again and records what comes to the same.

    `evaluated_on` is what was read of the record, `particulars` what the text was read to say.
    """

    report_kind: Literal["binding_evaluated"] = "binding_evaluated"
    outcome: BindingOutcomeRecord
    evaluated_on: EvaluatedOn
    particulars: Particulars = NONE_STATED


class BindingSuspended(_Model):
    """An evaluation waits because capacity is short; its request stays open."""

    report_kind: Literal["binding_suspended"] = "binding_suspended"
    request_id: RequestId


class CapacityRejected(_Model):
    """Capacity ran out under an evaluation, which stopped."""

    report_kind: Literal["capacity_rejected"] = "capacity_rejected"
    request_id: RequestId
    binding_evaluation_id: Name | None = None
    retry_eligible: StrictBool = True
    capacity_signal_at_rejection: ReportedCapacity


class ExtractionBegun(_Model):
    """A worker takes an extraction in hand."""

    report_kind: Literal["extraction_begun"] = "extraction_begun"
    request_id: RequestId
    extractor: Name


class ExtractionFinished(_Success):
    """An extractor answered; the gateway holds the answer against the source again."""

    report_kind: Literal["extraction_finished"] = "extraction_finished"
    source_text_sha256: Sha256
    """Of the text that was read."""

    result: dict[str, Any]
    """An `ExtractionResult`."""

    claim_authority: Share
    """The authority of what this extractor reads."""

    outputs: Annotated[
        tuple[CapturedOutput, ...], Field(max_length=OUTPUTS_MAX, fail_fast=True)
    ] = ()


class WorkFinished(_Success):
    """The handler of a plug-in's queue did what its request asks for."""

    report_kind: Literal["work_finished"] = "work_finished"
    result: Annotated[dict[str, Any], AfterValidator(_check_result)] = {}


class Delivery(_Model):
    """One claim of an item: whose it was, and from when to when."""

    claim: Annotated[str, Field(min_length=1, max_length=64)]
    """The token of the claim; what is reported of it twice is recorded once."""

    worker: WorkerName
    started_at_us: Count
    ended_at_us: Count


class AttemptError(_Model):
    """Why an attempt failed, as far as the redaction of its worker lets it be said."""

    code: Annotated[str, Field(min_length=1, max_length=200)]
    """The reason of the dead letter, where the attempt is the last one."""

    error_class: Annotated[str, Field(max_length=200)] = ""
    message: Annotated[str, Field(max_length=MESSAGE_BYTES_MAX)] = ""
    traceback: Annotated[str, Field(max_length=TRACEBACK_BYTES_MAX)] = ""
    signature: Annotated[str, Field(min_length=1, max_length=SIGNATURE_CHARS_MAX)]
    """What the attempts have in common that failed for the same reason."""


class ExtractionFailed(_Model):
    """An extraction came to nothing."""

    report_kind: Literal["extraction_failed"] = "extraction_failed"
    request_id: RequestId
    code: Annotated[str, Field(min_length=1, max_length=128)]
    delivery: Delivery | None = None
    error: AttemptError | None = None
    """What the extractor or its model raised, with whose claim it was."""


class _AttemptReport(_Model):
    request_id: RequestId
    joined: Annotated[tuple[RequestId, ...], Field(max_length=JOINED_MAX, fail_fast=True)] = ()
    """Further requests of the item, which end with this one where it is given up."""

    delivery: Delivery
    policy: RetryPolicy


class AttemptFailed(_AttemptReport):
    """An attempt failed; the policy decides whether there is another."""

    report_kind: Literal["attempt_failed"] = "attempt_failed"
    error: AttemptError
    random_unit: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False, strict=True)]
    """Draws the pause within its jitter."""

    final: StrictBool = False
    """Whether another attempt would change nothing."""


class AttemptSnoozed(_AttemptReport):
    """A job asks to be called again after a pause, which is no failure."""

    report_kind: Literal["attempt_snoozed"] = "attempt_snoozed"
    pause_ms: Annotated[int, Field(ge=0, le=PAUSE_MS_MAX, strict=True)]


class WorkerLost(_AttemptReport):
    """The worker that held a claim is gone; whoever claims the item next reports it."""

    report_kind: Literal["worker_lost"] = "worker_lost"
    worker_ends: Count
    """Processes that have ended while they worked on the item alone, this one included."""


WorkReport = Annotated[
    TransitionDue
    | BindingEvaluated
    | BindingSuspended
    | CapacityRejected
    | ExtractionBegun
    | ExtractionFinished
    | ExtractionFailed
    | WorkFinished
    | AttemptFailed
    | AttemptSnoozed
    | WorkerLost,
    Field(discriminator="report_kind"),
]

ReportOutcome = Literal[
    "completed",
    "closed",
    "early",
    "changed",
    "out_of_capacity",
    "rejected",
    "recorded",
    "waits",
    "unknown",
]
"""completed: the request has its outcome. closed: it had one. early: something is to come first.
changed: the record has moved on, so it is worked on again. out_of_capacity: the kernel had none
for its operation. rejected: the record does not admit it. recorded: it stays open. waits: it
is tried again after a pause. unknown: nobody asked."""
