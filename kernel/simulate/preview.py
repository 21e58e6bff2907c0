"""Turns a dry run into the state of a preview: kind, payload, cost (§11.2, §11.5 step 6).

Tables decide: an operation kind has its preview kind by name or by the first kind of effect that
its verb requires, and each preview kind has one function that says what it shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kernel.algebra.effects import canonical_kind
from kernel.algebra.verbs import OPERATION_KINDS, SEMANTIC_VERBS
from kernel.model.simulation import (
    PreviewKind,
    PreviewPayload,
    SimulationPrediction,
    SimulationPreviewState,
)
from kernel.model.simulation_payloads import PREVIEW_PAYLOADS
from kernel.records.capacity import cost_of
from kernel.simulate.describe import DESCRIBERS, Shown
from kernel.simulate.dry_run import DryRun
from kernel.values.canonical import canonicalize
from kernel.values.json_text import depth_exceeds

PAYLOAD_BYTES_MAX = 256 * 1024
PAYLOAD_DEPTH_MAX = 20
"""A preview within these bounds fits into an envelope, which holds it."""

_BY_OPERATION_KIND: Mapping[str, PreviewKind] = MappingProxyType(
    {
        "synthesize_consolidated_understanding": "rollup_generation_preview",
        "recalculate_authority": "rollup_generation_preview",
        "search_run_record": "search_plan_preview",
        "binding_fire_record": "binding_fire_preview",
        "source_binding_create": "binding_fire_preview",
        "source_binding_update": "binding_fire_preview",
        "source_binding_disable": "binding_fire_preview",
    }
)

_BY_CANONICAL_KIND: Mapping[str, PreviewKind] = MappingProxyType(
    {
        "node_write": "node_write_preview",
        "anchor_node_promotion": "node_write_preview",
        "filing_unit_write": "node_write_preview",
        "filing_unit_version_write": "node_write_preview",
        "filing_unit_text_version_write": "node_write_preview",
        "document_artifact_write": "node_write_preview",
        "share_link_grant": "node_write_preview",
        "share_link_revoke": "node_write_preview",
        "edge_write": "edge_write_preview",
        "filing_relationship_write": "edge_write_preview",
        "membership_write": "membership_change_preview",
        "membership_state_transition": "membership_change_preview",
        "topic_assignment_write": "membership_change_preview",
        "binding_generation_advance": "binding_fire_preview",
        "ruling_disposition_write": "ruling_disposition_preview",
        "court_disposition_observation_write": "ruling_disposition_preview",
        "case_resolution_event_write": "ruling_disposition_preview",
        "extraction_state_transition": "extraction_outcome_preview",
        "index_update": "rollup_generation_preview",
        "materialized_view_invalidation": "rollup_generation_preview",
        "materialization_emit": "rollup_generation_preview",
        "policy_snapshot_advance": "policy_change_preview",
    }
)


@dataclass(frozen=True, slots=True)
class UnreadableOperation:
    """What an unreadable but eligible operation declares about itself."""

    operation_kind: str
    effect_kinds: tuple[str, ...]


def preview_kind_of(operation_kind: str) -> PreviewKind:
    """Return how a kind that can be simulated is shown."""
    preview_kind = _BY_OPERATION_KIND.get(operation_kind)
    if preview_kind is not None:
        return preview_kind
    verb = SEMANTIC_VERBS[OPERATION_KINDS[operation_kind].verb]
    return _BY_CANONICAL_KIND[canonical_kind(verb.requires[0])]


def preview_state(
    declared: UnreadableOperation,
    run: DryRun,
    affected: tuple[str, ...],
    prediction: SimulationPrediction | None,
) -> SimulationPreviewState:
    """Return the content of a preview, its records left out where they are too large."""
    kind = preview_kind_of(declared.operation_kind)
    parts = len(declared.effect_kinds) + len(run.recomputes)
    return SimulationPreviewState(
        preview_kind=kind,
        preview_payload=_payload(kind, run, prediction),
        affected_node_refs=affected,
        effect_kind_set=tuple(dict.fromkeys(declared.effect_kinds)),
        estimated_capacity_cost=cost_of(parts),
        would_be_rejected=run.rejection,
    )


def _payload(
    kind: PreviewKind, run: DryRun, prediction: SimulationPrediction | None
) -> PreviewPayload:
    common: dict[str, Any] = {
        "would_emit_receipts": run.receipt_kinds,
        "would_request_recompute_of": run.recomputes,
        "predicted": None if prediction is None else prediction.output,
    }
    model = PREVIEW_PAYLOADS[kind]
    effects = () if run.envelope is None else run.envelope.primitive_effects
    sources = () if run.envelope is None else run.envelope.source_refs
    shown = Shown(effects, sources, run, {} if prediction is None else prediction.output)
    full = model(**common, **DESCRIBERS[kind](shown), changes=run.changes)
    document = full.model_dump(mode="json", exclude_none=True)
    if not depth_exceeds(document, PAYLOAD_DEPTH_MAX) and (
        len(canonicalize(document)) <= PAYLOAD_BYTES_MAX
    ):
        return full
    hashes = [change.model_copy(update={"before": None, "after": None}) for change in run.changes]
    return model(**common, changes=tuple(hashes), records_left_out=True)
