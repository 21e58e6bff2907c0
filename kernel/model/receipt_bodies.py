"""Models the kernel's own receipts, one for each kind (§5.6 to §18, decision kernel/0191).

A model names every field of its receipt beside those that all receipts have (`HEADER_FIELDS`).
Fields that the specification names have its names.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from kernel.model.numbers import Count, Finite, Integer, NonNegative, PositiveCount, Share

HEADER_FIELDS = frozenset(
    {
        "receipt_id",
        "receipt_kind",
        "operation_id",
        "emitted_at",
        "receipt_sequence",
        "prior_receipt_hash",
        "rules_version",
        "schema_version",
    }
)
"""What every receipt says beside its body; the ledger writes it."""

Document = dict[str, Any]
Ref = Annotated[str, StringConstraints(min_length=1, max_length=2048)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Sequence = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,18})$")]
"""A sequence is a string in JSON (K27)."""


class ReceiptBody(BaseModel):
    """Base of what a receipt says; nothing else may stand in one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# --- refusals (K5, §18, §19.2) ----------------------------------------------------------------


class QuotaAlert(ReceiptBody):
    """An operation beyond the quota of its kind and day, or the budget of its run (§18.4)."""

    operation_kind: str | None = None
    day: str | None = None
    run_id: Ref | None = None
    operation_count: Count
    quota: Count


class NamedConflict(ReceiptBody):
    """One field in which an envelope contradicts what it had not seen."""

    conflict_class: Ref
    field: str
    record_key: Ref
    existing_record_key: Ref
    existing_operation_id: Ref
    strategy: Ref


class EnvelopeRefused(ReceiptBody):
    """Why an envelope was refused, and what it said of itself."""

    check: Ref
    reason_code: Ref
    field: str
    message: Annotated[str, StringConstraints(max_length=1000)]
    idempotency_key: str | None = None
    actor: str | None = None
    semantic_intent: str | None = None
    session_id: str | None = None
    retry_after_s: Integer | None = None
    limit: Count | None = None
    actual: Count | None = None
    alert: QuotaAlert | None = None
    ec_capacity_lease_id: str | None = None
    lease_granted: bool | None = None
    lease_known: bool | None = None
    cost_remaining: Finite | None = None
    conflict_class: Ref | None = None
    conflicts: list[NamedConflict] | None = None
    existing_operation_ids: list[Ref] | None = None
    existing_record_ids: list[Ref] | None = None
    adjudication_receipt_id: Ref | None = None
    merge_operation_id: Ref | None = None
    hanging_refs: list[Ref] | None = None
    envelope: Document | None = None
    """The envelope as submitted, where the record would otherwise not have it."""

    refusals: PositiveCount | None = None
    """How many refusals this one receipt stands for (§17.6), and between which times."""

    first_refused_at: str | None = None
    last_refused_at: str | None = None
    last_operation_id: str | None = None


class ConflictToReview(EnvelopeRefused):
    """A conflict that a person has to settle, with the whole envelope."""

    conflict_class: Ref
    conflicts: list[NamedConflict]
    existing_operation_ids: list[Ref]
    existing_record_ids: list[Ref]
    envelope: Document


class ImplicationCycleExceeded(EnvelopeRefused):
    """An implication that would have gone on a loop for another epoch (§19.1)."""

    detector: Ref
    implication_epoch: Count
    operation_kind: Ref
    target_ref: Ref
    repetitions: Count
    """Epochs in a row in which it was emitted before."""

    chain_epochs: Count
    """Epochs from what set the chain off up to it."""


class MigrationToReview(ReceiptBody):
    """A lite envelope that cannot be mapped (§2.8)."""

    ec_sequence_number: Sequence
    reason_code: Ref
    field: str
    message: str
    missing_fields: list[str]
    rejection_receipt_id: Ref | None = None


class UnprocessableRequest(ReceiptBody):
    """A request that failed by itself, by the digest of what was asked."""

    reason_code: Ref
    asked: Ref
    request_digest: Sha256
    cause: Ref
    session_id: Ref | None = None


class MailboxEntrySetAside(ReceiptBody):
    """A message that ended processes, by its place and the digest of its content."""

    reason_code: Ref
    shard: Ref
    mailbox_id: Ref
    offset: Ref
    process_ends: Ref
    entry_digest: str
    session_id: Ref | None = None


