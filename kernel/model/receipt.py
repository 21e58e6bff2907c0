"""Receipt kinds and how long each is kept (§17.1, §17.2, §17.6).

Durable receipts are chained and verified with the log. Ephemeral ones say something about a
moment (a request entered a queue) and are purged.
"""

from dataclasses import dataclass
from typing import Any, Literal

Retention = Literal["durable", "ephemeral"]

MIGRATION_KIND = "needs_migration_review"
"""An item of a review queue: a lite envelope that migration cannot map (§2.8)."""

RECEIPT_KINDS: dict[str, Retention] = {
    "envelope_validation_failed": "durable",
    "audit_replay": "ephemeral",
    "replay_blocked_fingerprint_mismatch": "durable",
    "binding_fire_capacity_rejected": "durable",
    "work_requested": "durable",
    "work_request_closed": "durable",
    "tier_1_rollback": "durable",
    "tier_2_rollback": "durable",
    "tier_3_rebuild": "durable",
    "rollback_partial_external_effect_persists": "durable",
    "simulation_external_effect_blocked": "durable",
    "recorded_model_output": "durable",
    "recorded_model_output_collected": "durable",
    "operation_archived": "durable",
    "binding_generation_snapshot": "durable",
    "extraction_attempt": "durable",
    "membership_state_transition": "durable",
    "policy_generation_advance": "durable",
    "envelope_commit_rolled_back": "durable",
    "request_unprocessable": "durable",
    "mailbox_entry_set_aside": "durable",
    "kernel_event_log_integrity_violation": "durable",
    "taint_propagation": "durable",
    "source_span_unavailable": "durable",
    "authority_recompute_request": "ephemeral",
    "authority_recompute_completed": "durable",
    "authority_recompute_dead_lettered": "durable",
    "authority_recompute_enqueued": "durable",
    "authority_cascade_deferred": "durable",
    "cu_authority_cycle_detected": "durable",
    "cascade_depth_exceeded": "durable",
    "external_effect_performed": "durable",
    "external_effect_failed": "durable",
    "search_run_record": "durable",
    "binding_fire_record": "durable",
    "binding_evaluation_manifest": "durable",
    "profile_assign": "durable",
    "metadata_field_override": "durable",
    "access_overlay_override": "durable",
    "simulation_preview_emit": "ephemeral",
    "simulation_external_effect_policy_check": "ephemeral",
    "visibility_taint_warning_record": "durable",
    "epoch_opened": "durable",
    "epoch_closed": "durable",
    "simulation_preview_payload": "ephemeral",
    "simulation_not_supported_for_operation_kind": "durable",
    "capacity_lease": "durable",
    "capacity_alert": "durable",
    "capacity_override": "durable",
    "quota_exceeded_alert": "durable",
    "envelope_conflict_user_review_required": "durable",
    MIGRATION_KIND: "durable",
    "review_item_discarded": "durable",
    "belief_sessions_anchored": "durable",
}

SIMULATION_RECEIPTS = frozenset(
    {
        "simulation_preview_emit",
        "simulation_external_effect_policy_check",
        "visibility_taint_warning_record",
    }
)
"""What a simulation emits, and nothing else does."""

RETENTION_CHOSEN = frozenset({"simulation_preview_emit", "simulation_external_effect_policy_check"})
"""Kinds that are kept as long as their own `retention_class` says (§17.6)."""

STATED_BY_ENVELOPES = frozenset(
    {
        "source_span_unavailable",
        "search_run_record",
        "binding_fire_record",
        "binding_evaluation_manifest",
        "profile_assign",
        "metadata_field_override",
        "access_overlay_override",
        *SIMULATION_RECEIPTS,
    }
)
"""What a receipt_only effect may emit; every other kind is the kernel's own word."""

STATED_UNDER_VERB: dict[str, frozenset[str]] = {
    "rollback": frozenset({"tier_1_rollback"}),
    "epoch_rollback": frozenset({"tier_2_rollback", "rollback_partial_external_effect_persists"}),
    "rebuild": frozenset({"tier_3_rebuild", "rollback_partial_external_effect_persists"}),
    "epoch_open": frozenset({"epoch_opened"}),
    "epoch_close": frozenset({"epoch_closed"}),
    "review_discard": frozenset({"review_item_discarded"}),
    "enqueue_recalculate_authority": frozenset({"authority_recompute_enqueued"}),
    "belief_anchor": frozenset({"belief_sessions_anchored"}),
}
"""What a receipt_only effect may emit under these verbs, and nothing else (§5.6)."""

TIME_FIELDS = {
    "tier_1_rollback": "committed_at",
    "tier_2_rollback": "committed_at",
    "rollback_partial_external_effect_persists": "committed_at",
    "tier_3_rebuild": "restored_at",
}
"""Fields that hold the time at which the operation was committed."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """An observation that the kernel made; `body` holds the fields of its kind."""

    receipt_kind: str
    body: dict[str, Any]
    upgraded: bool = False
    """Kept durably although its kind need not be; nothing is ever kept for less (§17.7)."""

    @property
    def retention_class(self) -> Retention:
        """How long this receipt is kept."""
        if self.receipt_kind in RETENTION_CHOSEN and self.body.get("retention_class") == "durable":
            return "durable"
        return "durable" if self.upgraded else RECEIPT_KINDS[self.receipt_kind]
