"""Models the receipts that envelopes state, one for each kind (§5.6, §9.3, §11, §15).

Fields that the specification names have its names. Of kinds whose schema another document owns, a
model has the fields that are needed here.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from kernel.model.numbers import Count, NonNegative, PositiveCount
from kernel.model.receipt_bodies import (
    Document,
    ExternalEffectViolated,
    ReceiptBody,
    Sequence,
    Sha256,
)

ANCHORED_SESSIONS_MAX = 256
"""How many sessions one operation may anchor."""

SESSION_ID_CHARS_MAX = 384
PAGE_REQUESTS_MAX = 256
"""How many recomputes one operation may ask for by name."""

WRITTEN_MAX = 8
BATCH_ITEMS_MAX = 200
"""Items of one batch review: their operations are one transaction."""

FAILURE_CHARS_MAX = 300

Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]
KeyText = Annotated[str, StringConstraints(max_length=4096)]
"""The public half of a key as a line of text; one of ML-DSA-44 has about 2,000 characters."""

_Keys = Annotated[list[KeyText], Field(min_length=1, max_length=4, fail_fast=True)]
Names = Annotated[list[Name], Field(max_length=10_000, fail_fast=True)]
RecomputePriority = Literal[
    "user_initiated_critical",
    "user_active_session",
    "high_access_frequency",
    "background_normal",
    "background_low_priority",
]

ReviewDisposition = Literal["confirm", "reject", "defer", "split", "merge_with"]

_LongName = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
_PageNames = Annotated[list[Name], Field(max_length=PAGE_REQUESTS_MAX, fail_fast=True)]
_Kept = Literal["ephemeral", "durable"]


# --- observations ---------------------------------------------------------------------------------


class SourceSpanUnavailable(ReceiptBody):
    """Why an understanding has no spans (§9.3)."""

    cu_node_ref: Name
    reason: Literal[
        "abstractive_synthesis_across_many_spans",
        "extraction_degraded_no_spans_available",
        "model_output_no_span_anchors",
        "user_marked_synthesis_no_spans",
    ]
    source_doc_refs: Names


class SearchRun(ReceiptBody):
    """A search that was run (§3.3)."""

    query: str
    hits: Count | None = None
    search_plan: Document | None = None
    result_refs: Names | None = None


class BindingFired(ReceiptBody):
    """One binding that fired on one event (§15.4)."""

    binding_id: Name
    source_event_id: Name | None = None
    binding_generation_id: Name | None = None
    manifest_id: Name | None = None
    outcome_target_ref: _LongName | None = None
    operation_id: Name | None = None
    """The operation that wrote what the fire made; none where its record is all there is."""


class BindingOutcome(ReceiptBody):
    """What evaluating one binding against one event came to (§13.5)."""

    outcome_id: Name
    source_event_id: Name
    binding_id: Name
    target_kind: Name
    outcome_state: Name
    outcome_target_ref: _LongName | None = None
    outcome_reason_code: Name
    schema_version: Literal[1] = 1


class BindingGenerationEvaluated(ReceiptBody):
    """The generation of a binding that was evaluated."""

    binding_id: Name
    binding_generation_id: Name
    binding_snapshot_at_eval: Any


class ResolvedConflict(ReceiptBody):
    """A conflict between bindings, and what was done about it."""

    conflict_class: Name
    resolution_strategy: Name
    affected_bindings: Names


class EvaluatedArtifact(ReceiptBody):
    """An artifact in the version that was judged, and the fields by which it was."""

    artifact_ref: Name
    artifact_version: PositiveCount
    artifact_digest: Sha256
    fields: dict[str, str]


class RecordedEvaluation(ReceiptBody):
    """What an outcome follows from beside its snapshot, and the records of its fire."""

    outcome_id: Name
    request_id: Name
    evaluated_on: Document | None = None
    """An `EvaluatedOn`; none where the evaluation was given up or cancelled."""

    fire_record_operation_id: Name | None = None
    operation_id: Name | None = None


class BindingEvaluationManifest(ReceiptBody):
    """Everything that was evaluated against one event in one cycle (§15.1)."""

    manifest_id: Name
    source_event_id: Name
    evaluated_at: Name
    binding_outcomes: list[BindingOutcome]
    bindings_evaluated_count: Count
    bindings_deferred_count: Count
    bindings_suspended_count: Count
    fan_out_cap: Count
    binding_generations: list[BindingGenerationEvaluated]
    semantic_conflicts: list[ResolvedConflict]
    policy_generation_id: Name
    cycle: PositiveCount | None = None
    """The cycle of the event, from 1; manifests that the runtime emits state it."""

    deferred_evaluation_at: Name | None = None
    """When the deferred bindings are evaluated at the earliest; none where none is."""

    evaluations: list[RecordedEvaluation] = Field(default_factory=list)
    artifacts: list[EvaluatedArtifact] = Field(default_factory=list)
    schema_version: Literal[1] = 1


class ProfileAssigned(ReceiptBody):
    """A profile that was given to something (§3.3)."""

    profile: Name | None = None
    reason: str | None = None


class MetadataFieldOverride(ReceiptBody):
    """A locked field that an override wrote (§3.3)."""

    field_names: Names | None = None
    reason: str | None = None


class AccessOverlayOverride(ReceiptBody):
    """Overlays that an operation overrode, and why (§12)."""

    overlay_ids: Names
    reason: _LongName


# --- undoing and epochs (§5.6) ----------------------------------------------------------------


class Tier1Rollback(ReceiptBody):
    """One operation that was undone."""

    original_operation_id: Name
    inverse_operation_id: Name
    request_id: Name | None = None
    """The request whose recompute was undone, where the operation is a page."""

    decided_by: str | None = None
    reason: str | None = None
    """Who had it undone, and why, where that was said."""

    committed_at: Name


class CompensationApplied(ReceiptBody):
    """A compensation and its operation; none where nothing was left to compensate."""

    original_operation_id: Name
    compensating_operation_id: str
    compensating_operation_kind: Name


class ExternalEffectPersists(ReceiptBody):
    """What stays outside."""

    original_operation_id: Name
    effect_kind: Name
    external_effect_descriptor: str


class Tier2Rollback(ReceiptBody):
    """An epoch that was undone, or a page of it while operations are left."""

    epoch_id: Name
    user_confirmation_token: str
    """The confirmation's id; empty where nothing needed one."""

    compensations_applied: list[CompensationApplied]
    partial_external_effects_persist: list[ExternalEffectPersists]
    plan_digest: Sha256
    """Of the whole plan, which a confirmation binds."""

    page: PositiveCount
    undone_from_sequence: Sequence
    """What the epoch holds from this place on was undone; the next page goes on in front of it."""

    operations_left: Count
    decided_by: str | None = None
    reason: str | None = None
    """Who had it undone, and why, where that was said."""

    committed_at: Name


