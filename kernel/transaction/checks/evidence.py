"""Judges what an understanding, or a decision, rests on (V6).

V6: an understanding points at its sources, or says that it cannot (INV-MVC-CU-1, §9).

It does so whenever it is written: when it is created, when its spans or its display kind change,
when it comes back, and when a state of before is put back.

1. A span names a source that is on the record, or that the envelope has written before, and a
   stretch inside of its text.
2. With spans it is shown with spans, without it is shown without (§9.4).
3. One that has no spans, or has them no longer, comes with a receipt that names it and says why
   (§9.3).

V6: what follows from evidence is confirmed apart from it, on stated grounds (INV-K-OUTCOME-1).

1. Only evidence that stands on the record is confirmed or rejected: a relationship that an earlier
   operation wrote as a candidate, and that is otherwise unchanged. So no fire confirms itself.
2. A confirmed relationship has its matched primary filing, a `normalized_label` and the sources
   that it was drawn from. A ruling has a `normalized_label` and a primary source, which is its
   provenance: the `SourceArtifact` of a court's order, or an observation of a docket that stands
   (§13.6 a, c).
3. Both say who decided and on what grounds (`adjudication`). A user decides; anybody else only
   where the safe path is open, as `auto_confirmation` (§13.6 b).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import KernelEffect
from kernel.model.node_kinds import SOURCE_ARTIFACT, UNDERSTANDING
from kernel.model.receipt import RECEIPT_KINDS
from kernel.records.reviews.evidence import (
    STORES,
    EvidenceKind,
    evidence_of,
    is_open,
    open_evidence,
    why_a_person_decides,
)
from kernel.records.texts import Texts
from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.transaction.checks.overlays import MERGING_KINDS
from kernel.values.spans import NAMING, sources_in

NO_SPANS = "synthesis_summary_no_spans"
WITH_SPANS = "synthesis_with_spans"
UNAVAILABLE = "source_span_unavailable"

GROUNDING = frozenset({"source_spans", "display_kind"})
_MISSING_SPANS = "envelope_cu_source_spans_missing"
_MISMATCH = "envelope_cu_display_kind_mismatch"

_Fields = Mapping[str, Any]


def check_source_spans(submission: Submission) -> Verdict:
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
                return Refusal(_MISSING_SPANS, f"{field}.{index}", problem)
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
            return Refusal(_MISSING_SPANS, f"primitive_effects.{index}.payload.{name}", message)
        return Refusal(_MISSING_SPANS, place, message)


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
    return Refusal(_MISSING_SPANS, f"{field}.source_spans", message)


def _spans(payload: _Fields) -> bool:
    stated = payload.get("source_spans")
    return isinstance(stated, list) and bool(stated)


RULING = "ruling_disposition_write"
JUDGED_KINDS = frozenset({RULING, *(store.effect_kind for store in STORES.values())})

USER, AUTO = "user_confirmation", "auto_confirmation"
_TEXT_MAX = 1024

_KEPT = (
    *("relationship_type", "source_filing_unit_id", "target_filing_unit_id"),
    *("unmatched_expires_at", "identity_confidence", "contested_signals"),
)
"""What of a candidate a decision leaves as it is, beside the sources that it names."""


class _Place(NamedTuple):
    """An effect, and where it stands."""

    effect: KernelEffect
    field: str

    @property
    def payload(self) -> Mapping[str, Any]:
        return self.effect.payload

    def refuse(self, code: str, name: str, message: str) -> Refusal:
        return Refusal(code, f"{self.field}.{name}", message)


def check_outcomes(submission: Submission) -> Verdict:
    """Refuse a decision about evidence that lacks what INV-K-OUTCOME-1 demands."""
    view, actor = submission.transaction, submission.envelope.actor
    for index, effect in enumerate(submission.envelope.primitive_effects):
        if effect.effect_kind not in JUDGED_KINDS or effect.undoes is not None:
            continue
        place = _Place(effect, f"primitive_effects.{index}.payload")
        judge = {
            RULING: _judge_ruling,
            STORES["relationship"].effect_kind: _judge_relationship,
            STORES["observation"].effect_kind: _judge_observation,
        }[effect.effect_kind]
        refusal = judge(place, view, actor)
        if refusal is not None:
            return refusal
    return None


def _judge_relationship(place: _Place, view: LedgerView, actor: str) -> Refusal | None:
    payload, store = place.payload, STORES["relationship"]
    state = payload.get("lifecycle_state", store.confirmed)
    if state == store.open_state:
        return None
    target = place.effect.target_ref or ""
    record = view.record(store.table, target)
    if record is None or not is_open("relationship", record) or _differs(record, payload):
        message = f"{target} is no candidate with these ends; evidence comes first, in another one"
        return place.refuse("outcome_evidence_missing", "lifecycle_state", message)
    return _judge_decision(place, view, actor, "relationship", target, record) or (
        None if state == store.rejected else _lacking(place, "target_filing_unit_id", view)
    )


def _differs(record: Document, payload: Mapping[str, Any]) -> bool:
    before = record["payload"]
    # A candidate that names no source gets those of the operation that wrote it.
    kept = [*_KEPT, *(name for name in NAMING if name in before)]
    return any(before.get(name) != payload.get(name) for name in kept)


def _lacking(place: _Place, citation: str, view: LedgerView) -> Refusal | None:
    if not isinstance(place.payload.get(citation), str):
        message = "a confirmed relationship names its matched primary filing"
        return place.refuse("outcome_citation_missing", citation, message)
    return _without_label(place) or _without_sources(place, view)


def _without_label(place: _Place) -> Refusal | None:
    if _is_text(place.payload.get("normalized_label")):
        return None
    message = "what is decided has a normalized_label"
    return place.refuse("outcome_label_missing", "normalized_label", message)


def _without_sources(place: _Place, view: LedgerView) -> Refusal | None:
    if any(view.node(ref) is not None for ref in sources_in(place.payload)):
        return None
    message = "what is decided names a source on the record that it was drawn from"
    return place.refuse("outcome_provenance_missing", "source_refs", message)


def _judge_observation(place: _Place, view: LedgerView, actor: str) -> Refusal | None:
    store, target = STORES["observation"], place.effect.target_ref or ""
    if actor == "user" or place.payload.get("lifecycle_state") != store.confirmed:
        return None
    record = open_evidence(view, "observation", target)
    if record is None:
        message = f"{target} is not observed on the record"
        return place.refuse("outcome_evidence_missing", "lifecycle_state", message)
    return _judge_decision(place, view, actor, "observation", target, record)


def _judge_ruling(place: _Place, view: LedgerView, actor: str) -> Refusal | None:
    citation = place.payload.get("primary_source_citation")
    cited = citation if isinstance(citation, dict) else {}
    order, observation = (
        cited.get("court_order_ref"),
        cited.get("court_disposition_observation_id"),
    )
    record = None
    if isinstance(observation, str) and order is None:
        record = view.record(STORES["observation"].table, observation)
        stands = (
            record is not None
            and record["state"] == "active"
            and record["payload"]["lifecycle_state"] in ("observed", "confirmed")
        )
    else:
        node = view.node(order) if isinstance(order, str) and observation is None else None
        stands = (
            node is not None and node["state"] == "active" and node["node_kind"] == SOURCE_ARTIFACT
        )
    if not stands:
        message = "a ruling cites the SourceArtifact of a court's order, or an observation of it"
        return place.refuse("outcome_citation_missing", "primary_source_citation", message)
    return _without_label(place) or _judge_decision(
        place, view, actor, "observation", str(observation), record
    )


def _judge_decision(
    place: _Place,
    view: LedgerView,
    actor: str,
    kind: EvidenceKind,
    record_id: str,
    record: Document | None,
) -> Refusal | None:
    stated = place.payload.get("adjudication")
    adjudication = stated if isinstance(stated, dict) else {}
    for name in ("adjudicated_by", "grounds"):
        if not _is_text(adjudication.get(name)):
            message = "a decision says who decided, and on what grounds"
            return place.refuse("outcome_adjudication_missing", f"adjudication.{name}", message)
    basis = USER if actor == "user" else AUTO
    if adjudication.get("basis") != basis:
        message = f"what {actor} decides is a {basis}"
        return place.refuse("outcome_confirmation_required", "adjudication.basis", message)
    if actor == "user":
        return None
    is_confirmed = place.effect.effect_kind == RULING or (
        place.payload.get("lifecycle_state", STORES[kind].confirmed) == STORES[kind].confirmed
    )
    reason: str | None = "only a person rejects evidence, or decides without an observation"
    if is_confirmed and record is not None:
        reason = why_a_person_decides(evidence_of(view, kind, record_id, record))
    if reason is None:
        return None
    return place.refuse("outcome_confirmation_required", "adjudication", f"a person: {reason}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _TEXT_MAX and bool(value.strip())
