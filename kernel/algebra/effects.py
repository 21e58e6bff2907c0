"""The registry of effect kinds: the one table that checks, stores and rollback read (ruling K1).

Every kind that an envelope may name has a row: primitive verbs, effect kinds and the inverse
operations that they name. `canonical` is the kind whose rules it follows. An inverse is an entry
like any other and has the kind it undoes as its own inverse (K2, K3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

REVERSIBLE = "fully_reversible"
RECEIPT = "receipt_only"
IRREVERSIBLE = "irreversible_external_effect"


@dataclass(frozen=True, slots=True)
class EffectKind:
    """One row of the registry (§3.2, §4.2)."""

    name: str
    canonical: str
    store: str
    """The table of the ledger that the effect writes."""

    reversibility: str
    inverses: tuple[str, ...] = ()
    """Operations that undo it, the default first; one at least where it is fully reversible."""

    overrides: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Node kinds for which this reversibility holds instead (§4.3.1)."""


_NODE_OVERRIDES = MappingProxyType(
    {"ShareTokenPolicy": IRREVERSIBLE, "MaterializedArtifactRef": IRREVERSIBLE}
)

_ROWS = (
    EffectKind(
        "node_write",
        "node_write",
        "nodes",
        REVERSIBLE,
        ("node_retract", "node_revert_to_prior_authority"),
        _NODE_OVERRIDES,
    ),
    EffectKind("node_retract", "node_write", "nodes", REVERSIBLE, ("node_write",)),
    EffectKind(
        "node_revert_to_prior_authority", "node_write", "nodes", REVERSIBLE, ("node_write",)
    ),
    EffectKind("edge_write", "edge_write", "edges", REVERSIBLE, ("edge_remove",)),
    EffectKind("edge_create", "edge_write", "edges", REVERSIBLE, ("edge_remove",)),
    EffectKind("edge_remove", "edge_write", "edges", REVERSIBLE, ("edge_create", "edge_write")),
    EffectKind("edge_reclassify", "edge_write", "edges", REVERSIBLE, ("edge_reclassify",)),
    EffectKind(
        "membership_write",
        "membership_write",
        "corpus_membership_records",
        REVERSIBLE,
        ("membership_revoke",),
    ),
    EffectKind(
        "membership_revoke",
        "membership_write",
        "corpus_membership_records",
        REVERSIBLE,
        ("membership_write",),
    ),
    EffectKind("index_update", "index_update", "derived_indexes", REVERSIBLE, ("index_revert",)),
    EffectKind("index_revert", "index_update", "derived_indexes", REVERSIBLE, ("index_update",)),
    EffectKind(
        "materialized_view_invalidation",
        "materialized_view_invalidation",
        "materialized_views",
        REVERSIBLE,
        ("materialized_view_recompute",),
    ),
    EffectKind(
        "materialized_view_recompute",
        "materialized_view_invalidation",
        "materialized_views",
        REVERSIBLE,
        ("materialized_view_invalidation",),
    ),
    EffectKind("receipt_only", "receipt_only", "receipts", RECEIPT),
)

EFFECT_KINDS: Mapping[str, EffectKind] = MappingProxyType({row.name: row for row in _ROWS})


def canonical_kind(name: str) -> str:
    """Return the kind whose rules a registered name follows."""
    return EFFECT_KINDS[name].canonical


def expected_reversibility(name: str, node_kind: str | None) -> str:
    """Return the classification of a registered kind, its node kind considered (§4.3.1)."""
    kind = EFFECT_KINDS[name]
    return kind.overrides.get(node_kind or "", kind.reversibility)
