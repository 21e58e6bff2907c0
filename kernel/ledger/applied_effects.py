"""Reads the applied effects of a row of the log: columns that say what was hashed into the row.

When they were applied is the row's own time, so no effect repeats it (decision kernel/0241).
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import SEARCH_ROWS, Row, TableQuery, rows_in_pages

NAMES = ("effect_id", "effect_kind", "canonical_kind", "store", "record_key")
HASHES = ("pre_image_hash", "post_image_hash")
"""In the document as hexadecimal digits; empty where there was, or is, no record."""

STATED = (*NAMES, *HASHES)
_COLUMNS = ("ec_sequence_number", "ordinal", *STATED)
_VALUES = itemgetter(*STATED)


def effect_row(sequence: int, ordinal: int, document: Document) -> Row:
    """Return the row of an effect, by the document that is hashed."""
    *named, pre_image_hash, post_image_hash = _VALUES(document)
    hashes = (bytes.fromhex(pre_image_hash), bytes.fromhex(post_image_hash))
    return dict(zip(_COLUMNS, (sequence, ordinal, *named, *hashes), strict=True))


def effect_of(row: Row) -> Document:
    """Return what an effect did, without its time."""
    return effect_in(_VALUES(row))


def effect_in(values: Sequence[Any]) -> Document:
    """Return the same by the values of the columns `STATED`, in their order."""
    *named, pre_image_hash, post_image_hash = values
    hashes = (pre_image_hash.hex(), post_image_hash.hex())
    return dict(zip(STATED, (*named, *hashes), strict=True))


def hashed_effect(row: Row, applied_at: str) -> Document:
    """Return the document of an effect that is hashed into the row of its operation."""
    return {**effect_of(row), "applied_at": applied_at}


def effects_of(view: LedgerView, row: Row) -> list[Document]:
    """Return the documents of the effects of a row of the log, in the order of applying."""
    where = {"ec_sequence_number": row["ec_sequence_number"]}
    effects = view.tables.scan(TableQuery(schema.applied_effects, where, order_by="ordinal"))
    return [hashed_effect(effect, row["committed_at"]) for effect in effects]


def sequences_that_wrote(
    view: LedgerView, store: str, key: str, beyond: int | None = None, *, descending: bool = False
) -> Iterator[int]:
    """Yield the sequences of the operations that wrote a record, through the index of effects."""
    newest = None
    query = TableQuery(
        schema.applied_effects,
        {"store": store, "record_key": key},
        order_by="ec_sequence_number",
        after=beyond,
        descending=descending,
        limit=SEARCH_ROWS,
    )
    for row in rows_in_pages(view.tables, query):
        # An operation may write a record more than once.
        if row["ec_sequence_number"] != newest:
            newest = row["ec_sequence_number"]
            yield newest
