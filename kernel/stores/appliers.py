"""Maps each effect to the store that applies it: one table, for each version of the rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kernel.algebra.effects import EffectKind
from kernel.model.envelope import KernelEffect, UndoneEffect
from kernel.stores.bindings import apply_binding_generation
from kernel.stores.case_events import CASE_EVENTS
from kernel.stores.court_dispositions import apply_court_disposition
from kernel.stores.derived import apply_index_update, apply_receipt_only
from kernel.stores.edges import apply_edge_write
from kernel.stores.extraction import apply_extraction_transition
from kernel.stores.filing_relationships import apply_filing_relationship
from kernel.stores.filings import TEXT_VERSIONS, UNITS, VERSIONS
from kernel.stores.inverse import apply_inverse
from kernel.stores.materializations import apply_document_artifact, apply_materialization
from kernel.stores.membership_transitions import apply_membership_transition
from kernel.stores.memberships import apply_membership_write
from kernel.stores.nodes import apply_node_write
from kernel.stores.policies import apply_policy_snapshot
from kernel.stores.record import Applied, Operation
from kernel.stores.rollback_marks import Places, mark_undone
from kernel.stores.rulings import RULINGS
from kernel.stores.share_links import apply_share_link_grant, apply_share_link_revoke
from kernel.stores.topics import apply_anchor, apply_topic_assignment
from kernel.stores.views import apply_view_invalidation

Applier = Callable[[KernelEffect, Operation], Applied]
Inverse = Callable[[UndoneEffect, Operation], Applied]
Marking = Callable[[Operation, Mapping[str, Places]], None]

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
