"""V6: a new understanding points at its sources, or says that it cannot (INV-MVC-CU-1, §9)."""

from kernel.checks.check import Refusal, Submission, Verdict
from kernel.model.envelope import Envelope, KernelEffect

_NO_SPANS = "synthesis_summary_no_spans"
_WITH_SPANS = "synthesis_with_spans"


def check(submission: Submission) -> Verdict:
    """Refuse a create of an understanding without spans, and a display kind that contradicts."""
    envelope = submission.envelope
    creates = envelope.semantic_intent == "create"
    for index, effect in enumerate(envelope.primitive_effects):
        if effect.payload.get("node_kind") != "ConsolidatedUnderstanding":
            continue
        # Verbs that merge, split or supersede write new understandings too.
        if creates or submission.transaction.node(effect.target_ref or "") is None:
            refusal = _check_understanding(envelope, effect, f"primitive_effects.{index}.payload")
            if refusal is not None:
                return refusal
    return None


def _check_understanding(envelope: Envelope, effect: KernelEffect, field: str) -> Refusal | None:
    spans, display_kind = effect.payload.get("source_spans"), effect.payload.get("display_kind")
    if isinstance(spans, list) and spans:
        if display_kind == _WITH_SPANS:
            return None
        return Refusal(
            "envelope_cu_display_kind_mismatch",
            f"{field}.display_kind",
            f"with source_spans the display_kind is {_WITH_SPANS}",
        )
    explained = any(
        one.effect_kind == "receipt_only" and one.receipt_subkind == "source_span_unavailable"
        for one in envelope.primitive_effects
    )
    if display_kind == _NO_SPANS and explained:
        return None
    return Refusal(
        "envelope_cu_source_spans_missing",
        f"{field}.source_spans",
        f"source_spans, or {_NO_SPANS} with a source_span_unavailable receipt",
    )
