"""Registers the effect kinds: the one table that checks, stores and rollback read (ruling K1).

Every kind that an envelope may name has a row: the effect kinds of §4.2, the primitive verbs of
§3.2, and the inverse and compensating operations that they name. `canonical` is the kind whose
rules it follows. An inverse is an entry like any other and has the kind it undoes among its own
inverses (K2, K3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from kernel.algebra.transitions import STEPS_OF_KIND, TRANSITIONS, compensations_of

REVERSIBLE = "fully_reversible"
COMPENSATING = "compensating_operation_only"
RECEIPT = "receipt_only"
IRREVERSIBLE = "irreversible_external_effect"

Reference = Literal["source", "sent", "shared", "link"]
"""What a payload's field does with what it names:

- ``source``: what the effect writes was drawn from it (§7.6);
- ``sent``: its content is read and goes outside (§4.3.4, §4.3.11);
- ``shared``: somebody outside is let in to see it (§4.3.9);
- ``link``: it is named, and nothing of it is read.
"""

_DRAWN: Mapping[str, Reference] = MappingProxyType(
    {"source_spans": "source", "span": "source", "source_refs": "source", "source_ref": "source"}
)
"""Fields by which a payload of any kind says what it was drawn from."""


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

    compensations: tuple[str, ...] = ()
    """Operations that compensate it, the default first, where it has no inverse."""

    overrides: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Node kinds for which this reversibility holds instead (§4.3.1)."""

    companion: str | None = None
    """A kind that an envelope with this one has too."""

    references: Mapping[str, Reference] = field(default_factory=lambda: _DRAWN)
    """Fields of the payload that name something on the record, and what they do with it."""


_NODE_OVERRIDES = MappingProxyType(
    {"ShareTokenPolicy": IRREVERSIBLE, "MaterializedArtifactRef": IRREVERSIBLE}
)


def _pair(kind: str, store: str, inverse: str, companion: str | None = None) -> list[EffectKind]:
    """A fully reversible kind and the inverse that belongs to it alone."""
    return [
        EffectKind(kind, kind, store, REVERSIBLE, (inverse,), companion=companion),
        EffectKind(inverse, kind, store, REVERSIBLE, (kind,), companion=companion),
    ]


def _under(canonical: str, store: str, inverses: Mapping[str, tuple[str, ...]]) -> list[EffectKind]:
    """Fully reversible kinds that follow the rules of one."""
    return [
        EffectKind(name, canonical, store, REVERSIBLE, names) for name, names in inverses.items()
    ]


def _compensating_kinds(
    canonical: str, store: str, kind: str, compensation: str
) -> list[EffectKind]:
    """Return two kinds that compensate each other; neither is an inverse."""
    return [
        EffectKind(kind, canonical, store, COMPENSATING, compensations=(compensation,)),
        EffectKind(compensation, canonical, store, COMPENSATING, compensations=(kind,)),
    ]


_NODES = [
    EffectKind(
        "node_write",
        "node_write",
        "nodes",
        REVERSIBLE,
        ("node_retract", "node_revert_to_prior_authority"),
        overrides=_NODE_OVERRIDES,
    ),
    *_under(
        "node_write",
        "nodes",
        {
            "node_retract": ("node_write",),
            "node_revert_to_prior_authority": ("node_write",),
            # Each of these is undone by the same kind, which goes back to the state before.
            "rescope": ("rescope",),
            "visibility_change": ("visibility_change",),
            "review_disposition": ("review_disposition",),
        },
    ),
    *_compensating_kinds("node_write", "nodes", "quarantine", "unquarantine"),
    *_compensating_kinds("node_write", "nodes", "authorize_access", "revoke_access"),
]

MAKING_EDGES = frozenset({"edge_write", "edge_create", "attach_source_binding"})
_EDGES = _under(
    "edge_write",
    "edges",
    {
        "edge_write": ("edge_remove",),
        "edge_create": ("edge_remove",),
        "edge_remove": ("edge_create", "edge_write"),
        "edge_reclassify": ("edge_reclassify",),
        "attach_source_binding": ("detach_source_binding",),
        "detach_source_binding": ("attach_source_binding",),
    },
)

_MEMBERSHIPS = [
    *_pair("membership_write", "corpus_membership_records", "membership_revoke"),
    *(
        EffectKind(
            name,
            "membership_state_transition",
            "corpus_membership_records",
            COMPENSATING,
            compensations=compensations_of(name),
        )
        for name in STEPS_OF_KIND
    ),
]

_POLICIES = _under(
    "policy_snapshot_advance",
    "policy_snapshots",
    {
        "policy_snapshot_advance": ("policy_snapshot_revert",),
        "policy_reclassify": ("policy_snapshot_revert",),
        "policy_snapshot_revert": ("policy_snapshot_advance", "policy_reclassify"),
    },
)