class CommitRolledBack(ReceiptBody):
    """An operation that was undone with the transaction that held it."""

    reason_code: Ref
    undone_ec_sequence_number: Sequence
    undone_row_hash: Sha256


class IntegrityFinding(ReceiptBody):
    """One row that is not what the rest of the record says it is."""

    table: Ref
    key: str
    rule: Ref
    message: str


class IntegrityViolation(ReceiptBody):
    """What verification found (§17.5)."""

    reason_code: Ref
    head_hash: str
    rows_verified: Sequence
    receipts_verified: Sequence
    findings: list[IntegrityFinding]


class SequencesStated(ReceiptBody):
    """Rows of the log, both ends included."""

    first_sequence: Sequence
    last_sequence: Sequence


class IntegrityViolationPlaced(IntegrityViolation):
    """What verification found, and which rows are quarantined because of it (version 2)."""

    quarantined: Annotated[list[SequencesStated], Field(min_length=1)] | None = None
    of_no_row: Annotated[list[IntegrityFinding], Field(min_length=1)] | None = None
    """Findings about no row of the log that nobody knew of; like ranges they stand until they are
    lifted."""


class RangeLifted(SequencesStated):
    """Rows that are quarantined no longer."""

    content_digest: str
    """Of what was stored of them then; empty where they were too many."""


class RecordLifted(ReceiptBody):
    """A damaged record of no row of the log that is dealt with."""

    table: Ref
    key: str
    content_digest: str
    """Of what was stored of it then; empty where it is no row of a table."""


# --- capacity (§18) -----------------------------------------------------------------------------


class CapacityLease(ReceiptBody):
    """Which lease an operation drew on, and for what (§18.3)."""

    operation_kind: str
    priority: Ref
    estimated_cost: NonNegative
    ec_capacity_lease_id: str


class CapacityShort(CapacityLease):
    """An operation that went on without capacity (§18.1)."""

    lease_granted: bool
    lease_known: bool
    cost_remaining: Finite | None = None


class CapacityOverridden(CapacityShort):
    """An operation that went on without capacity because a user confirmed it (§18.2)."""

    confirmed_by: Ref
    reason: Ref


# --- replay and models (§6) -----------------------------------------------------------------------


class ReplayFor(ReceiptBody):
    """Who asked for a replay (§6.3)."""

    caller_kind: Ref
    retention_upgrade_required: bool
    caller_attribution: str | None = None
    schema_version: Literal[1] = 1


class ReplayAnswer(ReceiptBody):
    """The result of replaying an operation (§6.6)."""

    original_operation_id: str
    request_id: str | None = None
    """The request whose recompute alone was replayed."""

    replay_strategy: Literal["record_only", "blocked_on_fingerprint_mismatch"]
    fingerprint_match: bool
    output_reproduced: bool
    block_reason: (
        Literal["fingerprint_mismatch", "recorded_output_unavailable", "operation_not_replayable"]
        | None
    ) = None
    recorded_model_version: str | None = None
    current_model_version: str | None = None
    blocked_by_operation_id: str | None = None


class AuditReplay(ReplayAnswer):
    """The receipt of a replay."""

    audit_context: ReplayFor


class ReplayBlocked(ReplayAnswer):
    """The receipt of a replay that another fingerprint stopped."""

    replay_receipt_id: Ref
    recorded_output_id: str | None


class ModelOutputRecorded(ReceiptBody):
    """What a model answered, by its commitment (§6.4)."""

    recorded_output_id: Ref
    model_version: Ref
    model_provider: Ref
    fingerprint_combined: Sha256
    output_payload_blob_ref: Sha256


class ModelOutputCollected(ReceiptBody):
    """An answer that was erased (§6.5)."""

    recorded_output_id: Ref
    output_payload_blob_ref: Sha256
    model_version: Ref
    collected_at: Ref


class _Decided(ReceiptBody):
    decided_by_operation_id: Ref | None = None
    """The operation of who decided it; earlier releases wrote none."""


class _OnAuthority(_Decided):
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1000)]
    authority: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class PayloadErased(_OnAuthority):
    """A payload that was erased with its salt, why, and on whose authority (P6)."""

    payload_kind: Literal["thought", "model_answer"]
    payload_id: Ref
    session_id: Annotated[str, StringConstraints(max_length=200)]
    commitment: Sha256


class LegalHoldSet(_OnAuthority):
    """What may not be erased until the hold is lifted (P6)."""

    hold_id: Ref
    subject_kind: Literal["ledger", "thought_session", "payload"]
    subject_id: Annotated[str, StringConstraints(max_length=200)]


