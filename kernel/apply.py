"""What a validated envelope does to the state: effects, receipts, requests (§2.3 steps 3 and 4).

A function of the envelope, its place in the order and the state before it; nothing random and no
clock. So the state is a fold of the log, and verification folds it again, each row by the rules of
the version that it seals (`kernel/rules.py`).
"""

from dataclasses import dataclass

from kernel.algebra.verbs import BELIEF_ANCHOR, ENQUEUE, EPOCH_ROLLBACK
from kernel.authority.enqueue import record_enqueued
from kernel.authority.recompute import check_recompute, complete_recompute
from kernel.authority.recording import record_requests
from kernel.authority.requests import cancel_requests_for_removed
from kernel.authority.strategy import AuthorityStrategy
from kernel.authority.triggers import triggers_of
from kernel.belief_anchors import record_anchors
from kernel.conflicts.adjudications import record_adjudications
from kernel.host import iso_time
from kernel.ledger.answers import emitted_receipt_id
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.model.envelope import Envelope
from kernel.model.receipt import Receipt, ReceiptRules
from kernel.operation_counts import count_operation
from kernel.sources import node_classes
from kernel.stores.appliers import EffectRules
from kernel.stores.model_outputs import record_model_outputs
from kernel.stores.record import Operation
from kernel.stores.rollback_marks import mark_undone
from kernel.stores.rollbacks_under_way import record_page
from kernel.stores.views import emit_node_write_events
from kernel.visibility import LEAST_RESTRICTIVE


@dataclass(frozen=True, slots=True)
class AppliedEffects:
    """The documents of the applied effects and of the receipts, in the order of applying."""

    applied_effects: tuple[Document, ...]
    receipts: tuple[dict[str, str], ...]


def apply_operation(
    transaction: LedgerTransaction,
    envelope: Envelope,
    sequence: int,
    strategy: AuthorityStrategy,
    effects: EffectRules,
    receipt_rules: ReceiptRules,
) -> AppliedEffects:
    """Apply an envelope at its sequence; the head's clock already shows its commit time.

    Raises:
        EffectInapplicable: when the state does not admit an effect; the caller undoes the rest.
    """
    receipts: list[dict[str, str]] = []

    def emit(receipt: Receipt) -> str:
        receipt_id = emitted_receipt_id(envelope.operation_id, len(receipts))
        append_receipt(transaction, receipt_id, receipt, envelope.operation_id, rules=receipt_rules)
        receipts.append(
            {
                "receipt_id": receipt_id,
                "receipt_kind": receipt.receipt_kind,
                "retention_class": receipt_rules.retention_of(receipt),
            }
        )
        return receipt_id

    operation = Operation(
        transaction,
        envelope.operation_id,
        envelope.semantic_intent,
        iso_time(transaction.head_now.committed_at_us),
        sequence,
        emit,
    )
    count_operation(transaction, envelope, emit)
    record_adjudications(transaction, envelope, sequence)
    recalculates = envelope.semantic_intent == "recalculate_authority"
    taint = _taint_receipt(transaction, envelope)
    served = check_recompute(operation, envelope, strategy) if recalculates else []
    applied = [(effect, effects.apply(effect, operation)) for effect in envelope.primitive_effects]
    record_model_outputs(envelope.recorded_model_outputs, operation)
    emit_node_write_events(operation, [write for _, write in applied])
    undone = _undone(envelope)
    if undone:
        mark_undone(operation, undone)
        cancel_requests_for_removed(operation, [write for _, write in applied])
    if envelope.semantic_intent == EPOCH_ROLLBACK:
        record_page(operation, envelope)
    if taint is not None:
        emit(taint)
    if recalculates:
        complete_recompute(operation, envelope, served)
    if envelope.semantic_intent == ENQUEUE:
        record_enqueued(operation, envelope)
    elif envelope.semantic_intent == BELIEF_ANCHOR:
        record_anchors(operation, envelope)
    else:
        record_requests(operation, envelope, triggers_of(transaction, envelope, applied))
    transaction.changes.note(sequence, [write for _, write in applied])
    documents = tuple(
        write.document(effect, effects.canonical_kind(effect.effect_kind), operation.applied_at)
        for effect, write in applied
    )
    return AppliedEffects(documents, tuple(receipts))


def _undone(envelope: Envelope) -> list[str]:
    """Return the operations that this one undoes or compensates."""
    operation_ids = [
        effect.undoes.operation_id for effect in envelope.primitive_effects if effect.undoes
    ]
    if envelope.compensates_operation_id is not None:
        operation_ids.append(envelope.compensates_operation_id)
    return list(dict.fromkeys(operation_ids))


def _taint_receipt(view: LedgerView, envelope: Envelope) -> Receipt | None:
    """Return the receipt of a mixed or restricted packet (§7.4, K7), None for another.

    The nodes are counted, each once, whatever the envelope states of them (decision kernel/0195). A
    class that none of them has is the envelope's, as is everything where no source is named.
    """
    stated = envelope.source_visibility_taint
    resolved = envelope.resolved_output_visibility_class
    if not stated or (resolved == LEAST_RESTRICTIVE and len(set(stated)) == 1):
        return None
    deep = envelope.semantic_intent != "recalculate_authority"
    counted = list(node_classes(view, envelope, deep=deep).values())
    taint = [*counted, *(name for name in stated if name not in counted)]
    distinct = sorted(set(taint))
    body: Document = {
        "source_visibility_taint": taint,
        "source_visibility_taint_distinct": distinct,
        "resolved_output_visibility_class": resolved,
        "source_node_count_per_class": {name: (counted or taint).count(name) for name in distinct},
    }
    if envelope.target_refs:
        body["output_node_ref"] = envelope.target_refs[0]
    return Receipt("taint_propagation", body)
