"""What many operations are going to ask for, read in one go; nothing rests on it being complete.

A batch asks for the same few things of every node that it writes: its row, what it feeds, what
feeds it, and the open requests. Asked for one by one that is a good part of an envelope's cost.
"""

from collections.abc import Iterable

from sqlalchemy import Table

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.buffer import BufferedTables
from kernel.ledger.keys import key_names
from kernel.ledger.ledger import LedgerTransaction
from kernel.model.node_kinds import UNDERSTANDING

RecordKey = tuple[Table, str | int]


def read_ahead(transaction: LedgerTransaction, keys: Iterable[RecordKey]) -> None:
    """Read records by their keys, and what surrounds those that are nodes."""
    by_table: dict[Table, dict[str | int, None]] = {schema.nodes: {}}
    for table, key in keys:
        by_table.setdefault(table, {})[key] = None
    tables = transaction.tables
    if not isinstance(tables, BufferedTables):
        return
    for table, names in by_table.items():
        # An answer is asked for by its key alone, without the sequence that belongs to it.
        tables.read_ahead(table, key_names(table)[0], names)
    named = by_table[schema.nodes]
    leaving = tables.read_ahead(schema.edges, "source_node_id", named)
    beyond = {row["target_node_id"] for row in leaving} - named.keys()
    tables.read_ahead(schema.nodes, "node_id", beyond)
    tables.read_ahead(schema.edges, "source_node_id", beyond)
    asked = [one for one in (*named, *beyond) if _may_be_understanding(transaction, one)]
    tables.read_ahead(schema.outbox, "item_key", asked, {"queue": AUTHORITY_QUEUE, "open": 1})
    tables.read_ahead(schema.edges, "target_node_id", asked, {"input_from": UNDERSTANDING})


def _may_be_understanding(transaction: LedgerTransaction, node_id: str) -> bool:
    node = transaction.node(node_id)
    return node is None or node["node_kind"] == UNDERSTANDING