class LegalHoldLifted(_OnAuthority):
    """A hold that holds no longer."""

    hold_id: Ref


class LogQuarantineLifted(_OnAuthority):
    """A quarantine of rows of the log that stands no longer (§17.5)."""

    quarantine_id: Ref
    ranges: list[RangeLifted]
    records: list[RecordLifted] | None = None


class HeadStated(ReceiptBody):
    """Where the chains stood; times are microseconds since 1970."""

    ec_sequence_number: Sequence
    row_hash: Sha256
    receipt_sequence: Sequence
    receipt_hash: Sha256
    request_sequence: Sequence
    committed_at_us: Sequence


class AnswerLost(ReceiptBody):
    """Something that was answered and is on the record no longer."""

    kind: Literal["operation", "request", "outcome", "refusal", "session"]
    name: Ref
    sequence: Sequence
    session_id: Ref | None = None


class LedgerBehindAnswers(ReceiptBody):
    """A ledger that is not the one from which a gateway has answered, and what it knows of it."""

    finding_id: Ref
    page: PositiveCount
    pages: PositiveCount
    gateway: Ref
    known: HeadStated
    """What the gateway had committed or read last."""

    found: HeadStated
    common: HeadStated | None
    is_all: bool
    """Whether the gateway remembers all that it had written since the two parted."""

    lost: list[AnswerLost]


class LostEvidence(ReceiptBody):
    """Something that is known of a lost stretch beside the gateways' findings."""

    source: Ref
    name: Ref
    says: Annotated[str, StringConstraints(max_length=1000)]


class LedgerHeadAccepted(_OnAuthority):
    """A ledger that went back, from which work goes on."""

    finding_ids: Annotated[list[Ref], Field(min_length=1)]
    accepted: HeadStated
    lost: Count
    is_all: bool
    evidence: list[LostEvidence]


class OperationArchived(ReceiptBody):
    """An operation past the audit's horizon, and the outputs that it no longer refers to."""

    released_model_output_ids: list[Ref]


# --- archive segments (§17.7) -----------------------------------------------------------------


class ThoughtContentsArchived(ReceiptBody):
    """Thoughts of a session in a row, whose contents are in the archive alone from now on."""

    session_id: Ref
    round_number: Count
    first_sequence: Sequence
    last_sequence: Sequence
    contents: Count
    """How many were moved; the others were erased, or are what something else commits to."""


class ThoughtRecordsArchived(ReceiptBody):
    """Thoughts of a session in a row, whose records and nodes are in one file alone from now on."""

    session_id: Ref
    round_number: Count
    first_sequence: Sequence
    last_sequence: Sequence
    first_node: Sequence
    last_node: Sequence
    content_hash: Sha256
    stored_bytes: Count


class RoundRecordsArchived(ReceiptBody):
    """A round, all of whose sessions' records and nodes were moved to the archive."""

    round_number: Count


class RoundContentsArchived(ReceiptBody):
    """A round, all of whose sessions' contents were moved to the archive."""

    round_number: Count


class LogSegmentArchived(ReceiptBody):
    """Rows of the log that were moved to a segment of the archive; all that its row says."""

    segment_index: Sequence
    first_sequence: Sequence
    last_sequence: Sequence
    content_hash: Sha256
    stored_bytes: Count
    envelopes: Count


class LogSegmentReleased(ReceiptBody):
    """A segment past the audit's horizon, and how many of its operations referred to answers."""

    segment_index: Sequence
    operations: Count


class LogSegmentCollected(ReceiptBody):
    """A segment whose envelopes are in the archive alone from now on."""

    segment_index: Sequence
    content_hash: Sha256


# --- work that was asked for (§14, §16) -------------------------------------------------------


class WorkRequested(_Decided):
    """All that a request's row says."""

    request_id: Ref
    queue: Ref
    item_key: Ref
    priority: Ref
    request_key: str
    content: Document
    delay_s: NonNegative | None = None
    run_at: str | None = None
    requeues: Ref | None = None
    tags: dict[str, str] | None = None
    decided_by: str | None = None
    """Who requeued the dead letter that this asks for anew."""


