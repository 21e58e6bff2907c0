"""Models what each kind of preview shows beside the records (§11.2)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kernel.model.numbers import Count, Finite
from kernel.model.simulation import PreviewKind, PreviewPayload, SimulationModel


class NodeOutcome(SimulationModel):
    """A node as it would be."""

    node_id: str
    node_kind: str
    state_before: str | None = None
    state_after: str
    visibility_class_before: str | None = None
    visibility_class_after: str
    changed_fields: tuple[str, ...]


class NodeWritePreview(PreviewPayload):
    """Which nodes would be written."""

    nodes: tuple[NodeOutcome, ...] = ()


class EdgeOutcome(SimulationModel):
    """An edge, or a relationship of filings, as it would be."""

    edge_id: str
    source_ref: str
    target_ref: str | None = None
    """None for a filing that is not matched yet."""

    edge_type: str
    state_before: str | None = None
    state_after: str


class EdgeWritePreview(PreviewPayload):
    """Which edges would be written."""

    edges: tuple[EdgeOutcome, ...] = ()


class BindingFirePreview(PreviewPayload):
    """What a binding would fire on, or the generation from which on it would."""

    binding_id: str | None = None
    binding_generation_id: str | None = None
    fires_on: tuple[str, ...] = ()
    stated: dict[str, Any] | None = None
    """What the operation says of the binding or of its fire."""


class MembershipMove(SimulationModel):
    """A membership's way from one state to the next."""

    corpus_id: str
    node_id: str
    from_state: str | None = None
    to_state: str


class MembershipChangePreview(PreviewPayload):
    """Which memberships would move, and what a model expects of it (§21.2)."""

    membership_add_target: str | None = None
    new_member: str | None = None
    moves: tuple[MembershipMove, ...] = ()
    relevance_score: Finite | None = None
    likely_topic_assignments: tuple[str, ...] | None = None
    downstream_bindings_likely_to_fire: tuple[str, ...] | None = None


class RulingDispositionPreview(PreviewPayload):
    """The record that would be kept of a ruling."""

    target_ref: str | None = None
    state_after: str | None = None
    dispositions: tuple[dict[str, Any], ...] = ()
    scope_targets: tuple[str, ...] = ()


class ExtractionOutcomePreview(PreviewPayload):
    """Which state an extraction would be in."""

    extraction_run_id: str | None = None
    attempt_number: Count | None = None
    prior_state: str | None = None
    current_state: str | None = None
    block_reason: str | None = None


class SearchPlanPreview(PreviewPayload):
    """What would be searched for; the preview searches nothing."""

    plan: dict[str, Any] | None = None


class RollupGenerationPreview(PreviewPayload):
    """What would be generated from other material."""

    rollup_ref: str | None = None
    rollup_kind: str | None = None
    inputs: tuple[str, ...] = ()
    stale_views: tuple[str, ...] = ()
    fresh_views: tuple[str, ...] = ()


class PolicyChangePreview(PreviewPayload):
    """Which policy generation would be in force."""

    from_policy_generation_id: str | None = None
    to_policy_generation_id: str | None = None
    generation: Count | None = None


PREVIEW_PAYLOADS: Mapping[PreviewKind, type[PreviewPayload]] = MappingProxyType(
    {
        "node_write_preview": NodeWritePreview,
        "edge_write_preview": EdgeWritePreview,
        "binding_fire_preview": BindingFirePreview,
        "membership_change_preview": MembershipChangePreview,
        "ruling_disposition_preview": RulingDispositionPreview,
        "extraction_outcome_preview": ExtractionOutcomePreview,
        "search_plan_preview": SearchPlanPreview,
        "rollup_generation_preview": RollupGenerationPreview,
        "policy_change_preview": PolicyChangePreview,
    }
)
