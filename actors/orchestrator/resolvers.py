"""How each kind of intent becomes an operation: its verb, effects, sources, reads and writes.

A table from the kind of intent to a pure function of the intent and the ledger. What every
operation has in common (taint, causality, keys, times) is the orchestrator's part.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from actors.errors import IntentInvalid
from actors.orchestrator.intents import (
    AdaptFields,
    AnchorBelief,
    CreateClaim,
    CreateSource,
    EnqueueRecompute,
    Intent,
    LinkInput,
    RecalculateAuthority,
    RecalculatePage,
    RecordExtractionTransition,
    ReportExternalEffect,
    SourceSpan,
    SpansUnavailable,
    SynthesizedUnderstanding,
    SynthesizeUnderstanding,
    WriteCausalGraph,
    metadata_text,
)
from actors.orchestrator.untrusted_content import unwrap_untrusted, wrap_untrusted
from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import BELIEF_ANCHOR, ENQUEUE, REPORT_VERB
from kernel.authority.enqueue import ENQUEUED_RECEIPT
from kernel.authority.requests import due
from kernel.authority.triggers import ENQUEUED_KINDS
from kernel.belief_anchors import ANCHOR_RECEIPT
from kernel.canonical import digest
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.model.node_kinds import (
    ACCESS_OVERLAY,
    CLAIM,
    FRAMING_KINDS,
    RUNTIME_KINDS,
    RUNTIME_PREFIXES,
    UNDERSTANDING,
)
from kernel.model.receipt import receipt_effect
from kernel.model.recomputes import RECALCULATE, REQUESTS
from kernel.overlays.overlay import EMBEDDED
from kernel.stores.external_report import FAILED, PERFORMED

SOURCE = "SourceArtifact"
AUTHORITY_INDEX = "authority_index"
KIND_INDEX = "nodes_by_kind"
AUTHORITY_EFFORT = "eager_on_parent_update"

RESERVED_FIELDS = frozenset(
    {
        "cu_authority",
        "cu_authority_computed_at",
        "cu_authority_input_versions",
        "cu_authority_inputs",
        "node_kind",
        "content",
        "metadata",
        "prompt_injection_isolation_wrapper_applied",
        "metadata_wrapper_applied",
        "prompt_injection_risk_flags",
        EMBEDDED,
        "authorized_access",
    }
)
"""What a field_adapt may not touch: the kernel alone computes an authority, what was taken in from
outside stays as it was wrapped (INV-MVC-3), and who may write is for other operations to say."""


@dataclass(frozen=True, slots=True)
class ResolvedOperation:
    """An intent that knows its effects (§2.1 step 2)."""

    semantic_intent: str
    effects: tuple[Document, ...]
    target_refs: tuple[str, ...]
    source_refs: tuple[str, ...] = ()
    """The context: every node whose visibility the output inherits."""

    read_set: tuple[str, ...] = ()
    write_set: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()
    """Nodes beside the target that the operation touches."""

    edge_refs: tuple[str, ...] = ()
    scope_kind: str | None = None
    """The kind of scope, if it does not follow from the neighbours."""

    versions_read: Mapping[str, tuple[str, str]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """For a node that was read before the transaction: the operation that wrote it, and when."""

    visibility: tuple[str, ...] = ()
    """The class of what is written, if it follows from no source."""

    causes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Operations that asked for this one without writing what it reads, and when they did."""

    operation_kind: str | None = None
    """The kind of operation, if the intent's name does not say it."""

    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    parts: tuple["ResolvedOperation", ...] = ()
    """The recomputes of a page, each as it would be resolved alone."""


def make_effect(kind: str, target: str, payload: Document, inverse: str | None = None) -> Document:
    """Return an effect of a registered, fully reversible kind."""
    return {
        "effect_kind": kind,
        "reversibility": EFFECT_KINDS[kind].reversibility,
        "inverse_operation_kind": inverse or EFFECT_KINDS[kind].inverses[0],
        "target_ref": target,
        "payload": payload,
        "schema_version": 1,
    }


def creation_effects(
    node_id: str, corpus_id: str, payload: Document, further_effects: tuple[Document, ...] = ()
) -> tuple[Document, ...]:
    """Return the effects of a new node: it is a candidate of its corpus, and indexed by kind."""
    membership = {"corpus_id": corpus_id, "to_state": "candidate"}
    index = {"index_name": KIND_INDEX, "entry": {"node_kind": payload["node_kind"]}}
    return (
        make_effect("node_write", node_id, payload),
        make_effect("membership_write", node_id, membership),
        *further_effects,
        make_effect("index_update", node_id, index),
    )


