"""Maps each effect to the store that applies it: one table, for each version of the rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kernel.algebra.effects import EffectKind
from kernel.model.envelope import KernelEffect, UndoneEffect
from kernel.records.bindings import apply_binding_generation
from kernel.records.court_dispositions import CASE_EVENTS, RULINGS, apply_court_disposition
from kernel.records.derived import apply_index_update, apply_receipt_only
from kernel.records.edges import apply_edge_write
from kernel.records.extraction import apply_extraction_transition
from kernel.records.filing_relationships import apply_filing_relationship
from kernel.records.filings import TEXT_VERSIONS, UNITS, VERSIONS
from kernel.records.inverse import apply_inverse
from kernel.records.materializations import apply_document_artifact, apply_materialization
from kernel.records.membership_transitions import apply_membership_transition
from kernel.records.memberships import apply_membership_write
from kernel.records.nodes import apply_node_write
from kernel.records.operation_steps import Marking
from kernel.records.policies import apply_policy_snapshot
from kernel.records.record import Applied, Operation
from kernel.records.rollback_marks import mark_undone
from kernel.records.share_links import apply_share_link_grant, apply_share_link_revoke
from kernel.records.topics import apply_anchor, apply_topic_assignment
from kernel.records.views import apply_view_invalidation

Applier = Callable[[KernelEffect, Operation], Applied]
Inverse = Callable[[UndoneEffect, Operation], Applied]

APPLIERS: Mapping[str, Applier] = MappingProxyType(
    {
        "node_write": apply_node_write,
        "edge_write": apply_edge_write,
        "membership_write": apply_membership_write,
        "membership_state_transition": apply_membership_transition,
        "index_update": apply_index_update,
        "materialized_view_invalidation": apply_view_invalidation,
        "receipt_only": apply_receipt_only,
        "filing_unit_write": UNITS.apply,
        "filing_unit_version_write": VERSIONS.apply,
        "filing_unit_text_version_write": TEXT_VERSIONS.apply,
        "filing_relationship_write": apply_filing_relationship,
        "ruling_disposition_write": RULINGS.apply,
        "court_disposition_observation_write": apply_court_disposition,
        "case_resolution_event_write": CASE_EVENTS.apply,
        "topic_assignment_write": apply_topic_assignment,
        "anchor_node_promotion": apply_anchor,
        "policy_snapshot_advance": apply_policy_snapshot,
        "binding_generation_advance": apply_binding_generation,
        "extraction_state_transition": apply_extraction_transition,
        "document_artifact_write": apply_document_artifact,
        "materialization_emit": apply_materialization,
        "share_link_grant": apply_share_link_grant,
        "share_link_revoke": apply_share_link_revoke,
    }
)


@dataclass(frozen=True, slots=True)
class EffectRules:
    """The effect kinds of one version of the rules, and how each is applied (K30)."""

    version: int
    kinds: Mapping[str, EffectKind]
    appliers: Mapping[str, Applier]
    """The function that applies each canonical kind."""

    inverse: Inverse = apply_inverse
    """The function that applies an effect which undoes another."""

    mark_undone: Marking = mark_undone
    """Records which operations an operation has undone, or made up for."""

    stores: frozenset[str] = field(init=False)
    """Every store that an effect may write."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stores", frozenset(kind.store for kind in self.kinds.values()))

    def apply(self, effect: KernelEffect, operation: Operation) -> Applied:
        """Apply one effect of a validated envelope to its store.

        Raises:
            EffectInapplicable: when the state does not admit it; nothing was written.
        """
        if effect.undoes is not None:
            return self.inverse(effect.undoes, operation)
        return self.appliers[self.kinds[effect.effect_kind].canonical](effect, operation)

    def canonical_kind(self, name: str) -> str:
        """Return the kind whose rules a name follows."""
        return self.kinds[name].canonical
