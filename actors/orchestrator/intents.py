"""Defines intents: what may be asked for, which becomes operations (§2.1, §20).

An intent says what somebody wants and never how it is written. `intent_key` is the caller's own
name for this asking: under the same key the same intent takes effect once (K6).
"""

from functools import cache
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StringConstraints,
)

from kernel.authority.inputs import EXCERPT_MAX
from kernel.model.bindings.selectors import VALUE_MAX
from kernel.model.bindings.source_binding import BindingTargetKind
from kernel.model.envelope import MAX_CAUSAL_PARENTS, CapacityOverride
from kernel.model.landscape_receipts import RunSealed
from kernel.model.model_output import CapturedOutput
from kernel.model.numbers import Count, Length, Offset, Share
from kernel.model.stated_receipts import (
    BatchReviewOperation,
    BeliefAnchor,
    BindingFired,
    ImplicationHalt,
    ImplicationResumed,
    ImplicationRun,
    ReceiptsSealed,
    RecomputeRequested,
)
from kernel.records.dates import Day
from kernel.records.reviews.batch import ReviewItem
from kernel.records.reviews.evidence import EvidenceKind
from kernel.values.canonical import canonicalize
from kernel.values.priorities import CapacityPriority

MAX_TEXT_CHARS = 64 * 1024
MAX_INPUTS = 10_000
MAX_MODEL_SOURCES = 64
MAX_MODEL_CALLS = 8

Id = Annotated[str, StringConstraints(min_length=1, max_length=400)]
StoredRef = Annotated[str, StringConstraints(min_length=1, max_length=512)]
"""A reference to the record, whose ids may be longer because they came in an envelope."""
SelectorValue = Annotated[str, StringConstraints(min_length=1, max_length=VALUE_MAX)]
Content = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
VisibilityClass = Literal["public_open", "work_product_internal", "firewalled", "sealed"]
Essentiality = Literal["core", "supporting", "tangential"]
Priority = Literal[
    "user_initiated_critical",
    "user_active_session",
    "high_access_frequency",
    "background_normal",
    "background_low_priority",
]


class Intent(BaseModel):
    """Base of all intents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    intent_key: Id
    capacity_override: CapacityOverride | None = None
    """Confirms that it goes on without capacity; says nothing about what is asked for (§18.2)."""

    @property
    def bucket(self) -> str:
        """The logical clock bucket of its idempotency key (§2.5): taken once, kept over retries."""
        return self.intent_key

    def as_requested(self) -> "Intent":
        """Return what was asked for: under the same key the same may be asked again (K6)."""
        return self


def metadata_text(value: JsonValue) -> str:
    """Return the text of a metadata field: itself, or its canonical JSON where it is none."""
    return value if isinstance(value, str) else canonicalize(value).decode()


def _check_metadata(value: JsonValue) -> JsonValue:
    if len(metadata_text(value)) > MAX_TEXT_CHARS:
        raise ValueError(f"a metadata field has at most {MAX_TEXT_CHARS} characters")
    return value


MetadataValue = Annotated[JsonValue, AfterValidator(_check_metadata)]


class SourceSpan(BaseModel):
    """A stretch of a source's text, in characters of the text before wrapping."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_ref: Id
    offset: Offset
    length: Length


class CreateSource(Intent):
    """Take a piece of content from outside onto the record, wrapped."""

    intent_kind: Literal["create_source"] = "create_source"
    node_id: Id
    corpus_id: Id
    content_kind: Id
    text: Content
    metadata: Annotated[dict[Id, MetadataValue], Field(max_length=64)] = Field(default_factory=dict)
    visibility_class: VisibilityClass = "public_open"
    prompt_injection_risk_flags: (
        Annotated[tuple[Id, ...], Field(max_length=64, fail_fast=True)] | None
    ) = None
    """The findings of the pipeline that acquired it; everything is wrapped all the same (F3)."""

    source_kind: SelectorValue | None = None
    source_id: SelectorValue | None = None
    source_path: SelectorValue | None = None
    """Where it comes from, by which bindings are routed at intake (§13.3)."""

    filing_date: Day | None = None
    """The court's day on which it was filed; then it is the document of a filing unit."""

    understanding_id: StoredRef | None = None
    """The understanding that the extractions feed which bindings fire for it; it may be created
    later."""


