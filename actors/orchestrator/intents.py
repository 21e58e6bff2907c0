"""What may be asked for: intents, which the orchestrator resolves into operations (§2.1, §20).

An intent says what somebody wants and never how it is written. `intent_key` is the caller's own
name for this asking: under the same key the same intent takes effect once (K6).
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
)

from kernel.authority.inputs import EXCERPT_MAX
from kernel.canonical import canonicalize
from kernel.model.envelope import CapacityOverride
from kernel.model.stated_receipts import BeliefAnchor, RecomputeRequested

MAX_TEXT_CHARS = 64 * 1024
MAX_INPUTS = 10_000
MAX_MODEL_SOURCES = 64
MAX_MODEL_CALLS = 8

Id = Annotated[str, StringConstraints(min_length=1, max_length=400)]
StoredRef = Annotated[str, StringConstraints(min_length=1, max_length=512)]
"""A reference to the record, whose ids may be longer because they came in an envelope."""
Content = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
Authority = Annotated[float, Field(ge=0, le=1)]
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

    def as_requested(self) -> "Intent":
        """Return what was asked for: under the same key the same may be asked again (K6)."""
        return self


def metadata_text(value: JsonValue) -> str:
    """Return the text of a metadata field: itself, or its canonical JSON where it is none."""
    return value if isinstance(value, str) else canonicalize(value).decode()


def _limited_metadata(value: JsonValue) -> JsonValue:
    if len(metadata_text(value)) > MAX_TEXT_CHARS:
        raise ValueError(f"a metadata field has at most {MAX_TEXT_CHARS} characters")
    return value


MetadataValue = Annotated[JsonValue, AfterValidator(_limited_metadata)]


class SourceSpan(BaseModel):
    """A stretch of a source's text, in characters of the text before wrapping."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_ref: Id
    offset: Annotated[int, Field(ge=0)]
    length: Annotated[int, Field(ge=1)]


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


class SpansUnavailable(BaseModel):
    """Why an understanding points at no stretch of a source, and what it was made of (§9.3)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: Literal[
        "abstractive_synthesis_across_many_spans",
        "extraction_degraded_no_spans_available",
        "model_output_no_span_anchors",
        "user_marked_synthesis_no_spans",
    ]
    source_doc_refs: Annotated[tuple[Id, ...], Field(max_length=MAX_INPUTS)] = ()


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
    authority: Authority
    understanding_id: Id | None = None
    essentiality: Essentiality = "supporting"
    recompute_priority: Priority | None = None


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
    may_search: bool = False
    """Whether the model may look up further sources of the corpus."""

    recompute_priority: Priority | None = None


class ReadVersion(BaseModel):
    """A node as it was read before the transaction, and the operation that had written it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: StoredRef
    version: int
    operation_id: StoredRef
    updated_at: str


class CapturedOutput(BaseModel):
    """One answer of a model as it was captured, before an operation records it (§6.4)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: bytes
    model_version: Id
    model_provider: Id
    prompt_hash: str
    parameter_hash: str
    source_refs: tuple[StoredRef, ...]
    """The sources in its prompt."""

    answered_at: str
    tier_2_prompt_cache_used: bool
    token_usage: dict[str, int]


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
    outputs: Annotated[tuple[CapturedOutput, ...], Field(max_length=MAX_MODEL_CALLS)] = ()

    def as_requested(self) -> Intent:
        """Return the request: a model asked again may answer otherwise."""
        return self.request


class InputVersion(BaseModel):
    """A ParentVersionRef (§8.5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent_node_id: StoredRef
    parent_version: Id
    edge_essentiality: Essentiality
    captured_at_authority: Authority


class InputsStated(BaseModel):
    """The inputs of an authority: how many, all of them by their digest, some by name (K33)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: Annotated[int, Field(ge=0)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    excerpt: Annotated[tuple[InputVersion, ...], Field(max_length=EXCERPT_MAX)]


class RecalculateAuthority(Intent):
    """Record an authority that was computed from the ledger as of a sequence."""

    intent_kind: Literal["recalculate_authority"] = "recalculate_authority"
    target_cu_id: StoredRef
    as_of_sequence: Annotated[int, Field(ge=0)]
    cu_authority: Authority
    inputs: InputsStated


class RecalculatePage(Intent):
    """Record authorities in one operation: of one visibility class, computed at one sequence."""

    intent_kind: Literal["recalculate_page"] = "recalculate_page"
    recomputes: Annotated[tuple[RecalculateAuthority, ...], Field(min_length=1)]


class EnqueueRecompute(Intent):
    """Ask for recomputes that nothing has set off, or write a page of them down (§8.2)."""

    intent_kind: Literal["enqueue_recalculate_authority"] = "enqueue_recalculate_authority"
    asked_for: RecomputeRequested


class AnchorBelief(Intent):
    """Anchor the audit chains of belief sessions in the log (B6)."""

    intent_kind: Literal["anchor_belief"] = "anchor_belief"
    anchor: BeliefAnchor


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


PublicIntent = Annotated[
    CreateSource | SynthesizeUnderstanding | CreateClaim | LinkInput | AdaptFields,
    Field(discriminator="intent_kind"),
]
"""The intents of producers; only the runtime itself emits the others."""
