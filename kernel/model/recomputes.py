"""Defines the recomputes that an envelope holds: a page of them, most often of one (§8.2, K32).

Each has effects of its own, which name its understanding. That of its index entry also names the
requests that it answers and, in a page of several, what caused it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel.model.envelope import Envelope, KernelEffect

RECALCULATE = "recalculate_authority"

REQUESTS, CAUSES = "request_ids", "causal_parent_operation_ids"
"""Fields of the index entry's effect: the requests that a recompute answers, and what caused it."""

_OF_VIEWS = frozenset({"materialized_view_invalidation", "materialized_view_recompute"})
"""Kinds whose target is a view, which says of which node it is."""


@dataclass(slots=True)  # not frozen: see `kernel.transaction.checks.check.Submission`
class Recompute:
    """One recompute of an envelope; for reading only."""

    node_id: str
    """The understanding."""

    first: int
    """The place of its first effect in the envelope."""

    effects: Sequence[KernelEffect]

    @property
    def written(self) -> Mapping[str, Any]:
        """What it writes of its understanding; empty where it writes no authority."""
        for effect in self.effects:
            if effect.target_ref == self.node_id and "cu_authority" in effect.payload:
                return effect.payload
        return {}

    @property
    def read_refs(self) -> list[str]:
        """The nodes whose class its understanding inherits: itself, and the inputs it names."""
        return [*dict.fromkeys([self.node_id, *input_node_ids(self.written)])]


def is_page(envelope: Envelope) -> bool:
    """Tell whether an envelope holds several recomputes."""
    return envelope.semantic_intent == RECALCULATE and len(envelope.target_refs) > 1


def recomputes_of(envelope: Envelope) -> list[Recompute]:
    """Return the recomputes of an envelope, in the order of their first effects.

    All effects are those of the target where it is the only one.
    """
    targets = envelope.target_refs
    if len(targets) == 1:
        return [Recompute(targets[0], 0, envelope.primitive_effects)]
    effects: dict[Any, list[KernelEffect]] = {}
    first: dict[Any, int] = {}
    for index, effect in enumerate(envelope.primitive_effects):
        node_id = owner_of(effect.effect_kind, effect.target_ref, effect.payload)
        effects.setdefault(node_id, []).append(effect)
        first.setdefault(node_id, index)
    return [Recompute(node_id, first[node_id], own) for node_id, own in effects.items()]


def owner_of(kind: str, target_ref: str | None, payload: Mapping[str, Any]) -> str:
    """Return the understanding to whose recompute an effect of a page belongs."""
    owner = payload.get("node_ref") if kind in _OF_VIEWS else target_ref
    return owner if isinstance(owner, str) else ""


def input_node_ids(written: Mapping[str, Any]) -> list[str]:
    """Return the inputs that an authority's excerpt names."""
    versions = written.get("cu_authority_input_versions")
    parents = (
        version.get("parent_node_id") if isinstance(version, dict) else None
        for version in (versions if isinstance(versions, list) else ())
    )
    return [parent for parent in parents if isinstance(parent, str)]
