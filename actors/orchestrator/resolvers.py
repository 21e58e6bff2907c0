"""Turns each kind of intent into an operation: its verb, effects, sources, reads and writes.

A table from the kind of intent to a pure function of the intent and the ledger. The orchestrator
does what every operation has in common: taint, causality, keys, times.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from actors.errors import IntentInvalid
from actors.orchestrator.binding_resolvers import (
    resolve_fire,
    resolve_fire_record,
    resolve_manifest,
)
from actors.orchestrator.implication_resolvers import (
    resolve_detector_halt,
    resolve_implication_run,
    resolve_observation,
    resolve_resumption,
)
from actors.orchestrator.intents import (
    AdaptFields,
    Adjudicate,
    AnchorBelief,
    CompletePhase,
    CreateBinding,
    CreateCase,
    CreateClaim,
    CreateSource,
    DisableBinding,
    EmitManifest,
    EnableBinding,
    EnqueueRecompute,
    FireBinding,
    HaltDetector,
    Intent,
    LinkInput,
    ObserveDisposition,
    RecalculateAuthority,
    RecalculatePage,
    RecordBatchReview,
    RecordDecision,
    RecordExtractedClaim,
    RecordExtractionTransition,
    RecordFire,
    RecordImplicationRun,
    RecordKeyHandover,
    ReportExternalEffect,
    ResumeImplications,
    ReviewMembership,
    SealReceipts,
    SealRun,
    SourceSpan,
    SpansUnavailable,
    StateThought,
    SynthesizedUnderstanding,
    SynthesizeUnderstanding,
    UpdateBinding,
    WriteCausalGraph,
    metadata_text,
)
from actors.orchestrator.resolved_operation import ResolvedOperation, make_effect
from actors.orchestrator.review_resolvers import (
    resolve_adjudication,
    resolve_batch_review,
    resolve_review,
)
from actors.orchestrator.untrusted_content import unwrap_untrusted, wrap_untrusted
from kernel.algebra.verbs import (
    BELIEF_ANCHOR,
    ENQUEUE,
    KEY_HANDOVER,
    LANDSCAPE_SEAL,
    RECEIPTS_SEAL,
    REPORT_VERB,
)
from kernel.authority.enqueue_pages import ENQUEUED_RECEIPT
from kernel.authority.requests import due
from kernel.authority.triggers import ENQUEUED_KINDS
from kernel.belief.anchors import ANCHOR_RECEIPT
from kernel.landscape.seals import SEAL_RECEIPT
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.model.bindings.artifacts import (
    COMPLETED_PHASES,
    PHASE_FIELDS,
    SOURCE_EVENT_ID,
    VERSION_FIELDS,
    completion,
    read_artifact,
)
from kernel.model.node_kinds import (
    ACCESS_OVERLAY,
    CASE_RECORD,
    CLAIM,
    FRAMING_KINDS,
    RUNTIME_KINDS,
    RUNTIME_PREFIXES,
    SOURCE_BINDING,
    UNDERSTANDING,
    derived_name_in,
)
from kernel.model.receipt import receipt_effect
from kernel.model.recomputes import RECALCULATE, REQUESTS
from kernel.proof.handover_proof import HANDOVER_RECEIPT
from kernel.records.bindings import generation_in_force, last_generation
from kernel.records.dates import day_fields
from kernel.records.external_report import FAILED, PERFORMED
from kernel.records.operator_decisions import DECIDED_RECEIPT
from kernel.records.overlays.overlay import EMBEDDED
from kernel.records.receipt_seals import RECEIPTS_SEALED
from kernel.thoughts.recording import RECEIPTS as THOUGHT_RECEIPTS
from kernel.values.idempotency_keys import runtime_key
from kernel.work.fire_targets import derived_id

SOURCE = "SourceArtifact"
FILING_UNIT = "filing_unit_write"
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
        *VERSION_FIELDS,
        COMPLETED_PHASES,
        EMBEDDED,
        "authorized_access",
    }
)
"""What a field_adapt may not touch: the kernel alone computes an authority, what was taken in from
outside stays as it was wrapped (INV-MVC-3), and who may write is for other operations to say."""


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
    for name in (*PHASE_FIELDS["intake_time"], "understanding_id"):
        if getattr(intent, name) is not None:
            payload[name] = getattr(intent, name)
    if intent.filing_date is None:
        return _create("create", intent.node_id, intent.corpus_id, payload)
    stated = day_fields("filing_date", intent.filing_date)
    unit = make_effect(
        FILING_UNIT,
        derived_id("filing-unit", intent.node_id),
        {**stated, "document_ref": intent.node_id},
    )
    return _create("create", intent.node_id, intent.corpus_id, payload, further_effects=(unit,))


def resolve_create_case(intent: CreateCase, _: LedgerView) -> ResolvedOperation:
    """The record says nothing of the case yet; it is what fires of bindings write to."""
    ref = derived_id("case", intent.case_ref)
    return _create("create", ref, intent.corpus_id, {"node_kind": CASE_RECORD})


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


def resolve_extracted_claim(intent: RecordExtractedClaim, view: LedgerView) -> ResolvedOperation:
    """An extracted claim says what was read in its words, and is caused by the run that read."""
    extraction, source = intent.extraction, intent.span.source_ref
    extracted: Document = {
        "extraction_run_id": extraction.extraction_run_id,
        "extractor": extraction.extractor,
        "field": extraction.field,
        "value": wrap_untrusted(extraction.value, source=source, kind="extracted_value"),
    }
    if extraction.role is not None:
        extracted["role"] = wrap_untrusted(extraction.role, source=source, kind="extracted_role")
    causes = {extraction.begun_by_operation_id: extraction.begun_at}
    operation = resolve_claim(intent, view, extracted)
    return replace(operation, causes=MappingProxyType(causes))


def resolve_claim(
    intent: CreateClaim, view: LedgerView, extracted: Document | None = None
) -> ResolvedOperation:
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
    if extracted is not None:
        payload["extracted"] = extracted
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
    if node["node_kind"] == SOURCE_BINDING:
        raise IntentInvalid("a binding is changed by source_binding_update", "node_id")
    if node["node_kind"] == ACCESS_OVERLAY:
        # The orchestrator is believed where a caller is not, so it does not pass this on.
        raise IntentInvalid("an overlay is changed by whoever may write it", "node_id")
    fields = {
        name: _isolate(value, node["payload"].get(name), source=intent.node_id, kind=name)
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


def resolve_phase(intent: CompletePhase, view: LedgerView) -> ResolvedOperation:
    """What the phases came to stands in the artifact's node, with the event that it is about."""
    node = view.node(intent.artifact_ref)
    artifact = read_artifact(node)
    if node is None or artifact is None:
        raise IntentInvalid(f"no SourceArtifact {intent.artifact_ref} stands", "artifact_ref")
    completed = completion(artifact, node["payload"], intent.phase, intent.fields)
    if intent.source_event_id is not None:
        completed[SOURCE_EVENT_ID] = intent.source_event_id
    return ResolvedOperation(
        "field_adapt",
        (make_effect("node_write", intent.artifact_ref, {COMPLETED_PHASES: completed}),),
        (intent.artifact_ref,),
        read_set=(intent.artifact_ref,),
        write_set=(intent.artifact_ref,),
    )


