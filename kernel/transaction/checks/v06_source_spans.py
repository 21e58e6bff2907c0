"""V6: an understanding points at its sources, or says that it cannot (INV-MVC-CU-1, §9).

It does so whenever it is written: when it is created, when its spans or its display kind change,
when it comes back, and when a state of before is put back.

1. A span names a source that is on the record, or that the envelope has written before, and a
   stretch inside of its text.
2. With spans it is shown with spans, without it is shown without (§9.4).
3. One that has no spans, or has them no longer, comes with a receipt that names it and says why
   (§9.3).
"""

from collections.abc import Mapping
from typing import Any

import orjson

from kernel.ledger import schema
from kernel.model.envelope import KernelEffect
from kernel.model.node_kinds import UNDERSTANDING
from kernel.model.receipt import RECEIPT_KINDS
from kernel.records.texts import Texts
from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.transaction.checks.v09_constructions import MERGING_KINDS

NO_SPANS = "synthesis_summary_no_spans"
WITH_SPANS = "synthesis_with_spans"
UNAVAILABLE = "source_span_unavailable"

GROUNDING = frozenset({"source_spans", "display_kind"})
_MISSING = "envelope_cu_source_spans_missing"
_MISMATCH = "envelope_cu_display_kind_mismatch"

_Fields = Mapping[str, Any]


def check(submission: Submission) -> Verdict:
    """Refuse an understanding without spans that exist, and a display kind that contradicts."""
    if not any(
        may_ground(submission.envelope.semantic_intent, effect)
        for effect in submission.envelope.primitive_effects
    ):
        return None
    return _Grounding(submission).check()


def may_ground(verb: str, effect: KernelEffect) -> bool:
    """Tell whether an effect could change what an understanding rests on."""
    if effect.undoes is not None:
        return effect.undoes.store == schema.nodes.name and effect.undoes.restores_hash != ""
    if effect.effect_kind not in MERGING_KINDS:
        return False
    payload = effect.payload
    if "node_kind" in payload:
        return bool(payload["node_kind"] == UNDERSTANDING)
    return not GROUNDING.isdisjoint(payload) or _comes_back(verb, effect)


def _comes_back(verb: str, effect: KernelEffect) -> bool:
    return verb == "restore" and "state" in effect.payload


