"""Reads the graph of inputs as it stood at the sequence that a recompute names (K12).

A recompute is held against that graph (decision kernel/0207).
"""

from collections.abc import Collection, Iterator, Mapping
from heapq import merge
from operator import itemgetter

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
        return self.nodes((node_id,)).get(node_id)

    def nodes(self, node_ids: Collection[str]) -> Mapping[str, Document]:
        """Return the records of the nodes that existed at the sequence."""
        nodes = self._view.nodes(node_ids)
        for node_id in node_ids if self._changed else ():
            before = self._before(schema.nodes, node_id)
            if before:
                nodes[node_id] = replaced_record(self._view.tables, before)
            elif before is not None:
                nodes.pop(node_id, None)
        return nodes

    def input_edges(self, node_id: str) -> Iterator[Document]:
        """Yield the active edges through which a node's authority was fed, by edge id."""
        present = self._view.input_edges(node_id)
        if not self._changed:
            return present
        unchanged = (
            edge for edge in present if self._before(schema.edges, edge["edge_id"]) is None
        )
        return merge(unchanged, self._once_into(node_id), key=itemgetter("edge_id"))

    def _once_into(self, node_id: str) -> Iterator[Document]:
        for edge_id in sorted(self._changes.edges_once_into(node_id)):
            before = self._before(schema.edges, edge_id)
            if before:
                edge = replaced_record(self._view.tables, before)
                if _feeds(edge, node_id):
                    yield edge

    def _before(self, table: Table, key: str) -> str | None:
        """Return the hash of a record's state then; None where it has not changed since."""
        return self._changes.first_since(self._sequence, (table.name, key))


def _feeds(edge: Document, node_id: str) -> bool:
    return (
        edge["target_node_id"] == node_id
        and edge["state"] == "active"
        and "essentiality" in edge["edge_metadata"]
    )