class CreateCase(Intent):
    """Open the record of a case, of which bindings state the metadata (§13.5)."""

    intent_kind: Literal["create_case"] = "create_case"
    case_ref: SelectorValue
    corpus_id: Id


class CompletePhase(Intent):
    """Say what a phase of a SourceArtifact came to; whoever waited for it is evaluated (§13.3)."""

    intent_kind: Literal["complete_phase"] = "complete_phase"
    artifact_ref: StoredRef
    phase: Literal[
        "post_doc25_conversion", "post_group_o_normalization", "post_relationship_resolution"
    ]
    fields: Annotated[dict[Id, SelectorValue], Field(max_length=8)] = Field(default_factory=dict)
    """What it has found of the phase's fields; a field that is left out has no value."""

    source_event_id: StoredRef | None = None
    """The event that brought the version it is about, where another may have come meanwhile."""


class _BindingMeaning(Intent):
    """What a generation of a binding states; the kernel judges it (V3, §13.8)."""

    priority: JsonValue = None
    resource_policy: JsonValue = None
    critical_approval: JsonValue = None


class CreateBinding(_BindingMeaning):
    """Create a source binding in its first generation, over a corpus."""

    intent_kind: Literal["source_binding_create"] = "source_binding_create"
    binding_id: Id
    corpus_id: Id
    selector_list: JsonValue
    target_kind: JsonValue
    title: Content = ""


class UpdateBinding(_BindingMeaning):
    """Change what a source binding means, as a further generation, or what people call it."""

    intent_kind: Literal["source_binding_update"] = "source_binding_update"
    binding_id: StoredRef
    corpus_id: Id | None = None
    selector_list: JsonValue = None
    target_kind: JsonValue = None
    title: Content | None = None


class DisableBinding(Intent):
    """Let a source binding be evaluated no more; its generation stays."""

    intent_kind: Literal["source_binding_disable"] = "source_binding_disable"
    binding_id: StoredRef


class EnableBinding(Intent):
    """Let a disabled source binding be evaluated again, as a further generation (§13.2)."""

    intent_kind: Literal["source_binding_enable"] = "source_binding_enable"
    binding_id: StoredRef
    critical_approval: JsonValue = None


class SpansUnavailable(BaseModel):
    """Why an understanding points at no stretch of a source, and what it was made of (§9.3)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: Literal[
        "abstractive_synthesis_across_many_spans",
        "extraction_degraded_no_spans_available",
        "model_output_no_span_anchors",
        "user_marked_synthesis_no_spans",
    ]
    source_doc_refs: Annotated[tuple[Id, ...], Field(max_length=MAX_INPUTS, fail_fast=True)] = ()


class SynthesizeUnderstanding(Intent):
    """Create a ConsolidatedUnderstanding that points at its sources, or says why it cannot."""

    intent_kind: Literal["synthesize_cu"] = "synthesize_cu"
    node_id: Id
    corpus_id: Id
    title: Content
    source_spans: Annotated[tuple[SourceSpan, ...], Field(max_length=MAX_INPUTS, fail_fast=True)]
    source_span_unavailable: SpansUnavailable | None = None
    """The reason for having no spans; such an understanding is a summary, no authority (§9.5)."""

    recompute_priority: Priority | None = None


class CreateClaim(Intent):
    """Create a VersionedClaim from a span of a source, feeding an understanding if one is named."""

    intent_kind: Literal["create_claim"] = "create_claim"
    node_id: Id
    corpus_id: Id
    span: SourceSpan
    text: Content
    authority: Share
    understanding_id: Id | None = None
    essentiality: Essentiality = "supporting"
    recompute_priority: Priority | None = None


class Extraction(BaseModel):
    """The extraction from which a claim comes: its run, and what it read (§16)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    extraction_run_id: StoredRef
    extractor: StoredRef
    field: Id
    value: Content
    role: Content | None = None
    begun_by_operation_id: StoredRef
    """The step with which the run began to read, the cause of the claim."""

    begun_at: str


