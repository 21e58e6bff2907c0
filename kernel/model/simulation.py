"""Defines the parameters and the answers of a simulation (§11.2, §11.3)."""

from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    StringConstraints,
    field_validator,
)

from kernel.model.model_output import RecordedModelOutput
from kernel.model.numbers import Cost, SchemaVersion
from kernel.values.canonical import canonicalize

SIMULATE = "simulate"
PREVIEW_EFFECT = "simulation_preview_emit"
POLICY_CHECK_EFFECT = "simulation_external_effect_policy_check"
WARNING_EFFECT = "visibility_taint_warning_record"
PAYLOAD_RECEIPT = "simulation_preview_payload"

PREVIEW_ID_PREFIX = "preview:"
"""A preview is called after the operation that emitted it, so either name finds the other."""

WARNED_CLASSES = frozenset({"firewalled", "sealed"})
"""Classes whose material is not shown without a warning (INV-G-SIM-VIS-1)."""

PREDICTION_FIELDS_MAX = 64
PREDICTION_BYTES_MAX = 64 * 1024
MODEL_OUTPUTS_MAX = 8

Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Retention = Literal["ephemeral", "durable"]

ForbiddenExternalEffect = Literal[
    "provider_api_call_with_persistence",
    "materialization_side_effect",
    "token_refresh",
    "embedding_cache_persistence",
    "external_index_update",
    "third_party_notification",
    "billing_chargeable_call",
]
AllowedExternalEffect = Literal[
    "ephemeral_local_llm_call",
    "ephemeral_provider_call_no_persistence",
    "read_only_external_lookup",
]
PreviewKind = Literal[
    "node_write_preview",
    "edge_write_preview",
    "binding_fire_preview",
    "membership_change_preview",
    "ruling_disposition_preview",
    "extraction_outcome_preview",
    "search_plan_preview",
    "rollup_generation_preview",
    "policy_change_preview",
]
VisibilityClass = Literal["public_open", "work_product_internal", "firewalled", "sealed"]


class SimulationModel(BaseModel):
    """Base of a simulation's parameters and answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SimulationExternalEffectPolicy(SimulationModel):
    """Which effects outside a simulation may have, and what happens beyond them."""

    policy_id: Name
    forbidden_external_effects: Annotated[
        tuple[ForbiddenExternalEffect, ...], Field(max_length=16, fail_fast=True)
    ]
    allowed_external_effects: Annotated[
        tuple[AllowedExternalEffect, ...], Field(max_length=16, fail_fast=True)
    ]
    on_violation: Literal["block_with_receipt", "alert_and_proceed_in_dev_mode"]
    schema_version: SchemaVersion = 1


ALL_FORBIDDEN = SimulationExternalEffectPolicy(
    policy_id="all-external-effects-forbidden",
    forbidden_external_effects=get_args(ForbiddenExternalEffect),
    allowed_external_effects=(),
    on_violation="block_with_receipt",
)
"""The policy of a simulation that brings none: nothing outside, no model."""


class SimulationPrediction(SimulationModel):
    """What a model said beforehand; the caller answers for how it was asked."""

    external_effects: Annotated[
        tuple[AllowedExternalEffect | ForbiddenExternalEffect, ...],
        Field(min_length=1, max_length=10),
    ]
    """All effects outside that the call had; beyond the policy's the prediction is not used."""

    output: Annotated[dict[str, Any], Field(max_length=PREDICTION_FIELDS_MAX)]
    recorded_model_outputs: Annotated[
        tuple[RecordedModelOutput, ...], Field(max_length=MODEL_OUTPUTS_MAX, fail_fast=True)
    ] = ()

    @field_validator("output")
    @classmethod
    def _check_size(cls, output: dict[str, Any]) -> dict[str, Any]:
        if len(canonicalize(output)) > PREDICTION_BYTES_MAX:
            raise ValueError(f"larger than {PREDICTION_BYTES_MAX} bytes")
        return output


class ExternalEffectViolation(SimulationModel):
    """One thing that would happen outside and may not."""

    external_effect: str
    cause: str
    """The effect kind that would set it off, or `prediction`."""

    effect_id: str | None = None


class WouldBeRejection(SimulationModel):
    """How the kernel would refuse the simulated operation as things stand."""

    check: str
    reason_code: str
    field: str
    message: str


class RecordChange(SimulationModel):
    """One record, before and after; None where there is none, or where it is left out."""

    store: str
    record_key: str
    effect_kinds: tuple[str, ...]
    before_hash: str | None = None
    """Of the record as it is stored."""

    after_hash: str | None = None
    """Of the record as it would be, without the times at which it would be written."""

    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class PreviewPayload(SimulationModel):
    """What every preview shows; each kind has fields of its own beside."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    changes: tuple[RecordChange, ...] = ()
    would_emit_receipts: tuple[str, ...] = ()
    """Kinds, in order."""

    would_request_recompute_of: tuple[str, ...] = ()
    predicted: dict[str, Any] | None = None
    """What a model said; it is shown and nothing relies on it."""

    records_left_out: bool = False
    """Whether the records were too large to show, or have expired since."""


class SimulationPreviewState(SimulationModel):
    """The content of a preview (§11.2)."""

    preview_kind: PreviewKind
    preview_payload: SerializeAsAny[PreviewPayload]
    affected_node_refs: tuple[str, ...]
    effect_kind_set: tuple[str, ...]
    """What the operation declares, in order, each kind once."""

    estimated_capacity_cost: Cost
    """In parts of a lease: an effect or a recompute costs 0.05."""

    would_be_rejected: WouldBeRejection | None = None
    schema_version: SchemaVersion = 1


class SimulationPreview(SimulationModel):
    """What would happen (§11.2); none of it has happened."""

    preview_id: str
    simulated_operation_id: str
    """The operation of the simulation itself, which is new."""

    simulation_visibility_taint: VisibilityClass
    policy_generation_id: str
    session_profile_hash: str
    preview_state: SimulationPreviewState
    rendered_visibility_warning: str | None = None
    schema_version: SchemaVersion = 1

    def document(self) -> dict[str, Any]:
        """Return the form that leaves the process; what there is not is left out."""
        return self.model_dump(mode="json", exclude_none=True)
