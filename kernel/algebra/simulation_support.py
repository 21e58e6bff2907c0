"""Lists the support for simulation of each operation kind, and why it is no more (§11.4, K29).

The table is complete. A kind without a line is not simulatable, and a test fails for a kind that
was added without one.
"""

from collections.abc import Mapping
from types import MappingProxyType

PURE_DETERMINISTIC = "pure_deterministic"
RECORDED_OUTPUT = "llm_recorded_output"
MODEL_PERMITTED = "llm_invocation_permitted_for_simulation"
NOT_SIMULATABLE = "not_simulatable_v1_6"

_GROUPS: Mapping[str, tuple[str, ...]] = {
    # What happens follows from the envelope and the state: applying it and undoing it shows all.
    PURE_DETERMINISTIC: (
        # nodes
        *("create", "merge", "split", "supersede", "mark_contested", "collapse", "retract"),
        *("restore", "soft_delete", "field_lock", "field_adapt", "annotate", "profile_assign"),
        *("metadata_field_set", "metadata_field_override", "mark_chain_complete"),
        *("node_revert_to_prior_authority", "rescope", "visibility_change"),
        *("review_disposition", "quarantine", "unquarantine", "authorize_access"),
        *("revoke_access", "anchor_node_promotion", "anchor_node_demotion"),
        "recalculate_authority",
        # edges
        *("document_relationship_create", "document_relationship_update", "edge_write"),
        *("attach_source_binding", "detach_source_binding"),
        *("filing_relationship_write", "filing_relationship_retract"),
        # memberships
        *("corpus_membership_confirm", "corpus_membership_reject", "membership_revoke"),
        "corpus_membership_defer",
        "membership_state_transition",
        *(f"membership_state_transition_{step}" for step in ("block", "unblock", "reject")),
        *(f"membership_state_transition_{step}" for step in ("soft_delete", "restore")),
        "membership_state_transition_reverse_rejection",
        "membership_state_transition_reject_and_re_propose",
        # bindings and policies
        *("source_binding_create", "source_binding_update", "source_binding_disable"),
        *("binding_generation_advance", "binding_generation_revert", "binding_fire_record"),
        *("policy_snapshot_advance", "policy_reclassify", "policy_snapshot_revert"),
        # filings and what courts did
        *("filing_unit_write", "filing_unit_retract"),
        *("filing_unit_version_write", "filing_unit_version_retract"),
        *("filing_unit_text_version_write", "filing_unit_text_version_retract"),
        *("ruling_disposition_write", "ruling_disposition_retract"),
        *("court_disposition_observation_write", "court_disposition_observation_retract"),
        *("case_resolution_event_write", "case_resolution_event_retract"),
        # derived: computable again
        *("index_revert", "materialized_view_recompute", "search_run_record"),
        # The record is deterministic; what it sets off outside is for the policy to forbid.
        *("document_artifact_write", "document_materialize", "materialization_emit"),
        *("share_link_grant", "share_link_revoke"),
    ),
    # They write a model's answer, which the envelope carries, so no model is asked again.
    RECORDED_OUTPUT: (
        *("topic_assign", "topic_assignment_write", "topic_unassign"),
        *("extraction_state_change",),
    ),
    # What follows depends on what a model would say, so a preview may show a prediction.
    MODEL_PERMITTED: ("corpus_membership_add", "synthesize_consolidated_understanding"),
    # A simulation names another as its source and is not its target (§11.9). A manifest says what
    # an evaluation came to, which runs elsewhere and has no outcome before it has run.
    # Undoing has a dry run of its own; the bounds of an epoch and a discarded item change no state.
    NOT_SIMULATABLE: (
        *("simulate", "binding_evaluation_manifest_emit"),
        *("rollback", "epoch_rollback", "rebuild", "epoch_open", "epoch_close"),
        # What would be asked for is seen in the authorities that would change.
        *("external_effect_report", "review_discard", "enqueue_recalculate_authority"),
        *("belief_anchor", "batch_review"),
        *("implication_run", "implication_halt", "implication_resume"),
        # What they state is computed from the records of a run, and from receipts.
        *("landscape_run_seal", "receipts_seal"),
        # Each link of a chain rests on the one before, and a seal on all of them.
        *("audit_session_start", "thought_record", "audit_verify_chain", "merkle_finalize"),
        *("audit_session_end", "round_open", "round_seal"),
        # What people decide about the runtime changes no state of the domain.
        *("queue_pause", "queue_resume", "request_requeue", "request_dismiss", "request_cancel"),
        "request_prioritize",
        *("payload_erase", "hold_set", "hold_lift", "quarantine_lift", "ledger_head_accept"),
        *("access_grant", "access_withdraw", "access_key_create", "access_key_revoke"),
        # What is signed is signed.
        "checkpoint_key_handover",
    ),
}

SIMULATION_SUPPORT_LEVELS: Mapping[str, str] = MappingProxyType(
    {kind: level for level, kinds in _GROUPS.items() for kind in kinds}
)


def simulation_support_level(operation_kind: str) -> str:
    """Return how far a kind can be simulated; a kind without a line cannot be."""
    return SIMULATION_SUPPORT_LEVELS.get(operation_kind, NOT_SIMULATABLE)
