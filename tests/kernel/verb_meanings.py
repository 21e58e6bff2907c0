"""The semantic verbs as the specification writes them down (§3.3, §3.6), not as the registry does.

A row of §3.3 is what a verb decomposes into and what each of these effects says. What §3.6 forbids,
and what a name contradicts, stands beside it. K28 gives every kind that no verb reaches a verb of
its own name.
"""

from typing import Any

from tests.kernel.build import effect
from tests.kernel.every import binding, snapshot

HASH = "ab" * 32

DECOMPOSITION: dict[str, tuple[str, ...]] = {
    "create": ("node_write", "membership_write"),
    "merge": ("node_write", "edge_create", "materialized_view_invalidation"),
    "split": ("node_write", "edge_remove", "materialize"),
    "supersede": ("node_write", "edge_create"),
    "mark_contested": ("node_write", "edge_create"),
    "collapse": ("node_retract",),
    "retract": ("node_write",),
    "restore": ("node_write",),
    "field_lock": ("node_write",),
    "field_adapt": ("node_write",),
    "annotate": ("node_write",),
    "recalculate_authority": ("node_write", "index_update"),
    "soft_delete": ("node_write",),
    "mark_chain_complete": ("edge_create", "node_write"),
    "corpus_membership_add": ("membership_write",),
    "corpus_membership_confirm": ("membership_write",),
    "corpus_membership_reject": ("membership_write",),
    "source_binding_create": ("node_write", "edge_create"),
    "source_binding_update": ("node_write",),
    "source_binding_disable": ("node_write",),
    "binding_fire_record": ("receipt_only",),
    "profile_assign": ("node_write", "receipt_only"),
    "metadata_field_set": ("node_write",),
    "metadata_field_override": ("node_write", "receipt_only"),
    "document_relationship_create": ("edge_create",),
    "document_relationship_update": ("edge_reclassify",),
    "topic_assign": ("membership_write", "index_update"),
    "document_materialize": ("materialize", "index_update"),
    "search_run_record": ("receipt_only",),
    "simulate": ("receipt_only", "receipt_only", "receipt_only"),
    # §16 and §4.3.12 have the receipt of a step written by the step itself.
    "extraction_state_change": ("extraction_state_transition",),
}

SIMULATION = (
    "simulation_preview_emit",
    "simulation_external_effect_policy_check",
    "visibility_taint_warning_record",
)

STATED: dict[tuple[str, str], dict[str, Any]] = {
    ("supersede", "edge_create"): {"edge_type": "supersedes"},
    ("mark_contested", "edge_create"): {"edge_type": "contradicts"},
    ("mark_chain_complete", "edge_create"): {"edge_type": "chain_complete"},
    ("retract", "node_write"): {"state": "retracted"},
    ("collapse", "node_write"): {"state": "retracted"},
    ("soft_delete", "node_write"): {"state": "soft_deleted"},
    ("restore", "node_write"): {"state": "active"},
    ("source_binding_disable", "node_write"): {"state": "disabled"},
    ("source_binding_create", "node_write"): {"node_kind": "SourceBinding"},
    ("source_binding_create", "binding_generation_advance"): {"binding_generation_id": "1"},
    ("field_lock", "node_write"): {"field_lock": ["title"]},
    ("profile_assign", "node_write"): {"profile": "p"},
    ("corpus_membership_add", "membership_write"): {"to_state": "candidate"},
    ("corpus_membership_confirm", "membership_write"): {"to_state": "confirmed"},
    ("corpus_membership_reject", "membership_write"): {"to_state": "rejected"},
}
"""What the table of §3.3 says in brackets, by verb and kind."""

FORBIDDEN: dict[str, tuple[str, ...]] = {
    "simulate": (
        *("node_write", "edge_create", "edge_remove", "membership_write"),
        *("document_artifact_write", "materialize", "materialization_emit"),
        *("share_link_grant", "share_link_revoke", "filing_unit_write"),
        *("filing_unit_version_write", "ruling_disposition_write"),
        *("court_disposition_observation_write", "binding_generation_advance"),
        "policy_snapshot_advance",
    ),
    "search_run_record": ("node_write", "edge_create", "membership_write", "materialize"),
    "binding_fire_record": ("node_write",),
    "extraction_state_change": ("node_write",),
}
"""The excerpt of §3.6."""

_MEMBERSHIP = "membership_state_transition"