class RecordExtractedClaim(CreateClaim):
    """Create the claim of an extracted value; only the runtime itself asks for this."""

    intent_kind: Literal["record_extracted_claim"] = "record_extracted_claim"  # type: ignore[assignment]
    extraction: Extraction


class LinkInput(Intent):
    """Let a node feed an understanding."""

    intent_kind: Literal["link_input"] = "link_input"
    source_node_id: Id
    target_node_id: Id
    essentiality: Essentiality
    recompute_priority: Priority | None = None


class AdaptFields(Intent):
    """Change fields of a node's payload; its history is preserved."""

    intent_kind: Literal["field_adapt"] = "field_adapt"
    node_id: Id
    fields: Annotated[dict[Id, Any], Field(min_length=1, max_length=64)]
    recompute_priority: Priority | None = None


class SynthesizeByModel(Intent):
    """Ask a model for an understanding of sources; it is created if the model has one."""

    intent_kind: Literal["synthesize_cu_by_model"] = "synthesize_cu_by_model"
    node_id: Id
    corpus_id: Id
    query: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    source_refs: Annotated[tuple[Id, ...], Field(max_length=MAX_MODEL_SOURCES, fail_fast=True)]
    may_search: StrictBool = False
    """Whether the model may look up further sources of the corpus."""

    recompute_priority: Priority | None = None


