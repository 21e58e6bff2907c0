"""Lists the receipt kinds: what each says, and how long it is kept (§17.1, §17.2, §17.6).

Durable receipts are chained and verified with the log. Ephemeral ones say something about a
moment (a request entered a queue) and are purged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from kernel.model import landscape_receipts as landscape
from kernel.model import receipt_bodies as own
from kernel.model import stated_receipts as stated
from kernel.model import thought_receipts as thoughts
from kernel.model.envelope import Envelope
from kernel.model.problems import first_problem
from kernel.model.receipt_bodies import HEADER_FIELDS, ReceiptBody
from kernel.model.rules_version import RULES_VERSION
from kernel.values.errors import KernelError

Retention = Literal["durable", "ephemeral"]

_Stated = TypeVar("_Stated", bound=BaseModel)

MIGRATION_KIND = "needs_migration_review"
"""An item of a review queue: a lite envelope that migration cannot map (§2.8)."""

EPHEMERAL_DAYS = 1


class ReceiptBodyInvalid(KernelError):
    """A receipt whose body does not fit the model of its kind; nothing of it was written."""

    code = "receipt_body_invalid"

    def __init__(self, receipt_kind: str, field: str, message: str) -> None:
        super().__init__(f"{receipt_kind}: {field or 'the body'}: {message}")
        self.field = field
        """The place in the body, its parts joined by dots."""


@dataclass(frozen=True, slots=True)
class ReceiptKind:
    """One row of the registry: what a receipt says, and how long it is kept (§17.6)."""

    body: type[ReceiptBody]
    retention: Retention
    days: int | None
    """After which it is purged; None where it is kept for good."""

    def problem(self, body: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the first place at which a body does not fit, and why; None where it fits."""
        try:
            self.body.__pydantic_validator__.validate_python(body)
        except ValidationError as error:
            return first_problem(error)
        return None


def _durable(body: type[ReceiptBody]) -> ReceiptKind:
    return ReceiptKind(body, "durable", days=None)


def _ephemeral(body: type[ReceiptBody]) -> ReceiptKind:
    return ReceiptKind(body, "ephemeral", days=EPHEMERAL_DAYS)