class WorkRequestClosed(_Decided):
    """The one outcome of a request."""

    request_id: Ref
    queue: Ref
    outcome: Literal["completed", "dead_letter", "cancelled"]
    closed_by_operation_id: Ref | None = None
    result: Document | None = None
    handler_result: Document | None = None
    """What the handler of a plug-in's queue returned; no rule of the record reads it."""

    took_ms: Count | None = None
    """How long the attempt took that came to it, as its worker says."""

    worker: str | None = None
    """Whose attempt that was."""

    reason: str | None = None
    decided_by: str | None = None
    """Who cancelled it."""

    pair_state: Literal["fired", "matched_no_fire", "no_match"] | None = None


class BindingOutcomePending(ReceiptBody):
    """An evaluation that was put off, in the cycle that has to tell of it (§14.3)."""

    request_id: Ref
    source_event_id: Ref
    result: Document
    """The outcome record, and the manifest that will name it."""


class WorkRequestDismissed(_Decided):
    """A request that was given up and that somebody settled without asking for it anew."""

    request_id: str
    queue: Ref
    decided_by: Annotated[str, StringConstraints(max_length=200)]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class WorkRequestPrioritized(_Decided):
    """An open request that somebody gave another priority."""

    request_id: Ref
    queue: Ref
    priority: Ref
    decided_by: Annotated[str, StringConstraints(max_length=200)]


class BulkOperationAdvanced(ReceiptBody):
    """How far a bulk operation has come: requests from `cursor` on are done."""

    bulk_number: Count
    cursor: Count
    done: Count
    refused: Count
    asked_to_stop: Count
    state: Literal["running", "finished", "stopped"]
    ended_at: str | None = None
    stopped_by: Annotated[str, StringConstraints(max_length=200)] | None = None


class BulkOperationBegun(_Decided, BulkOperationAdvanced):
    """What somebody decided about all requests that fit a search."""

    verb: Literal["cancel", "requeue", "dismiss", "prioritize"]
    search: Document
    priority: Ref | None = None
    decided_by: Annotated[str, StringConstraints(max_length=200)]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    begun_at: str
    counted: Count
    counted_all: bool
    upper_sequence: Count


class WorkQueueSwitched(_Decided):
    """A queue, or one of its priorities, that an operator paused or resumed."""

    queue: Ref
    priority: Ref | None = None
    decided_by: Annotated[str, StringConstraints(max_length=200)]
    reason: Annotated[str, StringConstraints(max_length=200)]


class RegisteredPriority(ReceiptBody):
    """A priority of a queue, and the capacity on which it draws."""

    name: Ref
    capacity: Literal["background", "user_initiated", "critical"]
    service_target_s: PositiveCount


class WorkQueueRegistered(ReceiptBody):
    """A queue that a worker serves: what it takes, to what that belongs, and how urgent it is."""

    queue: Ref
    content_schema: Document
    item_key: Ref
    priorities: list[RegisteredPriority]
    default_priority: Ref
    priority_field: Ref | None = None
    replaces: Ref | None = None
    """The queue whose registration made room for this one."""


class _AccessChanged(_Decided):
    decided_by: Annotated[str, StringConstraints(max_length=200)]
    reason: Annotated[str, StringConstraints(max_length=200)]
    decided_at_sequence: Sequence


class AccessGranted(_AccessChanged):
    """A role that a principal was given, or that was withdrawn."""

    principal: Ref
    role: Ref
    scope: Ref
    clearance: Ref


class AccessKeyCreated(_AccessChanged):
    """A key of a principal, by the digest of its secret."""

    key_id: Ref
    principal: Ref
    secret_hash: Sha256
    expires_at_us: Sequence
    opened_by: Ref | None = None
    """The key with which somebody logged in, where this is a browser's."""

    replaces: list[Ref] = Field(default=[], max_length=16)
    """Expired keys whose rows made room."""


class AccessKeyRevoked(_AccessChanged):
    """A key that ended before its time."""

    key_id: Ref


class AccessDenied(ReceiptBody):
    """How often a principal asked for what it had no right to, by action, since the last one."""

    principal: Ref | None = None
    """Who asked; absent where several are counted together."""

    actions: dict[Ref, PositiveCount]
    first_denied_at: Ref
    last_denied_at: Ref


class BindingRoutingPage(ReceiptBody):
    """The mark from which bindings and artifacts were routed on, and where it stood."""

    mark_id: str
    routed_from: str


class CapacitySignal(ReceiptBody):
    """What was known of the capacity."""

    ec_capacity_lease_state: Ref
    queue_depth: Count
    inflight_operations: Count