_EXTERNAL = [
    EffectKind(
        "document_artifact_write", "document_artifact_write", "document_artifacts", IRREVERSIBLE
    ),
    EffectKind("materialization_emit", "materialization_emit", "materializations", IRREVERSIBLE),
    EffectKind("materialize", "materialization_emit", "materializations", IRREVERSIBLE),
    EffectKind("share_link_grant", "share_link_grant", "share_links", IRREVERSIBLE),
    EffectKind(
        "share_link_revoke",
        "share_link_revoke",
        "share_links",
        COMPENSATING,
        compensations=("share_link_grant",),
    ),
]

_ROWS = (
    *_NODES,
    *_EDGES,
    *_MEMBERSHIPS,
    *_pair("index_update", "derived_indexes", "index_revert"),
    *_pair("materialized_view_invalidation", "materialized_views", "materialized_view_recompute"),
    EffectKind("receipt_only", "receipt_only", "receipts", RECEIPT),
    EffectKind(
        "extraction_state_transition",
        "extraction_state_transition",
        "extraction_attempts",
        RECEIPT,
    ),
    *_pair("filing_unit_write", "filing_units", "filing_unit_retract"),
    *_pair("filing_unit_version_write", "filing_unit_versions", "filing_unit_version_retract"),
    *_pair(
        "filing_unit_text_version_write",
        "filing_unit_text_versions",
        "filing_unit_text_version_retract",
    ),
    *_EXTERNAL,
    *_pair(
        "court_disposition_observation_write",
        "court_disposition_observations",
        "court_disposition_observation_retract",
    ),
    *_pair("filing_relationship_write", "filing_relationships", "filing_relationship_retract"),
    *_pair("topic_assignment_write", "topic_assignments", "topic_unassign", "index_update"),
    *_pair("anchor_node_promotion", "nodes", "anchor_node_demotion"),
    *_POLICIES,
    *_pair("ruling_disposition_write", "ruling_dispositions", "ruling_disposition_retract"),
    *_pair(
        "binding_generation_advance", "binding_generation_snapshots", "binding_generation_revert"
    ),
    *_pair(
        "case_resolution_event_write", "case_resolution_events", "case_resolution_event_retract"
    ),
)

_MEMBER: Mapping[str, Reference] = MappingProxyType({"corpus_id": "link"})
_CONTENT: Mapping[str, Reference] = MappingProxyType({"content_node_ref": "sent"})
_OF_FILING: Mapping[str, Reference] = MappingProxyType({"filing_unit_id": "link"})

_REFERENCES: Mapping[str, Mapping[str, Reference]] = MappingProxyType(
    {
        "edge_write": {"source_node_id": "link", "target_node_id": "link"},
        "membership_write": _MEMBER,
        "membership_state_transition": _MEMBER,
        "materialized_view_invalidation": {"node_ref": "link"},
        # The documents of a summary without spans are its sources all the same (§9.3).
        "receipt_only": {"source_doc_refs": "source", "cu_node_ref": "link"},
        "filing_unit_version_write": _OF_FILING,
        "filing_unit_text_version_write": _OF_FILING,
        "filing_relationship_write": {
            "source_filing_unit_id": "link",
            "target_filing_unit_id": "link",
        },
        "document_artifact_write": _CONTENT,
        "materialization_emit": _CONTENT,
        "share_link_grant": {
            "shared_corpus_view_id": "shared",
            "share_token_policy_id": "link",
        },
        "topic_assignment_write": {"topic_id": "link", "node_id": "link"},
        "policy_snapshot_advance": {"prior_policy_generation_id": "link"},
        "ruling_disposition_write": {"scope_targets": "link"},
        "case_resolution_event_write": {"case_refs": "link", "resolved_case_identity": "link"},
        "extraction_state_transition": {
            "parent_operation_id": "link",
            "replaces_extraction_run_id": "link",
        },
        "binding_generation_advance": {"binding_generation_id": "link"},
    }
)
"""By canonical kind, beside what a payload of any kind may name."""


EFFECT_KINDS: Mapping[str, EffectKind] = MappingProxyType(
    {
        row.name: replace(row, references={**_DRAWN, **_REFERENCES.get(row.canonical, {})})
        for row in _ROWS
    }
)


def canonical_kind(name: str) -> str:
    """Return the kind whose rules a registered name follows."""
    return EFFECT_KINDS[name].canonical


def expected_reversibility(name: str, node_kind: str | None) -> str:
    """Return the classification of a registered kind, its node kind considered (§4.3.1)."""
    kind = EFFECT_KINDS[name]
    return kind.overrides.get(node_kind or "", kind.reversibility)


def expected_compensations(name: str, payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what makes up for an effect; for a transition, what leads back from it (§4.3.19)."""
    if canonical_kind(name) == "membership_state_transition":
        step = (str(payload.get("from_state")), str(payload.get("to_state")))
        if step in TRANSITIONS:
            return (TRANSITIONS[step].compensated_by,)
    return EFFECT_KINDS[name].compensations