class _Grounding:
    """The understandings of one envelope, effect by effect."""

    def __init__(self, submission: Submission) -> None:
        self._submission = submission
        self._verb = submission.envelope.semantic_intent
        self._view = submission.transaction
        self._drafts: dict[str, dict[str, Any]] = {}
        self._texts = Texts(self._view, self._drafts)

    def check(self) -> Refusal | None:
        """Return the first thing wrong."""
        for index, effect in enumerate(self._submission.envelope.primitive_effects):
            place = f"primitive_effects.{index}"
            refusal = None
            if effect.undoes is not None:
                refusal = self._check_restored(effect, place)
            elif effect.target_ref is not None and effect.effect_kind in MERGING_KINDS:
                # As submitted: in canonical form 1.0 would be the whole number 1.
                payload = self._submission.document["primitive_effects"][index].get("payload", {})
                refusal = self._check_written(effect, effect.target_ref, payload, place)
            if refusal is not None:
                return refusal
        return None

    def _check_restored(self, effect: KernelEffect, place: str) -> Refusal | None:
        undone = effect.undoes
        if undone is None or undone.store != schema.nodes.name or not undone.restores_hash:
            return None
        record = undone.restored_record
        if record is None:
            pre_image = self._view.tables.get(schema.pre_images, undone.restores_hash)
            # One that is not there is refused when it is put back.
            record = {} if pre_image is None else orjson.loads(pre_image["content"])
        if record.get("node_kind") != UNDERSTANDING:
            return None
        payload = record["payload"]
        field = f"{place}.undoes.restores_hash"
        return self._check_spans(undone.record_key, payload, field) or _check_shown(payload, field)

    def _check_written(
        self, effect: KernelEffect, node_id: str, payload: _Fields, place: str
    ) -> Refusal | None:
        node = self._view.node(node_id)
        before = self._drafts.get(node_id)
        if before is None and node is not None:
            before = node["payload"]
        after = {**(before or {}), **payload}
        kinds = [after.get("node_kind"), None if node is None else node["node_kind"]]
        refusal = None
        if UNDERSTANDING in kinds and (before is None or may_ground(self._verb, effect)):
            refusal = self._check_understanding(effect, node_id, before, after, place)
        self._drafts[node_id] = after
        self._texts = Texts(self._view, self._drafts)
        return refusal

    def _check_understanding(
        self,
        effect: KernelEffect,
        node_id: str,
        before: _Fields | None,
        after: _Fields,
        place: str,
    ) -> Refusal | None:
        field = f"{place}.payload"
        same = before is not None and before.get("source_spans") == after.get("source_spans")
        if not same or _comes_back(self._verb, effect):
            refusal = self._check_spans(node_id, after, f"{field}.source_spans")
            if refusal is not None:
                return refusal
        refusal = _check_shown(after, field)
        if refusal is not None or _spans(after):
            return refusal
        stood = before is not None and not _spans(before) and before.get("display_kind") == NO_SPANS
        return None if stood else self._check_explained(node_id, field)

    def _check_spans(self, node_id: str, payload: _Fields, field: str) -> Refusal | None:
        stated = payload["source_spans"] if _spans(payload) else []
        for index, span in enumerate(stated):
            problem = self._problem(node_id, span)
            if problem is not None:
                return Refusal(_MISSING, f"{field}.{index}", problem)
        return None

    def _problem(self, node_id: str, span: object) -> str | None:
        if not isinstance(span, dict):
            return "a span is an object: source_ref, offset, length"
        ref, offset, length = (span.get(name) for name in ("source_ref", "offset", "length"))
        if not isinstance(ref, str) or not ref:
            return "a span names its source_ref"
        if type(offset) is not int or offset < 0:
            return "offset is a whole number from 0"
        if type(length) is not int or length < 1:
            return "length is a whole number from 1"
        if ref == node_id:
            return "an understanding is no source of its own"
        whole = self._texts.length(ref)
        if whole is None:
            return f"the record holds no text of {ref}"
        if offset + length > whole:
            return f"the span ends beyond {ref}, which has {whole} characters"
        return None

    def _check_explained(self, node_id: str, field: str) -> Refusal | None:
        """Refuse an understanding without spans that no receipt explains (§9.3)."""
        place, message = f"{field}.source_spans", f"source_spans, or {NO_SPANS} with a receipt why"
        for index, effect in enumerate(self._submission.envelope.primitive_effects):
            if effect.effect_kind != "receipt_only" or effect.receipt_subkind != UNAVAILABLE:
                continue
            if effect.payload.get("cu_node_ref") != node_id:
                place = f"primitive_effects.{index}.payload.cu_node_ref"
                message = f"the receipt is about another understanding than {node_id}"
                continue
            problem = RECEIPT_KINDS[UNAVAILABLE].problem(effect.payload)
            if problem is None:
                return None
            name, message = problem
            return Refusal(_MISSING, f"primitive_effects.{index}.payload.{name}", message)
        return Refusal(_MISSING, place, message)


def _check_shown(payload: _Fields, field: str) -> Refusal | None:
    """Refuse a display kind that contradicts the spans (§9.4)."""
    shown = payload.get("display_kind")
    if _spans(payload):
        if shown == WITH_SPANS:
            return None
        message = f"with source_spans the display_kind is {WITH_SPANS}"
        return Refusal(_MISMATCH, f"{field}.display_kind", message)
    if shown == NO_SPANS:
        return None
    message = f"source_spans, or {NO_SPANS} with a {UNAVAILABLE} receipt"
    return Refusal(_MISSING, f"{field}.source_spans", message)


def _spans(payload: _Fields) -> bool:
    stated = payload.get("source_spans")
    return isinstance(stated, list) and bool(stated)
