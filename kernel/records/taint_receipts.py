"""Says on receipts how restricted the sources of a mixed or restricted packet are (§7.4, K7)."""

from collections.abc import Iterable

from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.model.recomputes import RECALCULATE
from kernel.records.operation_steps import AppliedOperation
from kernel.records.sources import Source, node_classes, sources_of_envelope
from kernel.values.visibility import LEAST_RESTRICTIVE


def make_taint_receipts(operation: AppliedOperation) -> None:
    """Make the receipt of an operation's taint, from the state before its effects.

    The nodes are counted, each once, whatever the envelope states of them (decision kernel/0195). A
    class that none of them has is the envelope's, as is everything where no source is named. Of a
    page each recompute has a receipt, for what it was made of itself.
    """
    envelope, view = operation.envelope, operation.transaction
    stated = envelope.source_visibility_taint
    resolved = envelope.resolved_output_visibility_class
    if not stated or (resolved == LEAST_RESTRICTIVE and len(set(stated)) == 1):
        return
    if len(operation.recomputes) > 1:
        operation.taints = [
            _taint_receipt(
                view,
                [Source("source_refs", ref) for ref in recompute.read_refs],
                recompute.effects,
                (resolved,) if resolved else (),
                resolved,
                recompute.node_id,
            )
            for recompute, _ in operation.recomputes
        ]
        return
    target = envelope.target_refs[0] if envelope.target_refs else None
    sources, effects = sources_of_envelope(envelope), envelope.primitive_effects
    deep = operation.semantic_intent != RECALCULATE
    operation.taints = [_taint_receipt(view, sources, effects, stated, resolved, target, deep=deep)]


def emit_taint_receipts(operation: AppliedOperation) -> None:
    """Emit the receipts of an operation's taint, behind those of its effects."""
    for taint in operation.taints:
        operation.emit(taint)


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