class BindingFireCapacityRejected(ReceiptBody):
    """An evaluation that stopped because capacity ran out (§14.5)."""

    request_id: Ref
    binding_id: Ref
    source_event_id: Ref
    binding_evaluation_id: Ref | None = None
    rejected_at: Ref
    retry_eligible: bool
    retry_priority: Literal["background", "user_initiated", "critical"]
    capacity_signal_at_rejection: CapacitySignal


# --- authorities (§8) ---------------------------------------------------------------------------


class AuthorityRecomputeRequest(ReceiptBody):
    """A recompute that entered the queue (§8.2)."""

    request_id: Ref
    target_cu_id: Ref
    trigger_kind: Ref
    priority: Ref


class AuthorityRecomputeCompleted(ReceiptBody):
    """A recompute that was done (§8.2)."""

    request_id: Ref
    target_cu_id: Ref
    new_authority_value: Share


class AuthorityRecomputeDeadLettered(ReceiptBody):
    """A recompute that is not tried again."""

    request_id: Ref
    queue: Ref | None = None
    target_cu_id: Ref
    error_signature: str


class AuthorityCascadeDeferred(ReceiptBody):
    """A cascade that is planned after its trigger."""

    request_id: Ref
    trigger_source_id: Ref
    priority: Ref


class NodeWritten(ReceiptBody):
    """A node was written, and these views that show it have to be computed again (§4.3.1)."""

    node_ref: Ref
    view_ids: Annotated[list[Ref], Field(min_length=1, fail_fast=True)]
    more_views: bool
    """Whether there are more than are named."""


class AuthorityLeftOut(ReceiptBody):
    """Understandings that a cascade does not reach (§8.4)."""

    trigger_source_id: Ref
    node_refs: list[Ref]


# --- what effects come to (§4.3, §7.4) ----------------------------------------------------------


class TaintPropagation(ReceiptBody):
    """The classes that an operation touched, and what they came to (§7.4, K7)."""

    source_visibility_taint: list[Ref]
    source_visibility_taint_distinct: list[Ref]
    resolved_output_visibility_class: str | None
    source_node_count_per_class: dict[str, Count]
    output_node_ref: Ref | None = None


class PolicyGenerationAdvance(ReceiptBody):
    """Which generation of the policy is in force, and which was (§4.3.17)."""

    prior_policy_generation_id: Ref
    policy_generation_id: Ref


class MembershipStateTransition(ReceiptBody):
    """A step of a membership (§4.3.19)."""

    membership_id: Ref
    corpus_id: Ref
    from_state: Ref
    to_state: Ref
    triggered_by: Ref


class CriticalBindingApproved(ReceiptBody):
    """Who let a generation of a binding run as critical, and why (§14.3)."""

    approved_by: Ref
    approver_role: Literal["user", "architect"]
    reason: Ref


class BindingGenerationSnapshotted(ReceiptBody):
    """A generation of a binding that became effective, or was reverted (§15.3)."""

    binding_id: Ref
    binding_generation_id: Ref
    effective_at: Ref
    state: Literal["effective", "reverted"]
    critical_approval: CriticalBindingApproved | None = None


class ExtractionAttempted(ReceiptBody):
    """A step of an extraction (§16.5)."""

    extraction_run_id: Ref
    attempt_number: PositiveCount
    prior_state: Ref
    current_state: Ref
    state_change_reason: Ref
    block_reason: Ref | None = None
    parent_operation_id: Ref | None = None
    cancellation_reason: Ref | None = None
    replaces_extraction_run_id: Ref | None = None


# --- simulations that were stopped (§11) ----------------------------------------------------------


class ExternalEffectViolated(ReceiptBody):
    """One thing that would happen outside and may not (§11.3)."""

    external_effect: Ref
    cause: Ref
    effect_id: str | None = None


class SimulationBlocked(ReceiptBody):
    """A simulation that would have set off more than its policy allows (§11.6)."""

    policy_id: Ref
    violations: list[ExternalEffectViolated]
    reason_code: Ref
    on_violation: Ref
    halted: bool
    operation_kind: str
    operation_to_simulate: str


class SimulationNotSupported(ReceiptBody):
    """An operation that cannot be simulated (§11.4)."""

    operation_kind: str
    reason: Ref
    reason_code: Ref
    operation_to_simulate: str


class SimulationPayload(ReceiptBody):
    """The content of an ephemeral preview, beside what its operation committed to."""

    preview_id: Ref
    salt: Sha256
    preview_payload: Document
