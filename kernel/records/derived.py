"""Writes derived indexes, computable again (§4.3.5), and effects that are receipts (§4.3.7)."""

from kernel.algebra.verbs import REPORT_VERB
from kernel.ledger import schema
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import (
    STATED_BY_ENVELOPES,
    STATED_UNDER_VERB,
    TIME_FIELDS,
    Receipt,
    ReceiptBodyInvalid,
)
from kernel.records.external_report import report_external_effect
from kernel.records.record import Applied, Operation, write_record
from kernel.values.errors import EffectInapplicable

_MESSAGE_MAX = 500


def apply_index_update(effect: KernelEffect, operation: Operation) -> Applied:
    """Set the entry of a target in a named index."""
    name = effect.payload.get("index_name")
    if not isinstance(name, str) or "|" in name or effect.target_ref is None:
        raise EffectInapplicable(
            "an index entry names its index, without a bar, and its target",
            code="index_entry_incomplete",
            field="payload.index_name",
        )
    entry_id = f"{name}|{effect.target_ref}"
    record = {
        "index_name": name,
        "target_ref": effect.target_ref,
        "entry": effect.payload.get("entry", {}),
        "updated_by_operation_id": operation.operation_id,
        "updated_at": operation.applied_at,
    }
    return write_record(operation, schema.derived_indexes, entry_id, record)


def apply_receipt_only(effect: KernelEffect, operation: Operation) -> Applied:
    """Emit the receipt that the effect describes; no state changes (§4.3.7)."""
    if operation.semantic_intent == REPORT_VERB:
        return report_external_effect(effect, operation)
    kind = effect.receipt_subkind or operation.semantic_intent
    if kind not in STATED_UNDER_VERB.get(operation.semantic_intent, STATED_BY_ENVELOPES):
        raise EffectInapplicable(
            f"{kind} is not a receipt that an envelope states",
            code="receipt_kind_unknown",
            field="receipt_subkind",
        )
    body = dict(effect.payload)
    if kind in TIME_FIELDS:
        body[TIME_FIELDS[kind]] = operation.applied_at
    try:
        receipt_id = operation.emit(Receipt(kind, body))
    except ReceiptBodyInvalid as error:
        field = f"payload.{error.field}" if error.field else "payload"
        raise EffectInapplicable(
            str(error)[:_MESSAGE_MAX], code="receipt_body_invalid", field=field
        ) from None
    return Applied(str(schema.receipts.name), receipt_id, None, None)