class ExternalEffectSkipped(ReceiptBody):
    """An effect outside that building again did not perform again."""

    operation_id: Name
    effect_kind: Name
    external_effect_descriptor: str
    skipped_at: Name


class Tier3Rebuild(ReceiptBody):
    """A state that was built again."""

    checkpoint_ec_sequence_number: Sequence
    architect_confirmation_token: Name
    irreversible_skipped: list[ExternalEffectSkipped]
    state_digest: Sha256
    records_replaced: Count
    replaced: list[list[str]]
    """Store, key, and the hashes before and after, of the first of them."""

    restored_at: Name


class PartialExternalEffectPersists(ReceiptBody):
    """What stays outside after something was undone."""

    epoch_id: Name | None = None
    operation_id: Name | None = None
    descriptors: list[str]
    committed_at: Name


class EpochBoundary(ReceiptBody):
    """Where an epoch begins, or ends (K22)."""

    reason: str | None = None


class ReviewItemDiscarded(ReceiptBody):
    """An item of a review queue that was discarded."""

    item_receipt_id: _LongName
    reason: str
    decided_by: str | None = None
    """Who discarded it, where that was said."""


class ReviewedItem(ReceiptBody):
    """One item of a batch, and the operation that disposes of it, refused ones included."""

    item_membership_id: _LongName
    disposition: ReviewDisposition
    target_disposition_ref: _LongName | None = None
    operation_id: Name


