"""V10, undoing: an inverse is of an effect on record, and of the record that it wrote (K2).

Which state it puts back is held against the log when it is applied
(`kernel/records/record_history.py`).
"""

from collections.abc import Iterator

from kernel.algebra.effects import EFFECT_KINDS
from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import UndoneEffect
from kernel.transaction.checks.check import Refusal, Submission, Verdict


def check(submission: Submission) -> Verdict:
    """Refuse an inverse that is not of an effect on record, or of another record."""
    for index, effect in enumerate(submission.envelope.primitive_effects):
        undone = effect.undoes
        if undone is None:
            continue
        field = f"primitive_effects.{index}.undoes"
        applied = _applied(submission.transaction, undone)
        if applied is None:
            return _refusal(field, f"{undone.operation_id} has no effect {undone.effect_id}")
        if (undone.store, undone.record_key) != (applied["store"], applied["record_key"]):
            return _refusal(field, "the effect wrote another record")
        if effect.effect_kind not in EFFECT_KINDS[applied["effect_kind"]].inverses:
            return _refusal(field, f"{effect.effect_kind} undoes no {applied['effect_kind']}")
    return None


def _refusal(field: str, message: str) -> Refusal:
    return Refusal("envelope_effect_reversibility_invalid", field, message)


def _applied(view: LedgerView, undone: UndoneEffect) -> Document | None:
    row = view.log_row_of(undone.operation_id)
    effects = () if row is None else _effects(view, row["ec_sequence_number"])
    return next((effect for effect in effects if effect["effect_id"] == undone.effect_id), None)


def _effects(view: LedgerView, sequence: int) -> Iterator[Document]:
    where = {"ec_sequence_number": sequence}
    for row in view.tables.select(schema.applied_effects, where, order_by="ordinal"):
        yield effect_of(row)
