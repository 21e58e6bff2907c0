"""A validated envelope is applied to the state: effects, receipts, requests (§2.3 steps 3 and 4).

A function of the envelope, its place in the order and the state before it; nothing random and no
clock. So the state is a fold of the log, and verification folds it again, each row by the rules of
the version that it seals (`kernel/transaction/rules.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kernel.algebra.verbs import (
    BELIEF_ANCHOR,
    ENQUEUE,
    EPOCH_ROLLBACK,
    FIRE_RECORD,
    IMPLICATION_HALT,
    IMPLICATION_RESUME,
    IMPLICATION_RUN,
    KEY_HANDOVER,
    LANDSCAPE_SEAL,
    OPERATOR_VERBS,
    RECEIPTS_SEAL,
)
from kernel.authority.enqueue_pages import record_enqueued
from kernel.authority.recompute_checks import check_recomputes, complete_recomputes
from kernel.authority.request_recording import record_requests
from kernel.authority.requests import cancel_requests_for_removed
from kernel.authority.strategy import AuthorityStrategy
from kernel.authority.triggers import triggers_of
from kernel.belief.anchors import record_anchors
from kernel.landscape.seals import record_seal
from kernel.ledger.answers import emitted_receipt_id
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.model.envelope import Envelope, KernelEffect
from kernel.model.receipt import Receipt, ReceiptRules
from kernel.model.recomputes import RECALCULATE, Recompute, is_page
from kernel.records.appliers import EffectRules
from kernel.records.binding_cycles import record_manifests
from kernel.records.conflicts.adjudications import record_adjudications
from kernel.records.implications.halts import record_halt, record_resume
from kernel.records.implications.loop_limits import count_implied
from kernel.records.implications.runs import misplaced, record_run
from kernel.records.key_handovers import check_handover
from kernel.records.model_outputs import record_model_outputs
from kernel.records.operator_decisions import check_decision
from kernel.records.receipt_seals import check_seal
from kernel.records.record import Operation
from kernel.records.rollback_marks import Place, mark_page
from kernel.records.rollbacks_under_way import record_page
from kernel.records.running_extractions import follow_extractions
from kernel.records.sources import Source, node_classes, sources_of_envelope
from kernel.records.views import emit_node_write_events
from kernel.thoughts.recording import THOUGHT_RECORDERS
from kernel.transaction.operation_counts import count_operation
from kernel.values.errors import EffectInapplicable
from kernel.values.host import iso_time
from kernel.values.visibility import LEAST_RESTRICTIVE
from kernel.work.pair_routing import follow_operation


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
    recalculates = envelope.semantic_intent == RECALCULATE
    recomputes = check_recomputes(operation, envelope, strategy) if recalculates else []
    taints = _taint_receipts(transaction, envelope, [recompute for recompute, _ in recomputes])
    applied = [(effect, effects.apply(effect, operation)) for effect in envelope.primitive_effects]
    writes = [write for _, write in applied]
    _record_implications(transaction, envelope, sequence)
    record_model_outputs(envelope.recorded_model_outputs, operation)
    emit_node_write_events(operation, writes)
    undone = _undone(envelope)
    if undone:
        effects.mark_undone(operation, undone)
        cancel_requests_for_removed(operation, writes)
    if envelope.semantic_intent == EPOCH_ROLLBACK:
        record_page(operation, envelope)
    for taint in taints:
        emit(taint)
    complete_recomputes(operation, recomputes)
    if is_page(envelope):
        mark_page(operation, len(applied))
    if envelope.semantic_intent in _RECORDERS:
        _RECORDERS[envelope.semantic_intent](operation, envelope)
    else:
        record_requests(operation, envelope, triggers_of(transaction, envelope, applied))
    transaction.changes.note(sequence, writes)
    follow_operation(operation, writes, undoes=bool(undone))
    follow_extractions(operation, writes)
    documents = [
        write.document(effect, effects.canonical_kind(effect.effect_kind), operation.applied_at)
        for effect, write in applied
    ]
    return AppliedEffects(tuple(documents), tuple(receipts))


_RECORDERS: Mapping[str, Callable[[Operation, Envelope], object]] = MappingProxyType(
    {
        ENQUEUE: record_enqueued,
        BELIEF_ANCHOR: record_anchors,
        FIRE_RECORD: record_manifests,
        KEY_HANDOVER: check_handover,
        LANDSCAPE_SEAL: record_seal,
        RECEIPTS_SEAL: check_seal,
        **dict.fromkeys(OPERATOR_VERBS, check_decision),
        **THOUGHT_RECORDERS,
    }
)
"""What becomes of an operation whose verb the runtime alone speaks; of others come requests."""


def _record_implications(transaction: LedgerTransaction, envelope: Envelope, sequence: int) -> None:
    """Record what an operation says of detectors and what they imply (§19.1)."""
    if envelope.semantic_intent == IMPLICATION_RUN:
        record_run(transaction, envelope, sequence)
    elif envelope.semantic_intent == IMPLICATION_HALT:
        record_halt(transaction, envelope)
    elif envelope.semantic_intent == IMPLICATION_RESUME:
        record_resume(transaction, envelope)
    if envelope.implication is not None:
        problem = misplaced(transaction, envelope.implication)
        if problem is not None:
            code, field, message = problem
            raise EffectInapplicable(message, code=code, field=field)
        count_implied(transaction, envelope, envelope.implication)


def _undone(envelope: Envelope) -> Mapping[str, list[Place]]:
    """Return the operations that this one undoes or compensates, and the records put back."""
    undone: dict[str, list[Place]] = {}
    for effect in envelope.primitive_effects:
        if effect.undoes is not None:
            place = effect.undoes.store, effect.undoes.record_key
            undone.setdefault(effect.undoes.operation_id, []).append(place)
    if envelope.compensates_operation_id is not None:
        undone.setdefault(envelope.compensates_operation_id, [])
    return undone


def _taint_receipts(
    view: LedgerView, envelope: Envelope, recomputes: Sequence[Recompute]
) -> list[Receipt]:
    """Return the receipt of a mixed or restricted packet (§7.4, K7), none for another.

    The nodes are counted, each once, whatever the envelope states of them (decision kernel/0195). A
    class that none of them has is the envelope's, as is everything where no source is named. Of a
    page each recompute has a receipt, for what it was made of itself.
    """
    stated = envelope.source_visibility_taint
    resolved = envelope.resolved_output_visibility_class
    if not stated or (resolved == LEAST_RESTRICTIVE and len(set(stated)) == 1):
        return []
    if len(recomputes) > 1:
        return [
            _taint_receipt(
                view,
                [Source("source_refs", ref) for ref in recompute.read_refs],
                recompute.effects,
                (resolved,) if resolved else (),
                resolved,
                recompute.node_id,
            )
            for recompute in recomputes
        ]
    target = envelope.target_refs[0] if envelope.target_refs else None
    sources, effects = sources_of_envelope(envelope), envelope.primitive_effects
    deep = envelope.semantic_intent != RECALCULATE
    return [_taint_receipt(view, sources, effects, stated, resolved, target, deep=deep)]


def _taint_receipt(
    view: LedgerView,
    sources: Iterable[Source],
    effects: Iterable[KernelEffect],
    stated: Iterable[str],
    resolved: str | None,
    output_ref: str | None,
    *,
    deep: bool = False,
) -> Receipt:
    counted = list(node_classes(view, sources, effects, deep=deep).values())
    taint = [*counted, *(name for name in stated if name not in counted)]
    distinct = sorted(set(taint))
    body: Document = {
        "source_visibility_taint": taint,
        "source_visibility_taint_distinct": distinct,
        "resolved_output_visibility_class": resolved,
        "source_node_count_per_class": {name: (counted or taint).count(name) for name in distinct},
    }
    if output_ref is not None:
        body["output_node_ref"] = output_ref
    return Receipt("taint_propagation", body)
