"""Reads findings that the ledger went back, and whether anybody accepted them (kernel/0580).

A gateway that finds the ledger behind what it has answered leaves durable receipts on the ledger
that is there; an operator's operation accepts them. The receipts are the fleet's state: while the
newest finding is newer than the newest acceptance, no gateway goes on.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from kernel.ledger import schema
from kernel.ledger.receipts_of_kind import receipts_of_kind
from kernel.ledger.store.tables import TableQuery, TablesView

WENT_BACK = "ledger_went_back"
ACCEPTED = "ledger_head_accepted"


def finding_stands(tables: TablesView) -> bool:
    """Tell whether a finding stands that nobody has accepted; mostly one look into an index."""
    newest = newest_sequence(tables, WENT_BACK)
    return newest > 0 and newest > newest_sequence(tables, ACCEPTED)


def newest_sequence(tables: TablesView, receipt_kind: str) -> int:
    """Return the sequence of the newest receipt of a kind, 0 where there is none."""
    query = TableQuery(
        schema.receipts,
        {"receipt_kind": receipt_kind},
        order_by="receipt_sequence",
        descending=True,
        limit=1,
    )
    rows = tables.scan(query)
    return int(rows[0]["receipt_sequence"]) if rows else 0


def findings(tables: TablesView, *, after: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the receipts of findings beyond a receipt, in their order."""
    receipts = receipts_of_kind(tables, WENT_BACK, after=after)
    return (orjson.loads(row["receipt_bytes"]) for row in receipts)