_MEANING = ("selector_list", "target_kind", "corpus_id", "priority", "resource_policy")


def _meaning_fields(intent: Intent) -> Document:
    """Return what an intent states of a binding's meaning."""
    stated = {name: getattr(intent, name, None) for name in _MEANING}
    return {name: value for name, value in stated.items() if value is not None}


def _generation(
    binding_id: str, number: int, snapshot: Document, critical_approval: object
) -> Document:
    payload: Document = {"binding_generation_id": str(number), "binding_snapshot": snapshot}
    if critical_approval is not None:
        payload["critical_approval"] = critical_approval
    return make_effect("binding_generation_advance", binding_id, payload)


def resolve_binding_create(intent: CreateBinding, view: LedgerView) -> ResolvedOperation:
    """A binding is a node, an edge to its corpus, and the snapshot of its first generation.

    A corpus may be a name and no node; then the edge leads from the binding to itself.
    """
    binding_id, corpus_id = intent.binding_id, intent.corpus_id
    if _is_runtimes_name(binding_id):
        raise IntentInvalid("this id is the runtime's own", "binding_id")
    payload: Document = {"node_kind": SOURCE_BINDING, "lifecycle_state": "pending_intake"}
    if intent.title:
        payload["title"] = intent.title
    attached_to = binding_id if view.node(corpus_id) is None else corpus_id
    edge = edge_id(binding_id, attached_to)
    ends = {"source_node_id": binding_id, "target_node_id": attached_to}
    return ResolvedOperation(
        "source_binding_create",
        (
            make_effect("node_write", binding_id, payload),
            make_effect(
                "edge_create", edge, {**ends, "edge_type": "source_binding", "edge_metadata": {}}
            ),
            _generation(binding_id, 1, _meaning_fields(intent), intent.critical_approval),
        ),
        (binding_id,),
        write_set=(binding_id, edge),
        neighbours=() if attached_to == binding_id else (attached_to,),
        edge_refs=(edge,),
    )