RECEIPT_KINDS: Mapping[str, ReceiptKind] = MappingProxyType(
    {
        "envelope_validation_failed": _durable(own.EnvelopeRefused),
        "binding_predicate_not_supported_v16": _durable(own.EnvelopeRefused),
        "audit_replay": _ephemeral(own.AuditReplay),
        "replay_blocked_fingerprint_mismatch": _durable(own.ReplayBlocked),
        "binding_fire_capacity_rejected": _durable(own.BindingFireCapacityRejected),
        "work_requested": _durable(own.WorkRequested),
        "work_request_closed": _durable(own.WorkRequestClosed),
        "binding_outcome_pending": _durable(own.BindingOutcomePending),
        "work_request_dismissed": _durable(own.WorkRequestDismissed),
        "work_request_prioritized": _durable(own.WorkRequestPrioritized),
        "bulk_operation_begun": _durable(own.BulkOperationBegun),
        "bulk_operation_advanced": _durable(own.BulkOperationAdvanced),
        "work_queue_paused": _durable(own.WorkQueueSwitched),
        "work_queue_resumed": _durable(own.WorkQueueSwitched),
        "work_queue_registered": _durable(own.WorkQueueRegistered),
        "access_granted": _durable(own.AccessGranted),
        "access_withdrawn": _durable(own.AccessGranted),
        "access_key_created": _durable(own.AccessKeyCreated),
        "access_key_revoked": _durable(own.AccessKeyRevoked),
        "access_denied": _durable(own.AccessDenied),
        "binding_routing_page": _durable(own.BindingRoutingPage),
        "tier_1_rollback": _durable(stated.Tier1Rollback),
        "tier_2_rollback": _durable(stated.Tier2Rollback),
        "tier_3_rebuild": _durable(stated.Tier3Rebuild),
        "rollback_partial_external_effect_persists": _durable(stated.PartialExternalEffectPersists),
        "simulation_external_effect_blocked": _durable(own.SimulationBlocked),
        "recorded_model_output": _durable(own.ModelOutputRecorded),
        "recorded_model_output_collected": _durable(own.ModelOutputCollected),
        "payload_erased": _durable(own.PayloadErased),
        "legal_hold_set": _durable(own.LegalHoldSet),
        "legal_hold_lifted": _durable(own.LegalHoldLifted),
        "operation_archived": _durable(own.OperationArchived),
        "thought_contents_archived": _durable(own.ThoughtContentsArchived),
        "thought_records_archived": _durable(own.ThoughtRecordsArchived),
        "round_records_archived": _durable(own.RoundRecordsArchived),
        "round_contents_archived": _durable(own.RoundContentsArchived),
        "log_segment_archived": _durable(own.LogSegmentArchived),
        "log_segment_released": _durable(own.LogSegmentReleased),
        "log_segment_collected": _durable(own.LogSegmentCollected),
        "binding_generation_snapshot": _durable(own.BindingGenerationSnapshotted),
        "extraction_attempt": _durable(own.ExtractionAttempted),
        "membership_state_transition": _durable(own.MembershipStateTransition),
        "policy_generation_advance": _durable(own.PolicyGenerationAdvance),
        "envelope_commit_rolled_back": _durable(own.CommitRolledBack),
        "request_unprocessable": _durable(own.UnprocessableRequest),
        "mailbox_entry_set_aside": _durable(own.MailboxEntrySetAside),
        "kernel_event_log_integrity_violation": _durable(own.IntegrityViolationPlaced),
        "log_quarantine_lifted": _durable(own.LogQuarantineLifted),
        "ledger_went_back": _durable(own.LedgerBehindAnswers),
        "ledger_head_accepted": _durable(own.LedgerHeadAccepted),
        "taint_propagation": _durable(own.TaintPropagation),
        "source_span_unavailable": _durable(stated.SourceSpanUnavailable),
        "node_write_event": _ephemeral(own.NodeWritten),
        "authority_recompute_request": _ephemeral(own.AuthorityRecomputeRequest),
        "authority_recompute_completed": _durable(own.AuthorityRecomputeCompleted),
        "authority_recompute_dead_lettered": _durable(own.AuthorityRecomputeDeadLettered),
        "authority_recompute_enqueued": _durable(stated.RecomputeRequested),
        "authority_cascade_deferred": _durable(own.AuthorityCascadeDeferred),
        "cu_authority_cycle_detected": _durable(own.AuthorityLeftOut),
        "cascade_depth_exceeded": _durable(own.AuthorityLeftOut),
        "external_effect_performed": _durable(stated.ExternalEffectPerformed),
        "external_effect_failed": _durable(stated.ExternalEffectFailed),
        "search_run_record": _durable(stated.SearchRun),
        "binding_fire_record": _durable(stated.BindingFired),
        "binding_evaluation_manifest": _durable(stated.BindingEvaluationManifest),
        "profile_assign": _durable(stated.ProfileAssigned),
        "metadata_field_override": _durable(stated.MetadataFieldOverride),
        "access_overlay_override": _durable(stated.AccessOverlayOverride),
        "simulation_preview_emit": _ephemeral(stated.SimulationPreviewEmitted),
        "simulation_external_effect_policy_check": _ephemeral(stated.SimulationPolicyChecked),
        "visibility_taint_warning_record": _durable(stated.VisibilityTaintWarning),
        "epoch_opened": _durable(stated.EpochBoundary),
        "epoch_closed": _durable(stated.EpochBoundary),
        "simulation_preview_payload": _ephemeral(own.SimulationPayload),
        "simulation_not_supported_for_operation_kind": _durable(own.SimulationNotSupported),
        "capacity_lease": _durable(own.CapacityLease),
        "capacity_alert": _durable(own.CapacityShort),
        "capacity_override": _durable(own.CapacityOverridden),
        "quota_exceeded_alert": _durable(own.QuotaAlert),
        "envelope_conflict_user_review_required": _durable(own.ConflictToReview),
        MIGRATION_KIND: _durable(own.MigrationToReview),
        "review_item_discarded": _durable(stated.ReviewItemDiscarded),
        "batch_review_operation": _durable(stated.BatchReviewOperation),
        "belief_sessions_anchored": _durable(stated.BeliefAnchor),
        "implication_detection_run": _durable(stated.ImplicationRun),
        "implication_detection_halted": _durable(stated.ImplicationHalt),
        "implication_detection_resumed": _durable(stated.ImplicationResumed),
        "implication_detection_cycle_exceeded": _durable(own.ImplicationCycleExceeded),
        "landscape_run_sealed": _durable(landscape.RunSealed),
        "run_records_anchored": _durable(landscape.RunRecordsAnchored),
        "audit_session_started": _durable(thoughts.AuditSessionStarted),
        "thought_recorded": _durable(thoughts.ThoughtRecorded),
        "thought_chain_verified": _durable(thoughts.ThoughtChainVerified),
        "session_sealed": _durable(thoughts.SessionSealed),
        "audit_session_ended": _durable(thoughts.AuditSessionEnded),
        "round_opened": _durable(thoughts.RoundOpened),
        "round_sealed": _durable(thoughts.RoundSealed),
        "checkpoint_key_handed_over": _durable(stated.KeyHandedOver),
        "operator_decided": _durable(stated.OperatorDecided),
        "receipts_sealed": _durable(stated.ReceiptsSealed),
    }
)
"""Every kind; a version of the rules has a table of its own (`kernel/transaction/rules.py`)."""

