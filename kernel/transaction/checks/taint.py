"""Judges what models were shown, and how restricted an output has to be (V7, V8).

V7: what a model was shown had been isolated first (INV-MVC-3, §10).

Three questions, the last of them of every envelope:

1. Everything ingested that an operation with model outputs names as a source, reads, or points at
   with a span was wrapped, its content and its metadata.
2. Each recorded output was asked for with the wrapped content, is this operation's own, and has
   the fingerprint that its parts give.
3. That something was wrapped is the orchestrator's word. A caller may neither say so nor change
   what bears that word, for then the word would be untrue.

V8: the output is as restricted as the most restricted source (INV-A-TAINT-INFECTIOUS-1, §7).

The declared taint is checked against itself, against the written nodes, and against the sources
that the ledger knows: a source whose class was left out is a resolution computed wrongly. A preview
of restricted material says so (INV-G-SIM-VIS-1, §11.6).
"""

from collections.abc import Iterator
from itertools import islice

from kernel.algebra.effects import canonical_kind
from kernel.algebra.verbs import ROLLBACK
from kernel.ledger import schema
from kernel.ledger.applied_effects import sequences_that_wrote
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.simulations import MOST_RESTRICTIVE
from kernel.model.envelope import Envelope, KernelEffect
from kernel.model.model_output import RecordedModelOutput, fingerprint
from kernel.model.node_kinds import SOURCE_ARTIFACT
from kernel.model.recomputes import RECALCULATE, is_page, recomputes_of
from kernel.model.simulation import PREVIEW_EFFECT, SIMULATE, WARNED_CLASSES
from kernel.records.overlays.overlay import EMBEDDED
from kernel.records.sources import (
    RECLASSIFICATION,
    SourceClasses,
    class_of_nodes,
    classes_of,
    sources_of_envelope,
)
from kernel.transaction.checks.check import Refusal, Submission, Verdict, printable_excerpt
from kernel.values.spans import names_of
from kernel.values.untrusted import CONTENT_FLAG, METADATA_FLAG
from kernel.values.visibility import (
    LEAST_RESTRICTIVE,
    VISIBILITY_CLASSES,
    is_lowered,
    max_visibility_class,
)

_SAYS_NOTHING = frozenset({"node_kind", "state", "visibility_class", EMBEDDED})
"""Fields of a node that are no part of its ingested content."""


def check_isolation(submission: Submission) -> Verdict:
    """Refuse bare content that a model was shown, and a caller who says it was wrapped."""
    refusal = None
    if submission.envelope.recorded_model_outputs:
        refusal = _check_sources_shown(submission) or _check_outputs_shown(submission)
    if refusal is None and submission.submitter != "orchestrator":
        refusal = _check_caller(submission)
    return refusal


def _check_sources_shown(submission: Submission) -> Refusal | None:
    seen: set[str] = set()
    for source in sources_of_envelope(submission.envelope):
        field, ref = source.field, source.ref
        if ref in seen:
            continue
        seen.add(ref)
        for payload in _ingested_payloads(submission.transaction, ref):
            if payload.get(CONTENT_FLAG) is not True:
                return Refusal("envelope_unwrapped_content", field, f"the content of {ref} is bare")
            if payload.get(METADATA_FLAG) is not True:
                return Refusal(
                    "envelope_unwrapped_metadata", field, f"the metadata of {ref} is bare"
                )
    return None


def _ingested_payloads(view: LedgerView, ref: str) -> Iterator[Document]:
    """Yield the payloads of what was ingested under a reference, or under what it is a part of."""
    # Not every store can be asked for U+0000, which is in no stored name.
    for node_id in () if "\x00" in ref else names_of(ref):
        node = view.node(node_id)
        if node is None:
            continue
        # An artifact that does not say how it was acquired counts as ingested.
        if node["node_kind"] == SOURCE_ARTIFACT or "acquisition_shape" in node["payload"]:
            yield node["payload"]


def _check_outputs_shown(submission: Submission) -> Refusal | None:
    for index, output in enumerate(submission.envelope.recorded_model_outputs):
        field = f"recorded_model_outputs.{index}"
        if not output.prompt_hash_includes_wrapped_content:
            return Refusal(
                "envelope_prompt_hash_pre_wrap",
                f"{field}.prompt_hash_includes_wrapped_content",
                "the prompt was hashed before its content was wrapped",
            )
        parts = output.model_version, output.prompt_hash, output.parameter_hash
        if output.fingerprint_combined != fingerprint(*parts):
            return Refusal(
                "envelope_schema_invalid",
                f"{field}.fingerprint_combined",
                "its three parts give another fingerprint",
            )
        if not _is_own_or_known(submission, output):
            return Refusal(
                "envelope_schema_invalid",
                f"{field}.recorded_by_operation_id",
                "an operation states outputs of its own, or of one on record",
            )
    return None


