"""Follows an epoch's rollback in pages: where it stands, and what waits for it (§5.3).

A row is there from the first page to the last but one; what the pages came to is in their receipts.
Meanwhile the operations of the epoch that are left stay as the plan saw them: nothing is written
over what one of them wrote, refers to it or names it among its causes, and what was undone already
is not brought back (`rollback_under_way`, decision kernel/0231). An effect that has happened
outside is reported all the same.
"""

from collections.abc import Iterable, Iterator

import orjson

from kernel.algebra.verbs import BOUNDARIES, EPOCH_ROLLBACK, REPORT_VERB, ROLLBACK
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.envelope import Envelope
from kernel.records.operation_steps import AppliedOperation
from kernel.records.record import Operation
from kernel.records.rollback_marks import is_in_effect, mark_of
from kernel.values.canonical import canonicalize
from kernel.values.errors import EffectInapplicable

TIER_2_RECEIPT = "tier_2_rollback"
TIER_1_RECEIPT = "tier_1_rollback"

_PERSISTENT = frozenset({EPOCH_ROLLBACK, REPORT_VERB})


def record_page(operation: AppliedOperation) -> None:
    """Record where the rollback of an epoch stands after a page; nothing stands after the last."""
    for effect in operation.envelope.primitive_effects:
        if effect.receipt_subkind == TIER_2_RECEIPT:
            _record(operation, effect.payload)


def _record(operation: Operation, page: Document) -> None:
    transaction = operation.transaction
    transaction.forget_rollback()
    if not page["operations_left"]:
        transaction.tables.delete(schema.rollbacks_under_way, page["epoch_id"])
        return
    names = ("epoch_id", "plan_digest", "page", "operations_left", "undone_from_sequence")
    record = {name: page[name] for name in (*names, "user_confirmation_token")}
    row = {
        "epoch_id": page["epoch_id"],
        "record": canonicalize(record),
    }
    transaction.tables.put(schema.rollbacks_under_way, row)


def check_left_alone(
    transaction: LedgerTransaction, envelope: Envelope, applied_effects: Iterable[Document]
) -> None:
    """Refuse what would stand in the way of a rollback that is under way.

    Raises:
        EffectInapplicable: `rollback_under_way`.
    """
    begun = transaction.rollback_under_way()
    if begun is None or _is_of_the_rollback(envelope):
        return
    remaining = _Left(transaction, begun)
    for index, effect in enumerate(envelope.primitive_effects):
        if effect.undoes is not None and remaining.was_undone_by(effect.undoes.operation_id):
            raise _refusal(begun, f"primitive_effects.{index}.undoes")
    for index, applied in enumerate(applied_effects):
        for store, key in _touched_records(transaction, applied):
            if remaining.holds(store, key):
                raise _refusal(begun, f"primitive_effects.{index}")
    for index, parent in enumerate(envelope.causal_parent_operation_ids):
        if remaining.has(transaction.log_row_of(parent)):
            raise _refusal(begun, f"causal_parent_operation_ids.{index}")


def _is_of_the_rollback(envelope: Envelope) -> bool:
    """Tell whether an operation is part of an epoch's rollback, which alone goes on.

    The runtime alone undoes; one operation by itself says so on its receipt.
    """
    verb = envelope.semantic_intent
    if verb == ROLLBACK:
        kinds = {effect.receipt_subkind for effect in envelope.primitive_effects}
        return TIER_1_RECEIPT not in kinds
    return verb in _PERSISTENT or envelope.compensates_operation_id is not None


class _Left:
    """The operations of an epoch that are left to undo."""

    def __init__(self, view: LedgerView, begun: Document) -> None:
        self._view = view
        self._epoch_id = begun["epoch_id"]
        self._end = int(begun["undone_from_sequence"])

    def has(self, row: Row | None) -> bool:
        """Tell whether the operation of a row is one of them."""
        return (
            row is not None
            and row["commit_epoch_id"] == self._epoch_id
            and row["ec_sequence_number"] < self._end
            and row["semantic_intent"] not in BOUNDARIES
            and is_in_effect(mark_of(self._view, row["operation_id"]))
        )

    def holds(self, store: str, key: str) -> bool:
        """Tell whether one of them wrote a record, and nobody since whose write counts."""
        where = {"store": store, "record_key": key}
        sequence: int | None = None
        while True:
            query = TableQuery(
                schema.applied_effects,
                where,
                order_by="ec_sequence_number",
                after=sequence,
                descending=True,
                limit=1,
            )
            newest = self._view.tables.scan(query)
            if not newest:
                return False
            sequence = int(newest[0]["ec_sequence_number"])
            row = self._view.tables.get(schema.kernel_event_log, sequence)
            if row is None:
                continue
            if is_in_effect(mark_of(self._view, row["operation_id"]), (store, key)):
                return self.has(row)

    def was_undone_by(self, operation_id: str) -> bool:
        """Tell whether an operation is one by which the rollback undid a part of the epoch."""
        undone = mark_of(self._view, operation_id)["undoes"]
        rows = (self._view.log_row_of(operation_id) for operation_id in undone)
        return any(row is not None and row["commit_epoch_id"] == self._epoch_id for row in rows)


def _touched_records(
    transaction: LedgerTransaction, applied: Document
) -> Iterator[tuple[str, str]]:
    """Yield the record that an effect wrote, and the nodes of which it speaks."""
    store, key = applied["store"], applied["record_key"]
    yield store, key
    table = schema.STORES.get(store)
    kept = None if table is None else schema.store_of(table)
    if table is None or kept is None or kept.speaks_of is None:
        return
    row = transaction.tables.get(table, key)
    if row is not None:
        for node_id in kept.speaks_of(orjson.loads(row["record"])):
            if node_id is not None:
                yield str(schema.nodes.name), node_id


def _refusal(begun: Document, field: str) -> EffectInapplicable:
    return EffectInapplicable(
        f"epoch {begun['epoch_id']} is being rolled back, and this would stand in its way;"
        f" {begun['operations_left']} of its operations are left",
        code="rollback_under_way",
        field=field,
    )
