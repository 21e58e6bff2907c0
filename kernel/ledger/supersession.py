"""Tells lite rows from the rows that take their place, and where an operation stands.

An operation that came as a lite envelope has a row that does nothing. Once it was migrated it has a
second, later row, which holds the envelope that was applied and names the first (K24,
decision kernel/0098). Whoever asks for the operation gets the second row; its place in the order is
that of the first. Its effects are applied where the second row stands (decision kernel/0135).
"""

from collections.abc import Iterable

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.envelope import Superseded
from kernel.model.lite import LITE_INTENT
from kernel.model.receipt import MIGRATION_KIND
from kernel.values.errors import EffectInapplicable


def is_lite(row: Row) -> bool:
    """Tell whether a row of the log holds a lite envelope."""
    return bool(row["semantic_intent"] == LITE_INTENT)


def lite_document(view: LedgerView, row: Row) -> Document:
    """Return a lite envelope, or what its row says where the envelope was erased."""
    content = view.blob(row["envelope_payload_blob_ref"])
    document: Document = orjson.loads(row["row_bytes"] if content is None else content)
    return document if content is not None else document | {"semantic_intent": None}


def position_of(row: Row) -> int:
    """Return the sequence at which an operation stands in the order of operations."""
    return int(row["supersedes_sequence"] or row["ec_sequence_number"])


def in_force_at(view: LedgerView, row: Row) -> Row | None:
    """Return the row that speaks at a row's place; None where that row's place is elsewhere."""
    if row["supersedes_sequence"]:
        return None
    return (view.log_row_of(row["operation_id"]) or row) if is_lite(row) else row


def check_order(
    view: LedgerView, superseded: Superseded, applied_effects: Iterable[Document]
) -> None:
    """Refuse effects on records that an operation wrote whose place in the order is a later one.

    Without such a writer the state is what it would be had the effects been applied at their
    place. An operation that settled a lite one after a review stands at that one's place.

    Raises:
        EffectInapplicable: `superseding_write_out_of_order`, naming the later writer.
    """
    position = int(superseded.ec_sequence_number)
    for index, effect in enumerate(applied_effects):
        later = _later_writer(view, effect["store"], effect["record_key"], position)
        if later is not None:
            raise EffectInapplicable(
                f"{effect['record_key']} was written by {later}, which stands later",
                code="superseding_write_out_of_order",
                field=f"primitive_effects.{index}",
            )


def settles_before(view: LedgerView, sequence: int, position: int) -> bool:
    """Tell whether an operation settled a lite one whose place is before another."""
    where = {"ec_sequence_number": sequence}
    for settled in view.tables.scan(TableQuery(schema.adjudications, where)):
        receipt = view.tables.scan(
            TableQuery(schema.receipts, {"receipt_id": settled["receipt_id"]})
        )
        stated = orjson.loads(receipt[0]["receipt_bytes"]).get("ec_sequence_number")
        if receipt[0]["receipt_kind"] == MIGRATION_KIND and int(stated) < position:
            return True
    return False


def _later_writer(view: LedgerView, store: str, key: str, position: int) -> str | None:
    """Return a writer of a record whose place is after a position."""
    sequence: int | None = None
    while True:
        query = TableQuery(
            schema.applied_effects,
            {"store": store, "record_key": key},
            order_by="ec_sequence_number",
            after=sequence,
            descending=True,
            limit=1,
        )
        last = view.tables.scan(query)
        if not last:
            return None
        sequence = int(last[0]["ec_sequence_number"])
        row = view.tables.get(schema.kernel_event_log, sequence)
        if row is None or position_of(row) <= position:
            return None
        if not settles_before(view, sequence, position):
            return str(row["operation_id"])
