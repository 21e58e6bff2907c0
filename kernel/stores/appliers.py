"""Which store applies which effect: one table by canonical kind."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernel.algebra.effects import canonical_kind
from kernel.errors import EffectInapplicable
from kernel.model.envelope import KernelEffect
from kernel.stores.derived import (
    apply_index_update,
    apply_receipt_only,
    apply_view_invalidation,
)
from kernel.stores.edges import apply_edge_write
from kernel.stores.memberships import apply_membership_write
from kernel.stores.nodes import apply_node_write
from kernel.stores.record import Applied, Operation

APPLIERS: Mapping[str, Callable[[KernelEffect, Operation], Applied]] = MappingProxyType(
    {
        "node_write": apply_node_write,
        "edge_write": apply_edge_write,
        "membership_write": apply_membership_write,
        "index_update": apply_index_update,
        "materialized_view_invalidation": apply_view_invalidation,
        "receipt_only": apply_receipt_only,
    }
)


def apply_effect(effect: KernelEffect, operation: Operation) -> Applied:
    """Apply one effect of a validated envelope to its store.

    Raises:
        EffectInapplicable: when the state does not admit it; nothing was written.
    """
    applier = APPLIERS.get(canonical_kind(effect.effect_kind))
    if applier is None:
        raise EffectInapplicable(
            f"no store takes {effect.effect_kind}",
            code="effect_store_missing",
            field="effect_kind",
        )
    return applier(effect, operation)
