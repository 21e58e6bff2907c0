"""Models what workers report of a request: the step to record, how it ended, that it failed."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool

from kernel.model.bindings.dispatch import EvaluatedOn
from kernel.model.bindings.outcomes import BindingOutcomeRecord
from kernel.model.bindings.particulars import NONE_STATED, Particulars
from kernel.model.model_output import CapturedOutput
from kernel.model.numbers import Count, Share
from kernel.records.typed import Name, Sha256
from kernel.values.canonical import canonicalize_readable

RequestId = Annotated[str, Field(min_length=1, max_length=512)]

OUTPUTS_MAX = 8
"""Answers of a model that one extraction may need."""


RESULT_BYTES_MAX = 32 * 1024
"""The largest result of a plug-in's handler, as canonical JSON: it stands on a receipt."""


def _limited_result(result: dict[str, Any]) -> dict[str, Any]:
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


class TransitionDue(_Model):
    """The step that a request asks for is to be recorded now."""

    report_kind: Literal["transition_due"] = "transition_due"
    request_id: RequestId


class BindingEvaluated(_Model):
    """An evaluation ended; the gateway evaluates again and records what comes to the same.

    `evaluated_on` is what was read of the record, `particulars` what the text was read to say.
    """

    report_kind: Literal["binding_evaluated"] = "binding_evaluated"
    request_id: RequestId
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


class ExtractionFinished(_Model):
    """An extractor answered; the gateway holds the answer against the source again."""

    report_kind: Literal["extraction_finished"] = "extraction_finished"
    request_id: RequestId
    source_text_sha256: Sha256
    """Of the text that was read."""

    result: dict[str, Any]
    """An `ExtractionResult`."""

    claim_authority: Share
    """The authority of what this extractor reads."""

    outputs: Annotated[
        tuple[CapturedOutput, ...], Field(max_length=OUTPUTS_MAX, fail_fast=True)
    ] = ()


class ExtractionFailed(_Model):
    """An extraction came to nothing."""

    report_kind: Literal["extraction_failed"] = "extraction_failed"
    request_id: RequestId
    code: Annotated[str, Field(min_length=1, max_length=128)]


class WorkFinished(_Model):
    """The handler of a plug-in's queue did what its request asks for."""

    report_kind: Literal["work_finished"] = "work_finished"
    request_id: RequestId
    result: Annotated[dict[str, Any], AfterValidator(_limited_result)] = {}


class GivenUp(_Model):
    """The worker gives a request up; it is not tried again."""

    report_kind: Literal["given_up"] = "given_up"
    request_id: RequestId
    error_signature: Annotated[str, Field(min_length=1, max_length=200)]


WorkReport = Annotated[
    TransitionDue
    | BindingEvaluated
    | BindingSuspended
    | CapacityRejected
    | ExtractionBegun
    | ExtractionFinished
    | ExtractionFailed
    | WorkFinished
    | GivenUp,
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
    "unknown",
]
"""completed: the request has its outcome. closed: it had one. early: something is to come first.
changed: the record has moved on, so it is worked on again. out_of_capacity: the kernel had none
for its operation. rejected: the record does not admit it. recorded: it stays open. unknown: nobody
asked."""