CONTRADICTING: tuple[tuple[str, str, dict[str, Any]], ...] = (
    # An effect in place of the one that the row has, or beside it.
    ("create", "membership_write", {"to_state": "confirmed"}),
    *(
        ("supersede", kind, {"edge_type": "informs"})
        for kind in ("edge_create", "edge_write", "attach_source_binding")
    ),
    ("supersede", "edge_create", {}),
    ("supersede", "edge_reclassify", {"edge_type": "contradicts"}),
    ("mark_contested", "edge_create", {"edge_type": "supersedes"}),
    ("mark_chain_complete", "edge_create", {"edge_type": "contradicts"}),
    ("retract", "node_write", {"state": "active"}),
    ("retract", "node_write", {"title": "t"}),
    ("retract", "node_write", {"state": "retracted", "title": "t"}),
    ("retract", "membership_write", {"to_state": "confirmed"}),
    ("collapse", "node_write", {"state": "active"}),
    ("soft_delete", "node_write", {"state": "retracted"}),
    ("restore", "node_write", {"state": "retracted"}),
    ("restore", "node_write", {"access_restriction": "none"}),
    ("restore", "membership_write", {"to_state": "rejected"}),
    # No row of §3.3 gives these a state: what they take they retract, and nothing else moves.
    *(("merge", "node_write", {"state": state}) for state in ("active", "retracted", "merged")),
    *(("split", "node_write", {"state": state}) for state in ("active", "retracted", "x")),
    ("merge", "node_write", {"field_lock": []}),
    ("split", "node_write", {"field_lock": []}),
    # §3.3: a binding begins as pending_intake (§13.2), in its first generation (§15.3).
    ("source_binding_create", "node_write", {}),
    ("source_binding_create", "node_write", {"node_kind": "Note"}),
    *(
        ("source_binding_create", "node_write", {"node_kind": "SourceBinding", field: value})
        for field, value in (
            ("state", "active"),
            ("field_lock", []),
            *(("lifecycle_state", state) for state in ("fired", "disabled", "evaluated", None)),
        )
    ),
    ("source_binding_create", "binding_generation_advance", {"binding_generation_id": "2"}),
    ("source_binding_create", "binding_generation_advance", {}),
    # §15.3: what a binding means is in a generation; so is that it is enabled again (§13.2).
    *(
        (f"source_binding_{verb}", "node_write", {"node_kind": "SourceBinding", field: value})
        for verb in ("create", "update")
        for field, value in snapshot(priority=1, resource_policy={}).items()
    ),
    ("source_binding_update", "node_write", {"state": "active"}),
    ("source_binding_update", "node_write", {"node_kind": "Note"}),
    ("source_binding_update", "node_write", {"state": "disabled"}),
    ("source_binding_update", "node_write", {"field_lock": []}),
    *(
        ("source_binding_update", "node_write", {"lifecycle_state": state})
        for state in ("disabled", "ready_to_evaluate", "pending_intake")
    ),
    ("source_binding_disable", "node_write", {"state": "active"}),
    ("source_binding_disable", "node_write", {"selectors": []}),
    ("field_lock", "node_write", {"title": "t"}),
    ("field_lock", "node_write", {"field_lock": ["a"], "title": "t"}),
    ("metadata_field_set", "node_write", {"field_lock": []}),
    ("annotate", "node_write", {"field_lock": []}),
    ("field_adapt", "node_write", {"field_lock": []}),
    ("profile_assign", "node_write", {"title": "t"}),
    ("corpus_membership_add", "membership_write", {"to_state": "confirmed"}),
    ("corpus_membership_add", "membership_write", {"to_state": ["candidate"]}),
    ("corpus_membership_confirm", "membership_write", {"to_state": "rejected"}),
    ("corpus_membership_confirm", "membership_write", {}),
    ("corpus_membership_reject", "membership_write", {"to_state": "confirmed"}),
    ("corpus_membership_reject", "membership_write", {}),
    ("corpus_membership_reject", _MEMBERSHIP, {"to_state": "confirmed"}),
    ("topic_assign", "membership_write", {"to_state": "rejected"}),
)
"""What no effect of a verb may say, whatever else the operation has."""

