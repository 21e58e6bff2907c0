"""Defines the outcomes of evaluating a binding, and every reason, as a table (§13.5).

A reason decides the state of the outcome and how the pair of binding and artifact ends (§13.2).
A refusal of the kernel's that ends an evaluation is a reason under its own code; the check that
refused decides the state (`OF_A_CHECK`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from kernel.model.bindings.lifecycle import PairState
from kernel.model.bindings.source_binding import BindingTargetKind
from kernel.model.numbers import SchemaVersion

Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]

OutcomeState = Literal[
    "pending",
    "succeeded",
    "deduplicated",
    "policy_blocked",
    "user_review_required",
    "extraction_failed",
    "abandoned",
]

FIRED: Final = "binding_fired"
NO_MATCH: Final = "binding_no_match"
EXISTS: Final = "binding_target_exists"
POLICY_BLOCKED: Final = "binding_target_policy_blocked"
FIELD_LOCKED: Final = "binding_target_field_locked"
TAKEN_BACK: Final = "binding_target_taken_back"
CONFIRMED: Final = "binding_target_confirmed"
INCOMPLETE: Final = "binding_target_incomplete"
CASE_UNKNOWN: Final = "binding_case_unknown"
FILING_UNIT_UNKNOWN: Final = "binding_filing_unit_unknown"
EXTRACTION_FAILED: Final = "binding_extraction_failed"
BINDING_UNKNOWN: Final = "binding_unknown"
GENERATION_UNKNOWN: Final = "binding_generation_unknown"
ARTIFACT_UNKNOWN: Final = "binding_artifact_unknown"
DISABLED: Final = "binding_disabled"
SUPERSEDED: Final = "binding_superseded"
GIVEN_UP: Final = "binding_evaluation_given_up"
CANCELLED: Final = "binding_evaluation_cancelled"
SUSPENDED: Final = "binding_suspended_capacity_pressure"
REJECTED: Final = "capacity_rejected_mid_evaluation"


@dataclass(frozen=True, slots=True)
class Reason:
    """What a reason code says of an evaluation."""

    outcome_state: OutcomeState
    ends_as: PairState | None
    """The end of the pair; None where the evaluation itself did not come to its end."""


_NOT_FIRED: Final[PairState] = "matched_no_fire"

REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        FIRED: Reason("succeeded", "fired"),
        NO_MATCH: Reason("succeeded", "no_match"),
        EXISTS: Reason("deduplicated", _NOT_FIRED),
        POLICY_BLOCKED: Reason("policy_blocked", _NOT_FIRED),
        FIELD_LOCKED: Reason("policy_blocked", _NOT_FIRED),
        TAKEN_BACK: Reason("user_review_required", _NOT_FIRED),
        CONFIRMED: Reason("user_review_required", _NOT_FIRED),
        INCOMPLETE: Reason("user_review_required", _NOT_FIRED),
        CASE_UNKNOWN: Reason("user_review_required", _NOT_FIRED),
        FILING_UNIT_UNKNOWN: Reason("user_review_required", _NOT_FIRED),
        EXTRACTION_FAILED: Reason("extraction_failed", _NOT_FIRED),
        BINDING_UNKNOWN: Reason("abandoned", None),
        GENERATION_UNKNOWN: Reason("abandoned", None),
        ARTIFACT_UNKNOWN: Reason("abandoned", None),
        DISABLED: Reason("abandoned", None),
        SUPERSEDED: Reason("abandoned", None),
        GIVEN_UP: Reason("abandoned", None),
        CANCELLED: Reason("abandoned", None),
        SUSPENDED: Reason("pending", None),
        REJECTED: Reason("pending", None),
    }
)
"""Every reason that is no refusal of the kernel's."""

REVIEW_CODE: Final = "envelope_conflict_user_review_required"

OF_A_CHECK: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        # Overlays and sealed material; a conflict in which what stands is kept.
        "V9": Reason("policy_blocked", _NOT_FIRED),
        "V12": Reason("policy_blocked", _NOT_FIRED),
    }
)
"""By the check that refused the operation of a fire. After any other the binding is tried again."""


def reason_of(code: str, check: str | None = None) -> Reason | None:
    """Return what a reason says; `check` is the one that refused, where the code is a refusal's."""
    if check is None:
        return REASONS.get(code)
    if code == REVIEW_CODE:
        return Reason("user_review_required", _NOT_FIRED)
    return OF_A_CHECK.get(check)


class BindingOutcomeRecord(BaseModel):
    """How one binding was evaluated against one event (§13.5); a pending one is tried again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    outcome_id: Name
    source_event_id: Name
    binding_id: Name
    target_kind: BindingTargetKind
    outcome_state: OutcomeState
    outcome_target_ref: Annotated[str, StringConstraints(min_length=1, max_length=1100)] | None = (
        None
    )
    outcome_reason_code: Name
    schema_version: SchemaVersion = 1