def authority_view(node_id: str) -> str:
    """Return the id of the view that shows an understanding's authority."""
    return f"view:cu_authority:{node_id}"


def edge_id(source: str, target: str) -> str:
    """Return the id of the input edge between two nodes."""
    return f"edge:{source}->{target}"


def resolve_create_source(intent: CreateSource, _: LedgerView) -> ResolvedOperation:
    """Content and every metadata field are wrapped before anything else sees them (§10.5)."""
    wrapped = {
        name: wrap_untrusted(metadata_text(value), source=intent.node_id, kind=name)
        for name, value in intent.metadata.items()
    }
    payload: Document = {
        "node_kind": SOURCE,
        "visibility_class": intent.visibility_class,
        "content_kind": intent.content_kind,
        "content": wrap_untrusted(intent.text, source=intent.node_id, kind=intent.content_kind),
        "metadata": wrapped,
        "acquisition_shape": "ingested",
        "prompt_injection_isolation_wrapper_applied": True,
        "metadata_wrapper_applied": True,
    }
    if intent.prompt_injection_risk_flags is not None:
        payload["prompt_injection_risk_flags"] = list(intent.prompt_injection_risk_flags)
    return _create("create", intent.node_id, intent.corpus_id, payload)


def resolve_understanding(intent: SynthesizeUnderstanding, view: LedgerView) -> ResolvedOperation:
    """An understanding starts without an authority; the request for one comes with it (§21.1)."""
    payload = _understanding_payload(view, intent.node_id, intent.title, intent.source_spans)
    sources = [span.source_ref for span in intent.source_spans]
    effects: tuple[Document, ...] = ()
    if intent.source_span_unavailable is not None:
        if sources:
            raise IntentInvalid("it has source_spans", "source_span_unavailable")
        payload["display_kind"] = "synthesis_summary_no_spans"
        effects = (_unavailable(intent.node_id, intent.source_span_unavailable),)
        sources = [_document(view, ref) for ref in intent.source_span_unavailable.source_doc_refs]
    return _create(
        "synthesize_consolidated_understanding",
        intent.node_id,
        intent.corpus_id,
        payload,
        further_effects=effects,
        sources=tuple(dict.fromkeys(sources)),
        extra=_priority(intent.recompute_priority),
    )


def resolve_synthesized(intent: SynthesizedUnderstanding, view: LedgerView) -> ResolvedOperation:
    """A model's understanding inherits from all that was read for it, quoted or not (EC4)."""
    request, read = intent.request, {version.node_id: version for version in intent.read}
    unread = [span.source_ref for span in intent.source_spans if span.source_ref not in read]
    if unread:
        raise IntentInvalid(f"{unread[0]} was not read", "source_spans")
    payload = _understanding_payload(view, request.node_id, intent.title, intent.source_spans)
    payload["text"] = wrap_untrusted(intent.text, source=request.node_id, kind="synthesis")
    versions = {version.node_id: version.version for version in intent.read}
    operation = _create(
        "synthesize_consolidated_understanding",
        request.node_id,
        request.corpus_id,
        payload,
        sources=tuple(read),
        extra={**_priority(request.recompute_priority), "read_set_versions": versions},
    )
    versions_read = {
        version.node_id: (version.operation_id, version.updated_at) for version in intent.read
    }
    return replace(operation, versions_read=versions_read)


def resolve_claim(intent: CreateClaim, view: LedgerView) -> ResolvedOperation:
    """A claim holds the words of its span of the source."""
    spanned = _check_span(view, intent.span.source_ref, intent.span.offset, intent.span.length)
    if spanned != intent.text:
        raise IntentInvalid("the text is not what the span points at", "text")
    payload: Document = {
        "node_kind": CLAIM,
        "text": wrap_untrusted(intent.text, source=intent.span.source_ref, kind="claim"),
        "span": intent.span.model_dump(),
        "authority": intent.authority,
    }
    effects: tuple[Document, ...] = ()
    if intent.understanding_id is not None:
        _expect_kind(view, intent.understanding_id, UNDERSTANDING, "understanding_id")
        effects = _input_effects(intent.node_id, intent.understanding_id, intent.essentiality)
    return _create(
        "create",
        intent.node_id,
        intent.corpus_id,
        payload,
        further_effects=effects,
        sources=(intent.span.source_ref,),
        neighbour=intent.understanding_id,
        extra=_priority(intent.recompute_priority),
    )