class ReadVersion(BaseModel):
    """A node as it was read before the transaction, and the operation that had written it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: StoredRef
    version: Count
    operation_id: StoredRef
    updated_at: str


class SynthesizedUnderstanding(Intent):
    """What a model made of a request: only the runtime asks for this, with captured answers."""

    intent_kind: Literal["synthesized_cu"] = "synthesized_cu"
    request: SynthesizeByModel
    title: Content = ""
    text: Content = ""
    source_spans: Annotated[
        tuple[SourceSpan, ...], Field(max_length=MAX_INPUTS, fail_fast=True)
    ] = ()
    read: Annotated[
        tuple[ReadVersion, ...], Field(max_length=MAX_MODEL_SOURCES, fail_fast=True)
    ] = ()
    outputs: Annotated[
        tuple[CapturedOutput, ...], Field(max_length=MAX_MODEL_CALLS, fail_fast=True)
    ] = ()

    def as_requested(self) -> Intent:
        """Return the request: a model asked again may answer otherwise."""
        return self.request


class InputVersion(BaseModel):
    """A ParentVersionRef (§8.5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent_node_id: StoredRef
    parent_version: Id
    edge_essentiality: Essentiality
    captured_at_authority: Share


class InputsStated(BaseModel):
    """The inputs of an authority: how many, all of them by their digest, some by name (K33)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: Count
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    excerpt: Annotated[tuple[InputVersion, ...], Field(max_length=EXCERPT_MAX, fail_fast=True)]


class RecalculateAuthority(Intent):
    """Record an authority that was computed from the ledger as of a sequence."""

    intent_kind: Literal["recalculate_authority"] = "recalculate_authority"
    target_cu_id: StoredRef
    as_of_sequence: Count
    cu_authority: Share
    inputs: InputsStated

    @property
    def bucket(self) -> str:
        """The sequence that was read; the worker who reports it names no key of the runtime's."""
        return str(self.as_of_sequence)


class RecalculatePage(Intent):
    """Record authorities in one operation: of one visibility class, computed at one sequence."""

    intent_kind: Literal["recalculate_page"] = "recalculate_page"
    recomputes: Annotated[tuple[RecalculateAuthority, ...], Field(min_length=1, fail_fast=True)]


class EnqueueRecompute(Intent):
    """Ask for recomputes that nothing has set off, or write a page of them down (§8.2)."""

    intent_kind: Literal["enqueue_recalculate_authority"] = "enqueue_recalculate_authority"
    asked_for: RecomputeRequested


class AnchorBelief(Intent):
    """Anchor the audit chains of belief sessions in the log (B6)."""

    intent_kind: Literal["anchor_belief"] = "anchor_belief"
    anchor: BeliefAnchor


class StateThought(Intent):
    """State what happens to a session of thoughts or to a round (seed 002)."""

    intent_kind: Literal["state_thought"] = "state_thought"
    verb: str
    stated: dict[str, Any]


class RecordKeyHandover(Intent):
    """Record that the keys that sign the log hand it over to others."""

    intent_kind: Literal["record_key_handover"] = "record_key_handover"
    handover: dict[str, Any]
    """As every key of it has signed it."""


class RecordDecision(Intent):
    """Record what an operator decides about the runtime."""

    intent_kind: Literal["record_decision"] = "record_decision"
    verb: str
    targets: Annotated[tuple[StoredRef, ...], Field(min_length=1)]
    decided_by: str
    reason: str


class SealRun(Intent):
    """State the digests of the records of a run that has ended (seed 003, L4)."""

    intent_kind: Literal["seal_run"] = "seal_run"
    seal: RunSealed


class SealReceipts(Intent):
    """State the root of the tree over the receipts of a range (§17.5)."""

    intent_kind: Literal["seal_receipts"] = "seal_receipts"
    seal: ReceiptsSealed


class RecordImplicationRun(Intent):
    """Record how far a detector of implications has read (§19.1, K31)."""

    intent_kind: Literal["record_implication_run"] = "record_implication_run"
    run: ImplicationRun


class HaltDetector(Intent):
    """Let a detector of implications go no further (§19.1)."""

    intent_kind: Literal["halt_detector"] = "halt_detector"
    halt: ImplicationHalt


class ResumeImplications(Intent):
    """Let a halted loop, or a halted detector, go on (§19.1)."""

    intent_kind: Literal["resume_implications"] = "resume_implications"
    resumed: ImplicationResumed


class ObserveDisposition(Intent):
    """Record what is known to be disposed of, as evidence and never as a ruling (§4.3.13)."""

    intent_kind: Literal["observe_disposition"] = "observe_disposition"
    observation_id: Id
    observation: Annotated[dict[Id, JsonValue], Field(max_length=64)]
    source_refs: Annotated[tuple[StoredRef, ...], Field(max_length=16, fail_fast=True)] = ()
    """The nodes that it was drawn from, whose visibility it inherits."""

    visibility_class: VisibilityClass = "public_open"
    """The class of an observation that was drawn from no node."""


class ReportExternalEffect(Intent):
    """Record what became of an effect outside, and so close its request (K19)."""

    intent_kind: Literal["report_external_effect"] = "report_external_effect"
    performed: bool
    target_ref: StoredRef
    report: dict[str, Any]


class RecordExtractionTransition(Intent):
    """Record the next step of an extraction (kernel.record_extraction_state_transition, §16.5)."""

    intent_kind: Literal["record_extraction_transition"] = "record_extraction_transition"
    extraction_run_id: StoredRef
    step: dict[str, Any]
    """An ExtractionAttempt; the parent of every step but the first is named."""

    source_refs: Annotated[tuple[StoredRef, ...], Field(max_length=1)] = ()
    """The source that was read, where the runtime performs the extraction."""

    outputs: Annotated[tuple[CapturedOutput, ...], Field(max_length=MAX_MODEL_CALLS)] = ()
    """What a model answered on the way to this step."""

    def as_requested(self) -> Intent:
        """Return the step alone: a model asked again may answer otherwise."""
        return self.model_copy(update={"outputs": ()}) if self.outputs else self


class WriteCausalGraph(Intent):
    """Write a part of the causal graph: the effects that the rules of a merge gave."""

    intent_kind: Literal["write_causal_graph"] = "write_causal_graph"
    verb: Literal[
        "create", "annotate", "document_relationship_create", "document_relationship_update"
    ]
    effects: tuple[dict[str, Any], ...]
    node_refs: Annotated[
        tuple[StoredRef, ...], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)
    ]
    edge_refs: Annotated[tuple[StoredRef, ...], Field(max_length=MAX_INPUTS, fail_fast=True)] = ()
    seen_operation_ids: tuple[StoredRef, ...] = ()
    """The operations that last wrote the changed edges; for nodes the record has them."""