def resolve_binding_update(intent: UpdateBinding, view: LedgerView) -> ResolvedOperation:
    """What is stated takes the place of what the generation in force has; the rest stays."""
    stated = _meaning_fields(intent)
    title = {} if intent.title is None else {"title": intent.title}
    if not stated and not title:
        raise IntentInvalid("an update states a change", "")
    return _binding_update(view, intent.binding_id, title, stated, intent.critical_approval)


def resolve_binding_disable(intent: DisableBinding, view: LedgerView) -> ResolvedOperation:
    """Disabling moves the node alone."""
    _expect_kind(view, intent.binding_id, SOURCE_BINDING, "binding_id")
    return _of_binding(
        "source_binding_disable",
        intent.binding_id,
        make_effect("node_write", intent.binding_id, {"state": "disabled"}),
    )


def resolve_binding_enable(intent: EnableBinding, view: LedgerView) -> ResolvedOperation:
    """What the binding meant is a new generation (§13.2), also where it was not disabled."""
    fields = {"state": "active"}
    return _binding_update(view, intent.binding_id, fields, {}, intent.critical_approval)


def _binding_update(
    view: LedgerView, binding_id: str, fields: Document, stated: Document, approval: object
) -> ResolvedOperation:
    _expect_kind(view, binding_id, SOURCE_BINDING, "binding_id")
    effects = [make_effect("node_write", binding_id, fields)]
    if stated or "state" in fields:
        before = last_generation(view, binding_id)
        number = 1 if before is None else int(before["binding_generation_id"]) + 1
        in_force = generation_in_force(view, binding_id) or before
        snapshot = {} if in_force is None else in_force["binding_snapshot"]
        effects.append(_generation(binding_id, number, {**snapshot, **stated}, approval))
    return _of_binding("source_binding_update", binding_id, *effects)