def resolve_link(intent: LinkInput, view: LedgerView) -> ResolvedOperation:
    """An edge lets a claim or an understanding feed an understanding."""
    _expect_kind(view, intent.target_node_id, UNDERSTANDING, "target_node_id")
    source = view.node(intent.source_node_id)
    if source is None:
        raise IntentInvalid(f"no node {intent.source_node_id}", "source_node_id")
    if source["node_kind"] in FRAMING_KINDS:
        raise IntentInvalid(f"{intent.source_node_id} frames and is no evidence", "source_node_id")
    edge = edge_id(intent.source_node_id, intent.target_node_id)
    return ResolvedOperation(
        "document_relationship_create",
        _input_effects(intent.source_node_id, intent.target_node_id, intent.essentiality),
        (intent.target_node_id,),
        source_refs=(intent.source_node_id,),
        read_set=(intent.source_node_id, intent.target_node_id),
        write_set=(edge,),
        neighbours=(intent.source_node_id,),
        edge_refs=(edge,),
        extra=_priority(intent.recompute_priority),
    )


def resolve_adapt(intent: AdaptFields, view: LedgerView) -> ResolvedOperation:
    """Named fields of a payload get new values; text that was wrapped stays wrapped."""
    touched = RESERVED_FIELDS.intersection(intent.fields)
    if touched:
        raise IntentInvalid(f"{min(touched)} is not a field to adapt", "fields")
    node = view.node(intent.node_id)
    if node is None:
        raise IntentInvalid(f"no node {intent.node_id}", "node_id")
    if node["node_kind"] in RUNTIME_KINDS:
        message = "the causal graph is the runtime's own"
        raise IntentInvalid(message, "node_id")
    if node["node_kind"] == ACCESS_OVERLAY:
        # The orchestrator is believed where a caller is not, so it does not pass this on.
        raise IntentInvalid("an overlay is changed by whoever may write it", "node_id")
    fields = {
        name: _isolated(value, node["payload"].get(name), source=intent.node_id, kind=name)
        for name, value in intent.fields.items()
    }
    return ResolvedOperation(
        "field_adapt",
        (make_effect("node_write", intent.node_id, fields),),
        (intent.node_id,),
        read_set=(intent.node_id,),
        write_set=(intent.node_id,),
        extra=_priority(intent.recompute_priority),
    )


def resolve_recalculation(intent: RecalculateAuthority, view: LedgerView) -> ResolvedOperation:
    """The value and its inputs are written, the index follows, and the view is fresh (§8.2)."""
    target = intent.target_cu_id
    inputs = intent.inputs
    versions = [version.model_dump() for version in inputs.excerpt]
    # Of many inputs some are named, of every visibility class one.
    context = tuple(
        dict.fromkeys([target, *(version.parent_node_id for version in inputs.excerpt)])
    )
    state = due(view, target, intent.as_of_sequence)
    effects = [
        make_effect(
            "node_write",
            target,
            {
                "cu_authority": intent.cu_authority,
                "cu_authority_input_versions": versions,
                "cu_authority_inputs": {"count": inputs.count, "digest": inputs.digest},
            },
            inverse="node_revert_to_prior_authority",
        ),
        make_effect(
            "index_update",
            target,
            {
                "index_name": AUTHORITY_INDEX,
                "entry": {"cu_authority": intent.cu_authority},
                REQUESTS: [request.request_id for request in state.served],
            },
        ),
    ]
    if len(state.served) == len(state.requests):  # nobody has asked since
        effects.append(
            make_effect("materialized_view_recompute", authority_view(target), {"node_ref": target})
        )
    return ResolvedOperation(
        RECALCULATE,
        tuple(effects),
        (target,),
        source_refs=context,
        read_set=context,
        write_set=(target,),
        causes=_askers(view, state.served),
        extra=MappingProxyType(
            {
                "recompute_as_of_sequence": intent.as_of_sequence,
                # It draws on capacity as what it serves, not as whoever computed it (§8.3).
                **_priority(state.most_urgent),
            }
        ),
    )


