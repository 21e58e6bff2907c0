"""The graph of inputs as it stood at the sequence that a recompute names (K12)."""

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.recent_changes import replaced_record


class GraphAsOf:
    """Nodes and the edges that feed them, as they stood at a sequence."""

    def __init__(self, transaction: LedgerTransaction, sequence: int) -> None:
        """Look back from a transaction.

        Raises:
            SnapshotTooOld: see `kernel.ledger.recent_changes.SNAPSHOT_OPERATIONS_MAX`.
        """
        self._view = transaction
        self._changes = transaction.changes
        self._sequence = sequence
        head = transaction.head_now.ec_sequence_number
        self._changed = self._changes.reach(transaction.tables, head, sequence)

    def node(self, node_id: str) -> Document | None:
        """Return a node's record."""
        before = self._before(schema.nodes, node_id) if self._changed else None
        if before is None:
            return self._view.node(node_id)
        return replaced_record(self._view.tables, before) if before else None

    def input_edges(self, node_id: str) -> list[Document]:
        """Return the active edges through which a node's authority was fed, by edge id."""
        if not self._changed:
            return self._view.input_edges(node_id)
        rows = {row["edge_id"]: row for row in self._view.edges_into(node_id)}
        found = []
        for edge_id in sorted({*rows, *self._changes.edges_once_into(node_id)}):
            before = self._before(schema.edges, edge_id)
            if before is not None:
                edge = replaced_record(self._view.tables, before) if before else None
                if edge is not None and _feeds(edge, node_id):
                    found.append(edge)
            elif edge_id in rows and rows[edge_id]["input_from"] is not None:
                found.append(orjson.loads(rows[edge_id]["record"]))
        return found

    def _before(self, table: Table, key: str) -> str | None:
        """Return the hash of what a record was then; None where it is the same now."""
        return self._changes.first_since(self._sequence, (table.name, key))


def _feeds(edge: Document, node_id: str) -> bool:
    return (
        edge["target_node_id"] == node_id
        and edge["state"] == "active"
        and "essentiality" in edge["edge_metadata"]
    )