def _check_caller(submission: Submission) -> Refusal | None:
    for index, effect in enumerate(submission.envelope.primitive_effects):
        field = f"primitive_effects.{index}.payload"
        for flag in (CONTENT_FLAG, METADATA_FLAG):
            if flag in effect.payload:
                return Refusal(
                    "envelope_actor_unauthorized",
                    f"{field}.{flag}",
                    "that something was wrapped is the orchestrator's word",
                )
        changed = sorted(effect.payload.keys() - _SAYS_NOTHING)
        if not changed or canonical_kind(effect.effect_kind) != "node_write":
            continue
        node = submission.transaction.node(effect.target_ref or "")
        if node is not None and (
            CONTENT_FLAG in node["payload"] or METADATA_FLAG in node["payload"]
        ):
            return Refusal(
                "envelope_actor_unauthorized",
                f"{field}.{changed[0]}",
                "what was wrapped is changed through the orchestrator, which wraps again",
            )
    return None


def _is_own_or_known(submission: Submission, output: RecordedModelOutput) -> bool:
    """Tell whether an output is this operation's own, or on record (§6.5)."""
    if output.recorded_by_operation_id == submission.envelope.operation_id:
        return True
    known = submission.transaction.record(schema.recorded_model_outputs, output.recorded_output_id)
    return known is not None and (
        known["recorded_by_operation_id"] == output.recorded_by_operation_id
    )


WRITERS_MAX = 2_000
"""Operations on a node that are looked at to lower its class; beyond them it stays as it is."""

_NO_WARNING = "envelope_simulation_visibility_warning_missing"


def check_taint(submission: Submission) -> Verdict:
    """Refuse a resolution that is not the maximum of the sources, and outputs that differ."""
    return (
        _check_resolution(submission)
        or _check_sources(submission)
        or _check_outputs(submission)
        or _check_page(submission)
        or _check_warning(submission)
        or _check_model_outputs(submission)
        or _check_lowered(submission)
    )


def _check_resolution(submission: Submission) -> Refusal | None:
    envelope = submission.envelope
    taint = envelope.source_visibility_taint
    resolved = envelope.resolved_output_visibility_class
    unknown = [name for name in taint if name not in VISIBILITY_CLASSES]
    if not taint and resolved is not None and resolved not in VISIBILITY_CLASSES:
        return Refusal(
            "envelope_taint_resolution_invalid",
            "resolved_output_visibility_class",
            f"unknown visibility class {printable_excerpt(resolved)}",
        )
    if unknown:
        return Refusal(
            "envelope_taint_resolution_invalid",
            "source_visibility_taint",
            f"unknown visibility class {printable_excerpt(unknown[0])}",
        )
    if not taint:
        return None
    expected = max_visibility_class(taint)
    if resolved == expected:
        return None
    return Refusal(
        "envelope_taint_resolution_invalid",
        "resolved_output_visibility_class",
        f"expected {expected}, got {printable_excerpt(resolved)}",
    )


def _check_sources(submission: Submission) -> Refusal | None:
    envelope = submission.envelope
    # A recompute reads numbers and writes nothing else of its inputs.
    recomputes = envelope.semantic_intent == RECALCULATE
    deep = not (recomputes and submission.submitter == "orchestrator")
    for source, visibility in classes_of(submission.transaction, envelope, deep=deep):
        if visibility == LEAST_RESTRICTIVE:
            continue
        if visibility not in envelope.source_visibility_taint:
            return Refusal(
                "envelope_taint_resolution_invalid",
                source.field,
                f"{source.ref} is {visibility}, which the taint leaves out",
            )
    return None


def _check_outputs(submission: Submission) -> Refusal | None:
    envelope = submission.envelope
    resolved = envelope.resolved_output_visibility_class
    for index, effect in enumerate(envelope.primitive_effects):
        # A state that is put back keeps its class.
        if effect.undoes is not None or canonical_kind(effect.effect_kind) != "node_write":
            continue
        stated = effect.payload.get("visibility_class")
        field = f"primitive_effects.{index}.payload.visibility_class"
        if "visibility_class" in effect.payload and stated not in VISIBILITY_CLASSES:
            return Refusal(
                "envelope_taint_output_node_mismatch", field, f"unknown visibility class {stated}"
            )
        if not envelope.source_visibility_taint or resolved is None:
            continue
        if stated != resolved and (
            stated or is_lowered(resolved, _stored_class(submission, effect))
        ):
            return Refusal(
                "envelope_taint_output_node_mismatch",
                field,
                f"the output node is {stated}, resolved is {resolved}",
            )
    return None


def _check_page(submission: Submission) -> Refusal | None:
    """Refuse a page of recomputes of several classes: the most restrictive would raise the others.

    Where the page is public, so is everything that its recomputes were made of.
    """
    envelope = submission.envelope
    resolved = envelope.resolved_output_visibility_class
    if resolved in (None, LEAST_RESTRICTIVE) or not is_page(envelope):
        return None
    for recompute in recomputes_of(envelope):
        own = class_of_nodes(submission.transaction, recompute.read_refs)
        if own != resolved:
            return Refusal(
                "envelope_taint_output_node_mismatch",
                f"primitive_effects.{recompute.first}.payload.visibility_class",
                f"{recompute.node_id} alone is {own}, the page is {resolved}",
            )
    return None