def resolve_page(intent: RecalculatePage, view: LedgerView) -> ResolvedOperation:
    """Several recomputes side by side; each says of itself what caused it (K32)."""
    parts = [resolve_recalculation(recompute, view) for recompute in intent.recomputes]
    if len(parts) == 1:
        return parts[0]
    context = tuple(dict.fromkeys(ref for part in parts for ref in part.source_refs))
    targets = tuple(part.target_refs[0] for part in parts)
    return ResolvedOperation(
        RECALCULATE,
        tuple(effect for part in parts for effect in part.effects),
        targets,
        source_refs=context,
        read_set=context,
        write_set=targets,
        scope_kind="cross_corpus_subset",
        causes=MappingProxyType({name: at for part in parts for name, at in part.causes.items()}),
        extra=parts[0].extra,
        parts=tuple(parts),
    )


def _askers(view: LedgerView, requests: list[Request]) -> Mapping[str, str]:
    """Return the operations that asked for a recompute; others are found by what they wrote."""
    enqueued = (
        request for request in requests if request.document["trigger_kind"] in ENQUEUED_KINDS
    )
    rows = (view.log_row_at(request.cause_sequence) for request in enqueued)
    return {row["operation_id"]: row["committed_at"] for row in rows if row is not None}


def resolve_anchor(intent: AnchorBelief, _: LedgerView) -> ResolvedOperation:
    """The one receipt that the operation states says how far the chains of sessions go."""
    effect = receipt_effect(ANCHOR_RECEIPT, intent.anchor.model_dump())
    return ResolvedOperation(
        BELIEF_ANCHOR,
        (effect,),
        tuple(session.session_id for session in intent.anchor.sessions),
        scope_kind="cross_corpus_subset",
        # What users have done in their sessions is no background work.
        extra=_priority("user_active_session"),
    )


def resolve_extraction(intent: RecordExtractionTransition, _: LedgerView) -> ResolvedOperation:
    """A step is a new operation of a stable run, caused by the step before (§16.4, §16.5)."""
    run, parent = intent.extraction_run_id, intent.step.get("parent_operation_id")
    effect = {
        "effect_kind": "extraction_state_transition",
        "reversibility": "receipt_only",
        "target_ref": run,
        "payload": intent.step,
        "schema_version": 1,
    }
    extra = {
        "idempotency_key": digest([run, intent.step["attempt_number"]]),
        "causal_parent_operation_ids": [] if parent is None else [parent],
    }
    return ResolvedOperation(
        "extraction_state_change",
        (effect,),
        (run,),
        write_set=(run,),
        visibility=("work_product_internal",),
        extra=MappingProxyType(extra),
    )


def resolve_external_report(intent: ReportExternalEffect, _: LedgerView) -> ResolvedOperation:
    """A report is caused by the operation that asked for the effect."""
    effect = receipt_effect(PERFORMED if intent.performed else FAILED, intent.report)
    parents = [intent.report["original_operation_id"]]
    return ResolvedOperation(
        REPORT_VERB,
        (effect,),
        (intent.target_ref,),
        extra=MappingProxyType({"causal_parent_operation_ids": parents}),
    )


def resolve_enqueue(intent: EnqueueRecompute, _: LedgerView) -> ResolvedOperation:
    """The one receipt that the operation states says what is asked for."""
    stated = intent.asked_for
    effect = receipt_effect(ENQUEUED_RECEIPT, stated.model_dump(exclude_none=True))
    # A page may have nothing left to ask for but its end.
    targets = [request.target_cu_id for request in stated.requests] or [stated.trigger_source_id]
    return ResolvedOperation(
        ENQUEUE,
        (effect,),
        (targets[0],),
        neighbours=tuple(targets[1:]),
        scope_kind=None if stated.cascades else "global_sweep",
    )


def resolve_causal(intent: WriteCausalGraph, _: LedgerView) -> ResolvedOperation:
    """A part of a merge of the causal graph, whose effects the merge rules have made already."""
    first, *neighbours = intent.node_refs
    written = tuple(dict.fromkeys(effect["target_ref"] for effect in intent.effects))
    parents = {"causal_parent_operation_ids": list(intent.seen_operation_ids)}
    return ResolvedOperation(
        intent.verb,
        intent.effects,
        (first,),
        read_set=intent.node_refs,
        write_set=written,
        neighbours=tuple(neighbours),
        edge_refs=intent.edge_refs,
        extra=MappingProxyType(parents if intent.seen_operation_ids else {}),
    )