class ReviewFailure(ReceiptBody):
    """An item whose operation was refused; the item is as it was."""

    item_membership_id: _LongName
    failure_reason_code: Name
    failure_message: Annotated[str, StringConstraints(max_length=FAILURE_CHARS_MAX)]
    retryable: bool


class BatchReviewOperation(ReceiptBody):
    """What became of every item of a batch that was reviewed (§14.4).

    The counts of dispositions are of what was asked for, `success_count` and `failure_count` of
    what came of it.
    """

    batch_review_id: Name
    source_batch_id: Name
    prior_batch_review_ref: Name | None = None
    item_operations: Annotated[list[ReviewedItem], Field(min_length=1, max_length=BATCH_ITEMS_MAX)]
    total_items: Count
    confirm_count: Count
    reject_count: Count
    defer_count: Count
    success_count: Count
    failure_count: Count
    failure_summary: list[ReviewFailure] | None = None
    """The items that failed, in the order of the batch; None where none did."""

    reviewed_by: str | None = None
    grounds: str | None = None
    """Who reviewed the batch, and on what grounds, where that was said."""

    schema_version: Literal[1] = 1


# --- what the runtime states ---------------------------------------------------------------------


class AnchoredEvents(ReceiptBody):
    """Events of one session, from the first to the last of them, and what they follow."""

    session_id: Annotated[str, StringConstraints(min_length=1, max_length=SESSION_ID_CHARS_MAX)]
    prior_head_event_hash: Sha256
    first_event_index: Count
    last_event_index: Count
    head_event_hash: Sha256


class BeliefAnchor(ReceiptBody):
    """What an anchor states in its one effect (B6)."""

    sessions: Annotated[
        list[AnchoredEvents], Field(min_length=1, max_length=ANCHORED_SESSIONS_MAX, fail_fast=True)
    ]


class EnqueuedRequest(ReceiptBody):
    """One recompute that is asked for by name."""

    target_cu_id: Name
    trigger_kind: Name
    priority: RecomputePriority


class RecomputeRequested(ReceiptBody):
    """What an operation of `enqueue_recalculate_authority` asks for (§8.2)."""

    trigger_source_id: Name
    requests: Annotated[list[EnqueuedRequest], Field(max_length=PAGE_REQUESTS_MAX, fail_fast=True)]
    cascades: bool = False
    """Whether what depends on the targets is asked for with them; a page names it itself."""

    cyclic: _PageNames = Field(default_factory=list)
    beyond_cap: _PageNames = Field(default_factory=list)
    """What the plan had to leave out, as far as it concerns this page."""

    cascade_request_id: Name | None = None
    """The deferred cascade to which the page belongs."""

    closes_cascade: bool = False


class ImplicationRun(ReceiptBody):
    """A run of a detector: the stretch of the log that it read (§19.1, K31)."""

    detector: Name
    implication_epoch: PositiveCount
    after_sequence: Sequence
    through_sequence: Sequence


class ImplicationHalt(ReceiptBody):
    """What goes no further: a loop of implications, or a detector as a whole."""

    halt_id: Name
    detector: Name
    reason_code: Literal["implication_detection_cycle_exceeded", "implication_detector_failed"]
    operation_kind: Name | None = None
    target_ref: Name | None = None
    """The loop; absent where the detector is halted."""

    error_code: Name | None = None
    """Why the detector is halted."""