def _check_model_outputs(submission: Submission) -> Refusal | None:
    """Refuse an output that saw a more restricted class than the operation says it touched."""
    envelope = submission.envelope
    resolved = envelope.resolved_output_visibility_class or LEAST_RESTRICTIVE
    for index, output in enumerate(envelope.recorded_model_outputs):
        own = output.resolved_output_visibility_class
        touched = [*output.source_visibility_taint, *([own] if own is not None else ())]
        field = f"recorded_model_outputs.{index}"
        unknown = [name for name in touched if name not in VISIBILITY_CLASSES]
        if unknown:
            message = f"unknown visibility class {unknown[0]}"
            return Refusal("envelope_taint_resolution_invalid", field, message)
        expected = max_visibility_class(output.source_visibility_taint)
        if own is not None and is_lowered(expected, own):
            return Refusal(
                "envelope_taint_resolution_invalid",
                f"{field}.resolved_output_visibility_class",
                f"expected {expected}, got {own}",
            )
        if is_lowered(max_visibility_class(touched), resolved):
            return Refusal(
                "envelope_taint_resolution_invalid",
                field,
                f"the model saw {max_visibility_class(touched)}, resolved is {resolved}",
            )
    return None


def _stored_class(submission: Submission, effect: KernelEffect) -> str:
    """Return the class that the node keeps where the effect states none."""
    node = submission.transaction.node(effect.target_ref or "")
    return LEAST_RESTRICTIVE if node is None else str(node["visibility_class"])


def _check_warning(submission: Submission) -> Refusal | None:
    """Refuse a simulation of sealed or firewalled sources whose preview does not warn."""
    envelope = submission.envelope
    if envelope.semantic_intent != SIMULATE:
        return None
    classes = {visibility for _, visibility in classes_of(submission.transaction, envelope)}
    classes.update(envelope.source_visibility_taint)
    classes.add(envelope.resolved_output_visibility_class or "")
    if not classes & WARNED_CLASSES:
        return None
    for index, effect in enumerate(envelope.primitive_effects):
        if effect.receipt_subkind == PREVIEW_EFFECT:
            warning = effect.payload.get("rendered_visibility_warning")
            if isinstance(warning, str) and warning.strip():
                return None
            field = f"primitive_effects.{index}.payload.rendered_visibility_warning"
            return Refusal(_NO_WARNING, field, "its sources are sealed or firewalled")
    return Refusal(_NO_WARNING, "primitive_effects", "there is no preview that could warn")


def _check_lowered(submission: Submission) -> Refusal | None:
    """Refuse a class below that of anything from which an operation in effect drew the node (§7.6).

    A source that the node no longer names restricts it all the same: what was drawn from it stays.
    """
    view = submission.transaction
    for index, effect in enumerate(submission.envelope.primitive_effects):
        if effect.effect_kind != RECLASSIFICATION or effect.undoes is not None:
            continue
        node = None if effect.target_ref is None else view.node(effect.target_ref)
        stated = effect.payload.get("visibility_class")
        if node is None or stated not in VISIBILITY_CLASSES:
            continue
        if not is_lowered(node["visibility_class"], stated):
            continue
        writers = islice(_writers(view, node["node_id"]), WRITERS_MAX + 1)
        classes = SourceClasses(view)
        for number, envelope in enumerate(writers):
            drawn = None if envelope is None else sources_of_envelope(envelope)
            if drawn is None or number == WRITERS_MAX:
                restricted = [MOST_RESTRICTIVE]
            else:
                restricted = [
                    classes.of(source) or LEAST_RESTRICTIVE
                    for source in drawn
                    if not source.is_read and source.ref != node["node_id"]
                ]
            if is_lowered(max_visibility_class(restricted), stated):
                return Refusal(
                    "visibility_class_lowered",
                    f"primitive_effects.{index}.payload.visibility_class",
                    f"{node['node_id']} was drawn from what is more restricted than {stated}",
                )
    return None


def _writers(view: LedgerView, node_id: str) -> Iterator[Envelope | None]:
    """Yield the operations in effect that wrote a node, newest first.

    None stands for one that was erased, or is quarantined.
    """
    for sequence in sequences_that_wrote(view, str(schema.nodes.name), node_id, descending=True):
        row = view.tables.get(schema.kernel_event_log, sequence)
        if row is None or row["semantic_intent"] == ROLLBACK:
            continue
        mark = view.record(schema.operation_rollbacks, row["operation_id"])
        if mark is None or not mark["undone_by"]:
            is_sound = view.quarantines().over(sequence) is None
            content = view.blob(row["envelope_payload_blob_ref"]) if is_sound else None
            yield None if content is None else Envelope.model_validate_json(content)