_DISPOSITIONS = (
    *("quarantine", "unquarantine", "authorize_access", "revoke_access"),
    *("rescope", "visibility_change", "review_disposition"),
)
_LEAVES_OR_RULES = (
    *("document_artifact_write", "materialization_emit", "share_link_grant", "share_link_revoke"),
    *("policy_snapshot_advance", "policy_reclassify", "policy_snapshot_revert"),
)
_TAKES = frozenset({"collapse", "retract", "soft_delete", "merge", "split", "supersede"})
_MOVES_MEMBERS = frozenset({"create", "restore", "topic_assign"}) | (_TAKES - {"supersede"})
_OBSERVES = frozenset(
    {"simulate", "search_run_record", "binding_fire_record", "extraction_state_change"}
)

UNSPOKEN: tuple[tuple[str, str], ...] = (
    # What leaves, what rules, and what disposes of a node is said by a verb of its own.
    *((verb, kind) for verb in sorted(set(DECOMPOSITION)) for kind in _DISPOSITIONS),
    *((verb, kind) for verb in ("create", "annotate", "split") for kind in _LEAVES_OR_RULES[2:]),
    *((verb, kind) for verb in ("merge", "restore", "retract") for kind in _LEAVES_OR_RULES),
    *((verb, "node_retract") for verb in sorted(set(DECOMPOSITION) - _TAKES)),
    *(
        (verb, kind)
        for verb in sorted(set(DECOMPOSITION) - _MOVES_MEMBERS)
        if not verb.startswith("corpus_membership")
        for kind in ("membership_write", _MEMBERSHIP, f"{_MEMBERSHIP}_reject")
    ),
    # What adds takes nothing of it away.
    *(
        (verb, "membership_revoke")
        for verb in ("create", "corpus_membership_confirm", "topic_assign")
    ),
    ("source_binding_create", "binding_generation_revert"),
    ("source_binding_create", "detach_source_binding"),
    ("source_binding_disable", "binding_generation_advance"),
    ("source_binding_disable", "binding_generation_revert"),
    ("source_binding_disable", "attach_source_binding"),
    ("document_relationship_create", "detach_source_binding"),
    *(
        ("recalculate_authority", kind)
        for kind in ("binding_generation_advance", "filing_unit_write", "topic_assignment_write")
    ),
    *((verb, "index_update") for verb in sorted(_OBSERVES)),
    *(
        (verb, "membership_revoke")
        for verb in ("annotate", "field_adapt", "metadata_field_set", "profile_assign", "restore")
    ),
    ("corpus_membership_add", "membership_revoke"),
    ("document_relationship_create", "edge_remove"),
    ("topic_assign", "topic_unassign"),
)
"""Kinds that a verb does not carry: they mean something that its name does not say."""

CARRIED: tuple[tuple[str, str], ...] = (
    *((verb, "membership_write") for verb in sorted(_MOVES_MEMBERS)),
    *((verb, "node_retract") for verb in sorted(_TAKES)),
)
"""Kinds that a verb carries beside its own: what hangs on a node, and what takes a node."""

OWN_RECEIPT: dict[str, tuple[str, ...]] = {
    "binding_fire_record": ("binding_fire_record", "binding_evaluation_manifest"),
    "search_run_record": ("search_run_record",),
    "profile_assign": ("profile_assign",),
    "metadata_field_override": ("metadata_field_override",),
}
"""Verbs whose row of §3.3 has a receipt: theirs alone makes the operation."""


def spoken(verb: str, kind: str, number: int = 0, **fields: Any) -> dict[str, Any]:
    """An effect of a verb that says what the verb does."""
    spoken_effect = effect(kind, None if kind == "receipt_only" else f"x-{number}")
    spoken_effect["payload"] = {**STATED.get((verb, kind), {}), **fields}
    spoken_effect["effect_id"] = str(number)
    if verb == "simulate":
        spoken_effect["receipt_subkind"] = SIMULATION[number % len(SIMULATION)]
    elif kind == "receipt_only" and verb in OWN_RECEIPT:
        spoken_effect["receipt_subkind"] = OWN_RECEIPT[verb][0]
    return spoken_effect


def composed(verb: str) -> list[dict[str, Any]]:
    """The effects of a verb's row, in its order."""
    kinds = DECOMPOSITION.get(verb, (verb,))
    effects = [spoken(verb, kind, number) for number, kind in enumerate(kinds)]
    # §3.5 and §15.3 have the first generation beside what the row says.
    return [*effects, binding(1, "x-0")] if verb == "source_binding_create" else effects