class ReviewMembership(Intent):
    """Dispose of one membership of a batch that is reviewed (INV-K-BATCH-1)."""

    intent_kind: Literal["review_membership"] = "review_membership"
    batch_review_id: Id
    item: ReviewItem


class RecordBatchReview(Intent):
    """Record what became of the items of a batch (§14.4)."""

    intent_kind: Literal["record_batch_review"] = "record_batch_review"
    record: BatchReviewOperation


class FireBinding(Intent):
    """Write what a binding makes of an artifact: one effect, as evidence (§13.5)."""

    intent_kind: Literal["fire_binding"] = "fire_binding"
    binding_id: StoredRef
    binding_generation_id: StoredRef
    source_event_id: StoredRef
    target_kind: BindingTargetKind
    artifact_ref: StoredRef
    target_ref: StoredRef
    """The record or the node that the effect writes."""

    payload: dict[str, Any]
    capacity_priority: CapacityPriority


class RecordFire(Intent):
    """Record that a binding fired on an event, and what it wrote (§15.4)."""

    intent_kind: Literal["record_fire"] = "record_fire"
    fired: BindingFired
    artifact_ref: StoredRef
    queues_extraction: bool = False
    """Whether the fire is its record alone, because it queues an extraction."""


class EmitManifest(Intent):
    """End an evaluation cycle of an event with its manifest (§15.6)."""

    intent_kind: Literal["emit_manifest"] = "emit_manifest"
    manifest: dict[str, Any]
    """A BindingEvaluationManifest."""


class Adjudicate(Intent):
    """Confirm or reject evidence, on stated grounds (INV-K-OUTCOME-1, §13.6)."""

    intent_kind: Literal["adjudicate"] = "adjudicate"
    kind: EvidenceKind
    record_id: StoredRef
    decision: Literal["confirm", "reject"]
    adjudicated_by: Id
    grounds: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    normalized_label: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    """What is decided, in words of a vocabulary; a confirmation has one."""

    scope_targets: Annotated[tuple[StoredRef, ...], Field(max_length=256, fail_fast=True)] = ()
    """What a ruling is about; with it, a confirmed observation becomes a ruling."""

    evidence: dict[str, Any] | None = None
    """What the safe path rests on, where no person decides; the runtime alone states it."""


BindingIntent = Annotated[
    CreateBinding | UpdateBinding | DisableBinding | EnableBinding,
    Field(discriminator="intent_kind"),
]
"""The intents that change source bindings."""

PublicIntent = Annotated[
    CreateSource
    | CreateCase
    | SynthesizeUnderstanding
    | CreateClaim
    | LinkInput
    | AdaptFields
    | CompletePhase
    | CreateBinding
    | UpdateBinding
    | DisableBinding
    | EnableBinding,
    Field(discriminator="intent_kind"),
]
"""The intents of producers; only the runtime itself emits the others."""

_PRODUCERS: Final = frozenset(
    {*get_args(get_args(PublicIntent)[0]), SynthesizeByModel, SynthesizedUnderstanding}
)
"""What a producer asks for, under a key of his own."""


@cache
def purpose_of(kind: type[Intent], actor: str) -> str | None:
    """Return what the runtime asks for with an intent; None where a producer asks."""
    if kind not in _PRODUCERS:
        return str(kind.model_fields["intent_kind"].default)
    return None if actor == "user" else "producer_intent"


ImpliedIntent = Annotated[
    CreateSource | CreateClaim | LinkInput | AdaptFields | ObserveDisposition,
    Field(discriminator="intent_kind"),
]
"""The intents that a detector of implications may answer: evidence, and updates of a case."""


class Implication(BaseModel):
    """What a detector answers: an intent, and the operations that imply it (§19.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    intent: ImpliedIntent
    implied_by_operation_ids: Annotated[
        tuple[StoredRef, ...], Field(min_length=1, max_length=MAX_CAUSAL_PARENTS)
    ]
