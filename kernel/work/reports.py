"""What workers report of a request: the step to record, how an evaluation ended, that it failed."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernel.bindings.source_binding import BindingTargetKind
from kernel.stores.typed import Name

RequestId = Annotated[str, Field(min_length=1, max_length=512)]
_Count = Annotated[int, Field(ge=0, le=10**12)]

OutcomeState = Literal[
    "pending",
    "succeeded",
    "deduplicated",
    "policy_blocked",
    "user_review_required",
    "extraction_failed",
    "abandoned",
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BindingOutcomeRecord(_Model):
    """How one binding was evaluated against one event (§13.5); a pending one is tried again."""

    outcome_id: RequestId
    source_event_id: Name
    binding_id: Name
    target_kind: BindingTargetKind
    outcome_state: OutcomeState
    outcome_target_ref: Name | None = None
    outcome_reason_code: Name
    schema_version: Literal[1] = 1


class ReportedCapacity(_Model):
    """What was known of the capacity when it was refused (§14.5)."""

    ec_capacity_lease_state: Name
    queue_depth: _Count
    inflight_operations: _Count


class TransitionDue(_Model):
    """The step that a request asks for is to be recorded now."""

    report_kind: Literal["transition_due"] = "transition_due"
    request_id: RequestId


class BindingEvaluated(_Model):
    """An evaluation ended."""

    report_kind: Literal["binding_evaluated"] = "binding_evaluated"
    request_id: RequestId
    outcome: BindingOutcomeRecord


class CapacityRejected(_Model):
    """Capacity ran out under an evaluation, which stopped."""

    report_kind: Literal["capacity_rejected"] = "capacity_rejected"
    request_id: RequestId
    binding_evaluation_id: Name | None = None
    retry_eligible: bool = True
    capacity_signal_at_rejection: ReportedCapacity


class GivenUp(_Model):
    """The worker gives a request up; it is not tried again."""

    report_kind: Literal["given_up"] = "given_up"
    request_id: RequestId
    error_signature: Annotated[str, Field(min_length=1, max_length=200)]


WorkReport = Annotated[
    TransitionDue | BindingEvaluated | CapacityRejected | GivenUp,
    Field(discriminator="report_kind"),
]

ReportOutcome = Literal["completed", "closed", "early", "rejected", "recorded", "unknown"]
"""completed: the request has its outcome. closed: it had one. early: something is to come first.
rejected: the record does not admit it. recorded: it stays open. unknown: nobody asked."""