RESOLVERS: Mapping[type[Intent], Callable[[Any, LedgerView], ResolvedOperation]] = MappingProxyType(
    {
        CreateSource: resolve_create_source,
        SynthesizeUnderstanding: resolve_understanding,
        SynthesizedUnderstanding: resolve_synthesized,
        CreateClaim: resolve_claim,
        LinkInput: resolve_link,
        AdaptFields: resolve_adapt,
        RecalculateAuthority: resolve_recalculation,
        RecalculatePage: resolve_page,
        EnqueueRecompute: resolve_enqueue,
        AnchorBelief: resolve_anchor,
        RecordExtractionTransition: resolve_extraction,
        ReportExternalEffect: resolve_external_report,
        WriteCausalGraph: resolve_causal,
    }
)


def resolve(intent: Intent, view: LedgerView) -> ResolvedOperation:
    """Resolve an intent against the ledger as it stands.

    Raises:
        IntentInvalid: when it refers to what is not there, or contradicts its source.
    """
    return RESOLVERS[type(intent)](intent, view)


def _create(
    operation_kind: str,
    node_id: str,
    corpus_id: str,
    payload: Document,
    *,
    further_effects: tuple[Document, ...] = (),
    sources: tuple[str, ...] = (),
    neighbour: str | None = None,
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> ResolvedOperation:
    if node_id.startswith(RUNTIME_PREFIXES) and payload["node_kind"] not in RUNTIME_KINDS:
        raise IntentInvalid("this id is the runtime's own", "node_id")
    neighbours = (neighbour,) if neighbour else ()
    edges = tuple(
        effect["target_ref"] for effect in further_effects if effect["effect_kind"] == "edge_create"
    )
    return ResolvedOperation(
        "create",
        creation_effects(node_id, corpus_id, payload, further_effects),
        (node_id,),
        operation_kind=operation_kind,
        source_refs=sources,
        read_set=(*sources, *neighbours),
        write_set=(node_id, *edges),
        neighbours=neighbours,
        edge_refs=edges,
        extra=extra,
    )


def _understanding_payload(
    view: LedgerView, node_id: str, title: str, spans: tuple[SourceSpan, ...]
) -> Document:
    for span in spans:
        _check_span(view, span.source_ref, span.offset, span.length)
    return {
        "node_kind": UNDERSTANDING,
        "title": wrap_untrusted(title, source=node_id, kind="title"),
        "source_spans": [span.model_dump() for span in spans],
        "display_kind": "synthesis_with_spans",
        "cu_authority_strategy": AUTHORITY_EFFORT,
    }


def _unavailable(node_id: str, unavailable: SpansUnavailable) -> Document:
    return receipt_effect(
        "source_span_unavailable",
        {"cu_node_ref": node_id, **unavailable.model_dump(mode="json")},
    )


def _document(view: LedgerView, ref: str) -> str:
    node = view.node(ref)
    if node is None or node["node_kind"] in FRAMING_KINDS:
        raise IntentInvalid(f"no source {ref}", "source_span_unavailable.source_doc_refs")
    return ref


def _input_effects(source: str, target: str, essentiality: str) -> tuple[Document, ...]:
    edge = {
        "source_node_id": source,
        "target_node_id": target,
        "edge_type": "informs",
        "edge_metadata": {"essentiality": essentiality},
    }
    return (
        make_effect("edge_create", edge_id(source, target), edge),
        make_effect("materialized_view_invalidation", authority_view(target), {"node_ref": target}),
    )


def _isolated(value: Any, before: Any, *, source: str, kind: str) -> Any:
    if not isinstance(value, str) or not isinstance(before, str):
        return value
    try:
        unwrap_untrusted(before)
    except ValueError:
        return value
    return wrap_untrusted(value, source=source, kind=kind)


def _priority(priority: str | None) -> Mapping[str, Any]:
    return {} if priority is None else {"recompute_priority": priority}


def _check_span(view: LedgerView, source_ref: str, offset: int, length: int) -> str:
    node = view.node(source_ref)
    if node is None:
        raise IntentInvalid(f"no source {source_ref}", "source_ref")
    if node["node_kind"] in FRAMING_KINDS:
        raise IntentInvalid(f"{source_ref} frames and is no evidence", "source_ref")
    try:
        text = unwrap_untrusted(node["payload"]["content"])
    except (KeyError, ValueError):
        raise IntentInvalid(f"{source_ref} is not a source with text", "source_ref") from None
    if offset + length > len(text):
        raise IntentInvalid("the span ends beyond its source", "length")
    return text[offset : offset + length]


def _expect_kind(view: LedgerView, node_id: str, node_kind: str, field_name: str) -> None:
    node = view.node(node_id)
    if node is None or node["node_kind"] != node_kind:
        raise IntentInvalid(f"{node_id} is not a {node_kind}", field_name)
