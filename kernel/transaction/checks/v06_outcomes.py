"""V6: what follows from evidence is confirmed apart from it, on stated grounds (INV-K-OUTCOME-1).

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

from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import KernelEffect
from kernel.model.node_kinds import SOURCE_ARTIFACT
from kernel.records.reviews.evidence import (
    STORES,
    EvidenceKind,
    evidence_of,
    is_open,
    open_evidence,
    why_a_person_decides,
)
from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.values.spans import NAMING, sources_in

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


def check(submission: Submission) -> Verdict:
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
    if record is None or not is_open("relationship", record) or _changed(record, payload):
        message = f"{target} is no candidate with these ends; evidence comes first, in another one"
        return place.refuse("outcome_evidence_missing", "lifecycle_state", message)
    return _judge_decision(place, view, actor, "relationship", target, record) or (
        None if state == store.rejected else _lacking(place, "target_filing_unit_id", view)
    )


def _changed(record: Document, payload: Mapping[str, Any]) -> bool:
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
