"""Reads the receipts of a kind in the order of their chain."""

from collections.abc import Iterator

from kernel.ledger import schema
from kernel.ledger.store.tables import PAGE_ROWS, Row, TableQuery, TablesView, rows_in_pages


def receipts_of_kind(tables: TablesView, kind: str, *, after: int = 0) -> Iterator[Row]:
    """Yield the rows of the receipts of a kind behind a place in the chain, a page in memory."""
    return rows_in_pages(tables, receipts_query(kind, after=after))


def receipts_query(kind: str, *, after: int = 0) -> TableQuery:
    """Return the query of a page of these rows."""
    where, order_by = {"receipt_kind": kind}, "receipt_sequence"
    return TableQuery(schema.receipts, where, order_by=order_by, after=after, limit=PAGE_ROWS)