def _of_binding(verb: str, binding_id: str, *effects: Document) -> ResolvedOperation:
    return ResolvedOperation(
        verb, effects, (binding_id,), read_set=(binding_id,), write_set=(binding_id,)
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


def resolve_thought(intent: StateThought, _: LedgerView) -> ResolvedOperation:
    """The one receipt says what happens; what follows from it is the kernel's to compute."""
    kind, _model = THOUGHT_RECEIPTS[intent.verb]
    target = intent.stated.get("session_id") or f"round:{intent.stated['round_number']}"
    return ResolvedOperation(
        intent.verb,
        (receipt_effect(kind, intent.stated),),
        (target,),
        extra=_priority("user_active_session"),
    )


def resolve_key_handover(intent: RecordKeyHandover, _: LedgerView) -> ResolvedOperation:
    """The receipt is the hand-over; whose log it is is what it is about."""
    return ResolvedOperation(
        KEY_HANDOVER,
        (receipt_effect(HANDOVER_RECEIPT, intent.handover),),
        (f"log:{intent.handover['origin']}",),
        extra=_priority("user_active_session"),
    )


def resolve_decision(intent: RecordDecision, _: LedgerView) -> ResolvedOperation:
    """The one receipt says who decided and why; the targets are what it is about."""
    stated = {"decided_by": intent.decided_by, "reason": intent.reason}
    return ResolvedOperation(
        intent.verb,
        (receipt_effect(DECIDED_RECEIPT, stated),),
        intent.targets,
        scope_kind="cross_corpus_subset",
        extra=_priority("user_active_session"),
    )


def resolve_run_seal(intent: SealRun, _: LedgerView) -> ResolvedOperation:
    """The one receipt states what the records of a run came to."""
    effect = receipt_effect(SEAL_RECEIPT, intent.seal.model_dump())
    return ResolvedOperation(LANDSCAPE_SEAL, (effect,), (f"run:{intent.seal.run_id}",))


def resolve_receipts_seal(intent: SealReceipts, _: LedgerView) -> ResolvedOperation:
    """The one receipt states a range of receipts, and what they came to."""
    effect = receipt_effect(RECEIPTS_SEALED, intent.seal.model_dump())
    return ResolvedOperation(
        RECEIPTS_SEAL,
        (effect,),
        (f"receipts:{intent.seal.first_receipt}",),
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
        "idempotency_key": runtime_key(
            "record_extraction_transition", run, intent.step["attempt_number"]
        ),
        "causal_parent_operation_ids": [] if parent is None else [parent],
    }
    return ResolvedOperation(
        "extraction_state_change",
        (effect,),
        (run,),
        source_refs=intent.source_refs,
        read_set=intent.source_refs,
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
        CreateCase: resolve_create_case,
        SynthesizeUnderstanding: resolve_understanding,
        SynthesizedUnderstanding: resolve_synthesized,
        CreateClaim: resolve_claim,
        RecordExtractedClaim: resolve_extracted_claim,
        LinkInput: resolve_link,
        AdaptFields: resolve_adapt,
        CompletePhase: resolve_phase,
        CreateBinding: resolve_binding_create,
        UpdateBinding: resolve_binding_update,
        DisableBinding: resolve_binding_disable,
        EnableBinding: resolve_binding_enable,
        RecalculateAuthority: resolve_recalculation,
        RecalculatePage: resolve_page,
        EnqueueRecompute: resolve_enqueue,
        AnchorBelief: resolve_anchor,
        StateThought: resolve_thought,
        RecordKeyHandover: resolve_key_handover,
        RecordDecision: resolve_decision,
        SealRun: resolve_run_seal,
        SealReceipts: resolve_receipts_seal,
        RecordExtractionTransition: resolve_extraction,
        ReportExternalEffect: resolve_external_report,
        RecordImplicationRun: resolve_implication_run,
        HaltDetector: resolve_detector_halt,
        ResumeImplications: resolve_resumption,
        ObserveDisposition: resolve_observation,
        WriteCausalGraph: resolve_causal,
        ReviewMembership: resolve_review,
        RecordBatchReview: resolve_batch_review,
        FireBinding: resolve_fire,
        RecordFire: resolve_fire_record,
        EmitManifest: resolve_manifest,
        Adjudicate: resolve_adjudication,
    }
)


def resolve(intent: Intent, view: LedgerView) -> ResolvedOperation:
    """Resolve an intent against the ledger as it stands.

    Raises:
        IntentInvalid: when it refers to what is not there, or contradicts its source.
    """
    return RESOLVERS[type(intent)](intent, view)


def _is_runtimes_name(node_id: str) -> bool:
    return node_id.startswith(RUNTIME_PREFIXES) or derived_name_in(node_id) == node_id


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
    is_runtimes = payload["node_kind"] in RUNTIME_KINDS or "extracted" in payload
    if not is_runtimes and _is_runtimes_name(node_id):
        raise IntentInvalid("this id is the runtime's own", "node_id")
    neighbours = (neighbour,) if neighbour else ()
    edges, units = (
        tuple(effect["target_ref"] for effect in further_effects if effect["effect_kind"] == kind)
        for kind in ("edge_create", FILING_UNIT)
    )
    return ResolvedOperation(
        "create",
        creation_effects(node_id, corpus_id, payload, further_effects),
        (node_id,),
        operation_kind=operation_kind,
        source_refs=sources,
        read_set=(*sources, *neighbours),
        write_set=(node_id, *edges, *units),
        neighbours=(*neighbours, *units),
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


def _isolate(value: Any, before: Any, *, source: str, kind: str) -> Any:
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
