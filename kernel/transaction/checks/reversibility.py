"""Judges how the effects of an envelope can be undone, and what they undo (V10).

V10: each effect says how it can be undone, as the registry does (§4.2, §4.4).

V10, undoing: an inverse is of an effect on record, and of the record that it wrote (K2).

Which state it puts back is held against the log when it is applied
(`kernel/records/record_history.py`).
"""

from collections.abc import Iterator

from kernel.algebra.effects import EFFECT_KINDS, expected_compensations, expected_reversibility
from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import KernelEffect, UndoneEffect
from kernel.transaction.checks.check import Refusal, Submission, Verdict

_REASON = "envelope_effect_reversibility_invalid"

_FIELD_OF = {
    "fully_reversible": "inverse_operation_kind",
    "compensating_operation_only": "compensating_operation_kind",
    "irreversible_external_effect": "external_effect_descriptor",
}
"""Which field is there if, and only if, the effect has this reversibility."""


def check_reversibility(submission: Submission) -> Verdict:
    """Refuse a classification, a field or an inverse that the registry does not give."""
    seen: set[str] = set()
    for index, effect in enumerate(submission.envelope.primitive_effects):
        field = f"primitive_effects.{index}"
        if effect.effect_id in seen:
            return Refusal("envelope_schema_invalid", f"{field}.effect_id", "effect_id repeats")
        seen.add(effect.effect_id)
        refusal = check_effect(effect, _node_kind(submission, effect), field)
        if refusal is not None:
            return refusal
    return None


def check_effect(effect: KernelEffect, node_kind: str | None, field: str) -> Refusal | None:
    """Judge an effect, which stands in this field; the kind of its node may classify it."""
    expected = expected_reversibility(effect.effect_kind, node_kind)
    if effect.reversibility != expected:
        return Refusal(_REASON, f"{field}.reversibility", f"{effect.effect_kind} is {expected}")
    for reversibility, name in _FIELD_OF.items():
        stated = getattr(effect, name)
        if (stated is not None) != (reversibility == expected):
            return Refusal(_REASON, f"{field}.{name}", f"present only if {reversibility}")
        if stated is not None and not stated.strip():
            return Refusal(_REASON, f"{field}.{name}", "it is blank")
    inverses = EFFECT_KINDS[effect.effect_kind].inverses
    if expected == "fully_reversible" and effect.inverse_operation_kind not in inverses:
        return Refusal(_REASON, f"{field}.inverse_operation_kind", f"one of {', '.join(inverses)}")
    if expected == "compensating_operation_only":
        compensations = expected_compensations(effect.effect_kind, effect.payload)
        if effect.compensating_operation_kind not in compensations:
            return Refusal(
                _REASON,
                f"{field}.compensating_operation_kind",
                f"one of {', '.join(compensations)}",
            )
    return None


def _node_kind(submission: Submission, effect: KernelEffect) -> str | None:
    if not EFFECT_KINDS[effect.effect_kind].overrides:
        return None
    stated = effect.payload.get("node_kind")
    if stated is not None or effect.target_ref is None:
        return str(stated)
    node = submission.transaction.node(effect.target_ref)
    return None if node is None else str(node["node_kind"])


def check_inverse(submission: Submission) -> Verdict:
    """Refuse an inverse that is not of an effect on record, or of another record."""
    for index, effect in enumerate(submission.envelope.primitive_effects):
        undone = effect.undoes
        if undone is None:
            continue
        field = f"primitive_effects.{index}.undoes"
        applied = _applied_effect(submission.transaction, undone)
        if applied is None:
            return _refusal(field, f"{undone.operation_id} has no effect {undone.effect_id}")
        if (undone.store, undone.record_key) != (applied["store"], applied["record_key"]):
            return _refusal(field, "the effect wrote another record")
        if effect.effect_kind not in EFFECT_KINDS[applied["effect_kind"]].inverses:
            return _refusal(field, f"{effect.effect_kind} undoes no {applied['effect_kind']}")
    return None


def _refusal(field: str, message: str) -> Refusal:
    return Refusal("envelope_effect_reversibility_invalid", field, message)


def _applied_effect(view: LedgerView, undone: UndoneEffect) -> Document | None:
    row = view.log_row_of(undone.operation_id)
    effects = () if row is None else _effects(view, row["ec_sequence_number"])
    return next((effect for effect in effects if effect["effect_id"] == undone.effect_id), None)


def _effects(view: LedgerView, sequence: int) -> Iterator[Document]:
    where = {"ec_sequence_number": sequence}
    for row in view.tables.scan(TableQuery(schema.applied_effects, where, order_by="ordinal")):
        yield effect_of(row)
