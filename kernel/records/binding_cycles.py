"""Keeps the evaluation cycles of source events, and the manifest of each (§14.1, §15.2, §15.6).

A cycle of an event collects the outcomes that its bindings have had since its last manifest, one a
binding. The manifest names them all, ends the cycle, and is the only one of its number. Outcomes
are receipts and manifests operations, so both tables follow from the record.
"""

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.receipt import MANIFEST_RECEIPT
from kernel.model.stated_receipts import BindingEvaluationManifest
from kernel.records.operation_steps import AppliedOperation
from kernel.records.record import Operation
from kernel.values.errors import EffectInapplicable


def next_cycle(view: LedgerView, source_event_id: str) -> int:
    """Return the number of the cycle in which the event is."""
    last = last_manifest(view, source_event_id)
    return 1 if last is None else int(last["cycle"]) + 1


def last_manifest(view: LedgerView, source_event_id: str) -> Row | None:
    """Return the row of an event's newest manifest, None before the first."""
    query = TableQuery(
        schema.binding_evaluation_manifests,
        {"source_event_id": source_event_id},
        order_by="cycle",
        descending=True,
        limit=1,
    )
    rows = view.tables.scan(query)
    return rows[0] if rows else None


def manifest_rows(
    view: LedgerView, source_event_id: str, *, after: int = 0, limit: int
) -> list[Row]:
    """Return the rows of an event's manifests, in the order of its cycles, after one of them."""
    query = TableQuery(
        schema.binding_evaluation_manifests,
        {"source_event_id": source_event_id},
        order_by="cycle",
        after=after,
        limit=limit,
    )
    return view.tables.scan(query)


def outcomes_of_cycle(view: LedgerView, source_event_id: str) -> list[Row]:
    """Return the outcomes that no manifest names yet, by their requests."""
    return view.tables.scan(
        TableQuery(schema.binding_cycle_outcomes, {"source_event_id": source_event_id})
    )


def note_outcome(
    transaction: LedgerTransaction, source_event_id: str, request_id: str, receipt_id: str
) -> None:
    """Count an outcome to the event's cycle; a later one of the same request takes its place."""
    transaction.tables.put(
        schema.binding_cycle_outcomes,
        {
            "request_id": request_id,
            "source_event_id": source_event_id,
            "receipt_id": receipt_id,
        },
    )


def record_manifests(operation: AppliedOperation) -> None:
    """End the cycles whose manifests an operation states.

    Raises:
        EffectInapplicable: `binding_manifest_cycle_not_next` where the event is in another cycle.
    """
    for effect in operation.envelope.primitive_effects:
        if effect.receipt_subkind == MANIFEST_RECEIPT and "cycle" in effect.payload:
            _record(operation, effect.payload)


def _record(operation: Operation, payload: object) -> None:
    transaction = operation.transaction
    manifest = BindingEvaluationManifest.model_validate(payload)  # its receipt was emitted with it
    event = manifest.source_event_id
    cycle = next_cycle(transaction, event)
    if manifest.cycle != cycle:
        raise EffectInapplicable(
            f"{event} is in cycle {cycle}",
            code="binding_manifest_cycle_not_next",
            field="payload.cycle",
        )
    transaction.tables.insert(
        schema.binding_evaluation_manifests,
        {
            "manifest_id": manifest.manifest_id,
            "source_event_id": event,
            "cycle": cycle,
            "operation_id": operation.operation_id,
            "ec_sequence_number": operation.sequence,
        },
    )
    for row in outcomes_of_cycle(transaction, event):
        transaction.tables.delete(schema.binding_cycle_outcomes, row["request_id"])
