"""Finds undoings that put back something else than the operations in effect come to (§5.2).

Version 1 of the rules put back what an effect had replaced, whoever was in effect by then. Its rows
verify as they are: they were folded like this. Whether a ledger has such courses, and where, is
read from which writes each state of a record holds (`kernel/records/record_history.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernel.algebra.verbs import ROLLBACK
from kernel.ledger import schema
from kernel.ledger.applied_effects import effects_of
from kernel.ledger.ledger import LedgerView
from kernel.ledger.quarantine import RangeQuarantined
from kernel.ledger.store.tables import SEARCH_ROWS, Row, TableQuery, rows_in_pages
from kernel.records.record_history import Contents, RecordHistory
from kernel.records.rollback_marks import mark_of
from kernel.transaction.rules import effect_rules_of
from kernel.values.errors import EffectInapplicable

NAMED_MAX = 20
"""Operations that are named for one record."""


@dataclass(frozen=True, slots=True)
class UndoingDifference:
    """A record after an undoing, and whose writes it holds otherwise than it should."""

    ec_sequence_number: int
    operation_id: str
    store: str
    record_key: str
    lost: tuple[str, ...]
    """Operations in effect whose writes the record does not hold."""

    brought_back: tuple[str, ...]
    """Operations that are undone and whose writes it holds."""


def undoings_that_differ(view: LedgerView, *, after: int = 0) -> Iterator[UndoingDifference]:
    """Yield the records that an undoing left otherwise than it should, in sequence.

    Reads the undoings of version 1 of the rules behind a sequence, and of the rest of the log what
    wrote the same records. Records that an erased or a quarantined envelope wrote are passed over.
    """
    query = TableQuery(
        schema.kernel_event_log,
        {"semantic_intent": ROLLBACK},
        order_by="ec_sequence_number",
        after=after,
        limit=SEARCH_ROWS,
    )
    undoings = rows_in_pages(view.tables, query)
    for row in undoings:
        if row["rules_version"] > 1:
            continue
        effects = effects_of(view, row)
        places = {(effect["store"], effect["record_key"]) for effect in effects}
        for store, key in sorted(places):
            if store in schema.STORES:
                yield from _difference(view, row, store, key)


def _difference(view: LedgerView, row: Row, store: str, key: str) -> Iterator[UndoingDifference]:
    history, sequence = (
        RecordHistory(view, (store, key), effect_rules_of),
        row["ec_sequence_number"],
    )
    undone = mark_of(view, row["operation_id"])["undoes"]
    if not undone:
        return
    try:
        writes = history.since(history.sequence_of(undone[0]))
        contents = Contents(view, [write for write in writes if write.sequence <= sequence])
    except (EffectInapplicable, RangeQuarantined):
        return
    held, due = contents.held[-1], contents.due[-1]
    if held != due:
        yield UndoingDifference(
            sequence,
            row["operation_id"],
            store,
            key,
            tuple(contents.names(due & ~held)[:NAMED_MAX]),
            tuple(contents.names(held & ~due)[:NAMED_MAX]),
        )