class ImplicationResumed(ReceiptBody):
    """A halt that a person has ended."""

    halt_id: Name
    reason: Annotated[str, StringConstraints(max_length=1000)] = ""


class KeySignature(ReceiptBody):
    """A key of a hand-over, and its line below the note."""

    vkey: KeyText
    line: Annotated[str, StringConstraints(max_length=4096)]


class KeyHandedOver(ReceiptBody):
    """The keys that sign the log hand it over to others, behind the last checkpoint they signed.

    The body is the hand-over itself (`proof/key_handover.py`).
    """

    format: Literal["rotulus/key-handover/v1"]
    origin: Name
    tree_size: Sequence
    root_hash: Sha256
    old_keys: _Keys
    new_keys: _Keys
    signatures: Annotated[list[KeySignature], Field(max_length=8, fail_fast=True)]


class OperatorDecided(ReceiptBody):
    """Who decided something about the runtime, and why; what it is about are the targets."""

    decided_by: Annotated[str, StringConstraints(max_length=1000)]
    reason: Annotated[str, StringConstraints(max_length=1000)]


class FileWritten(ReceiptBody):
    """Something that exists outside now, below the data folder."""

    path: _LongName
    sha256: Sha256
    size_bytes: Count


class ExternalEffectReport(ReceiptBody):
    """The request that is answered, repeated in full so that no other is closed (K19)."""

    request_id: _LongName
    original_operation_id: Name
    effect_id: Name
    effect_kind: Name
    attempts: PositiveCount


class ExternalEffectPerformed(ExternalEffectReport):
    """The effect has happened, once."""

    written: Annotated[
        list[FileWritten], Field(min_length=1, max_length=WRITTEN_MAX, fail_fast=True)
    ]
    token_sha256: Sha256 | None = None
    """Of the token that was issued; the token itself is never on the record."""

    recipient_email_hash: Sha256 | None = None


class ExternalEffectFailed(ExternalEffectReport):
    """The effect has not happened and will not be tried again."""

    error_code: Name


# --- simulations (§11.2, §11.3, §11.5) ----------------------------------------------------------


class PreviewState(ReceiptBody):
    """The content of a preview, or a salted commitment to it where the preview is ephemeral."""

    preview_kind: Name
    preview_payload: Document | None = None
    preview_payload_commitment: Sha256 | None = None
    affected_node_refs: list[str]
    effect_kind_set: list[str]
    estimated_capacity_cost: NonNegative
    would_be_rejected: dict[str, str] | None = None
    schema_version: Literal[1] = 1


class SimulationPreviewEmitted(ReceiptBody):
    """A preview of an operation."""

    preview_id: Name
    simulated_operation_id: Name
    simulation_visibility_taint: Name
    policy_generation_id: Name
    session_profile_hash: str
    preview_state: PreviewState
    rendered_visibility_warning: str | None = None
    retention_class: _Kept
    schema_version: Literal[1] = 1


class SimulationPolicyChecked(ReceiptBody):
    """The result of holding a simulated operation against a policy."""

    policy_id: Name
    forbidden_external_effects: list[Name]
    allowed_external_effects: list[Name]
    on_violation: Name
    violations: list[ExternalEffectViolated]
    outcome: Literal["alerted_in_dev_mode", "passed"]
    preview_id: Name
    retention_class: _Kept
    schema_version: Literal[1] = 1


class VisibilityTaintWarning(ReceiptBody):
    """Which classes a preview shows."""

    preview_id: Name
    source_visibility_taint_distinct: list[Name]
    resolved_output_visibility_class: Name
    rendered_visibility_warning: str | None = None


class ReceiptsSealed(ReceiptBody):
    """The root of the tree over the receipts of a range, which goes on from the seal before."""

    first_receipt: Sequence
    last_receipt: Sequence
    root_hash: Sha256
