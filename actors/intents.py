"""What may be asked for: intents, which the orchestrator resolves into operations (§2.1, §20).

An intent says what somebody wants and never how it is written. `intent_key` is the caller's own
name for this asking: under the same key the same intent takes effect once (K6).
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_TEXT_CHARS = 64 * 1024
MAX_INPUTS = 10_000

Id = Annotated[str, StringConstraints(min_length=1, max_length=400)]
StoredRef = Annotated[str, StringConstraints(min_length=1, max_length=512)]
"""What is on the record may have come in an envelope, where ids may be longer."""
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
    metadata: Annotated[dict[Id, Content], Field(max_length=64)] = Field(default_factory=dict)
    visibility_class: VisibilityClass = "public_open"


class SynthesizeUnderstanding(Intent):
    """Create a ConsolidatedUnderstanding that points at its sources."""

    intent_kind: Literal["synthesize_cu"] = "synthesize_cu"
    node_id: Id
    corpus_id: Id
    title: Content
    source_spans: Annotated[tuple[SourceSpan, ...], Field(max_length=MAX_INPUTS)]
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


class InputVersion(BaseModel):
    """A ParentVersionRef (§8.5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent_node_id: StoredRef
    parent_version: Id
    edge_essentiality: Essentiality
    captured_at_authority: Authority


class RecalculateAuthority(Intent):
    """Record an authority that was computed from the ledger as of a sequence."""

    intent_kind: Literal["recalculate_authority"] = "recalculate_authority"
    target_cu_id: StoredRef
    as_of_sequence: Annotated[int, Field(ge=0)]
    cu_authority: Authority
    input_versions: Annotated[tuple[InputVersion, ...], Field(max_length=MAX_INPUTS)]


class RecordBelief(Intent):
    """Anchor a belief session's audit chain: create its node, or annotate it (B6)."""

    intent_kind: Literal["record_belief"] = "record_belief"
    node_id: Id
    anchor: dict[str, Any]
    creates: bool


PublicIntent = Annotated[
    CreateSource | SynthesizeUnderstanding | CreateClaim | LinkInput | AdaptFields,
    Field(discriminator="intent_kind"),
]
"""What a producer may ask for; the rest is asked for by the runtime itself."""