_KINDS_SINCE_2 = frozenset(
    {
        *("log_quarantine_lifted", "ledger_went_back", "ledger_head_accepted"),
        *("receipts_sealed", "run_records_anchored", "work_queue_registered"),
        *("access_granted", "access_withdrawn", "access_key_created", "access_key_revoked"),
        "access_denied",
    }
)

RECEIPT_KINDS_1: Mapping[str, ReceiptKind] = MappingProxyType(
    {name: kind for name, kind in RECEIPT_KINDS.items() if name not in _KINDS_SINCE_2}
    | {"kernel_event_log_integrity_violation": _durable(own.IntegrityViolation)}
)
"""The kinds of version 1 of the rules, which has none of these."""

MANIFEST_RECEIPT = "binding_evaluation_manifest"

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
    "batch_review": frozenset({"batch_review_operation"}),
    "enqueue_recalculate_authority": frozenset({"authority_recompute_enqueued"}),
    "belief_anchor": frozenset({"belief_sessions_anchored"}),
    "implication_run": frozenset({"implication_detection_run"}),
    "implication_halt": frozenset({"implication_detection_halted"}),
    "implication_resume": frozenset({"implication_detection_resumed"}),
    "landscape_run_seal": frozenset({"landscape_run_sealed"}),
    "receipts_seal": frozenset({"receipts_sealed"}),
    "audit_session_start": frozenset({"audit_session_started"}),
    "thought_record": frozenset({"thought_recorded"}),
    "audit_verify_chain": frozenset({"thought_chain_verified"}),
    "merkle_finalize": frozenset({"session_sealed"}),
    "audit_session_end": frozenset({"audit_session_ended"}),
    "round_open": frozenset({"round_opened"}),
    "round_seal": frozenset({"round_sealed"}),
    "checkpoint_key_handover": frozenset({"checkpoint_key_handed_over"}),
    **dict.fromkeys(
        (
            *("queue_pause", "queue_resume"),
            *("request_requeue", "request_dismiss", "request_cancel", "request_prioritize"),
            *("payload_erase", "hold_set", "hold_lift", "quarantine_lift", "ledger_head_accept"),
            *("access_grant", "access_withdraw", "access_key_create", "access_key_revoke"),
        ),
        frozenset({"operator_decided"}),
    ),
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
    """Kept durably although its kind is ephemeral; no receipt is kept for less (§17.7)."""


@dataclass(frozen=True, slots=True)
class ReceiptRules:
    """The receipt kinds of one version of the rules (K30)."""

    version: int
    kinds: Mapping[str, ReceiptKind]

    def check(self, receipt: Receipt) -> None:
        """Refuse a receipt whose body is not what its kind says.

        Raises:
            ReceiptBodyInvalid: naming the first place that does not fit.
        """
        kind = self.kinds.get(receipt.receipt_kind)
        if kind is None:
            raise ReceiptBodyInvalid(receipt.receipt_kind, "", "nobody knows the kind")
        problem = kind.problem(receipt.body)
        if problem is not None:
            raise ReceiptBodyInvalid(receipt.receipt_kind, *problem)

    def problem(self, document: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return where, and why, a recorded receipt is not what its kind says; it is known."""
        body = {name: value for name, value in document.items() if name not in HEADER_FIELDS}
        return self.kinds[document["receipt_kind"]].problem(body)

    def retention_of(self, receipt: Receipt) -> Retention:
        """Return how long a receipt is kept."""
        kind = receipt.receipt_kind
        if kind in RETENTION_CHOSEN and receipt.body.get("retention_class") == "durable":
            return "durable"
        return "durable" if receipt.upgraded else self.kinds[kind].retention


CURRENT_RECEIPTS = ReceiptRules(RULES_VERSION, RECEIPT_KINDS)
"""What new receipts are recorded under."""


def receipt_effect(
    receipt_kind: str, body: Mapping[str, Any], *, effect_id: str | None = None
) -> dict[str, Any]:
    """Return the effect that emits a receipt."""
    return {
        "effect_id": effect_id or receipt_kind,
        "effect_kind": "receipt_only",
        "reversibility": "receipt_only",
        "receipt_subkind": receipt_kind,
        "payload": body,
        "schema_version": 1,
    }


def sole_receipt(envelope: Envelope, kind: str, model: type[_Stated]) -> _Stated:
    """Return what an envelope states in its one receipt of a kind.

    Raises:
        ValueError: it states none, or several, or one that its model does not take.
    """
    stated = [
        effect.payload for effect in envelope.primitive_effects if effect.receipt_subkind == kind
    ]
    if len(stated) != 1:
        raise ValueError(f"states {kind} once")
    try:
        return model.model_validate(stated[0])
    except ValidationError as error:
        raise ValueError(first_problem(error)[1]) from None
