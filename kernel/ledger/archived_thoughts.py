"""Reads the records and nodes of thoughts that lie in the archive as rows of their tables.

The archived thoughts of a session are its first ones, without a gap, and so are the nodes that they
give. A record is read from its segment; a node is computed from the records before it, because
nothing else is kept of it (decision kernel/0491). A question that names no session is answered from
the database alone.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.archive import Archive
from kernel.ledger.store.tables import Row, TableQuery, TablesView, has_values
from kernel.ledger.thought_segment import SegmentThought
from kernel.proof.eta_tree import EtaNode, append_eta_leaf, eta_closing
from kernel.proof.merkle_tree import HASH_BYTES, Frontier
from kernel.values.errors import LedgerCorrupt

THOUGHTS, NODES, _SEGMENTS = (
    schema.thought_records,
    schema.merkle_nodes,
    schema.thought_segments,
)
_NO_NODE = -1


class _Nodes:
    """The nodes of a session's archived thoughts by their indexes; 49 bytes a node."""

    def __init__(self) -> None:
        self._hashes = bytearray()
        self._levels, self._lefts, self._rights = array("b"), array("q"), array("q")

    def add(self, node: EtaNode) -> None:
        self._hashes += node.hash
        self._levels.append(node.level)
        for children, child in ((self._lefts, node.left_child), (self._rights, node.right_child)):
            children.append(_NO_NODE if child is None else child)

    def __len__(self) -> int:
        return len(self._levels)

    def row(self, session_id: str, index: int) -> Row:
        """Return the row of a node."""
        left, right = self._lefts[index], self._rights[index]
        return {
            "session_id": session_id,
            "node_index": index,
            "level": self._levels[index],
            "hash": bytes(self._hashes[index * HASH_BYTES : (index + 1) * HASH_BYTES]),
            "left_child_index": None if left == _NO_NODE else left,
            "right_child_index": None if right == _NO_NODE else right,
        }


class ArchivedThoughts:
    """What a snapshot has of thoughts in the archive; the nodes of one session are kept."""

    def __init__(self, tables: TablesView, archive: Archive) -> None:
        self._tables = tables
        self._archive = archive
        self._is_any: bool | None = None
        self._nodes: tuple[str, _Nodes] | None = None

    def get(self, table: Table, session_id: str, place: int) -> Row | None:
        """Return the row of an archived thought or node, None where it is not archived."""
        segments = self._segments(session_id)
        if table is THOUGHTS:
            rows = self._thoughts(segments, place - 1)
            row = next(rows, None)
            return row if row is not None and row["thought_sequence"] == place else None
        nodes = self._nodes_of(session_id, segments) if segments else _Nodes()
        return nodes.row(session_id, place) if 0 <= place < len(nodes) else None

    def rows(self, query: TableQuery) -> list[Row]:
        """Return the rows of a session in their order, the archived ones first."""
        table, where, after, limit = query.table, query.where, query.after, query.limit
        segments = self._segments(where["session_id"])
        if not segments:
            return self._tables.scan(query)
        archived: Iterable[Row]
        if where.keys() != {"session_id"}:
            rows: list[Row] = self._tables.scan(query)
            archived = () if rows else self._thoughts(segments, after or 0)
            return rows + [row for row in archived if has_values(row, where)]
        archived = (
            self._thoughts(segments, after or 0)
            if table is THOUGHTS
            else self._node_rows(where["session_id"], segments, after)
        )
        rows = [*islice(archived, limit)]
        if limit is not None and len(rows) == limit:
            return rows
        last = segments[-1]["last_sequence" if table is THOUGHTS else "last_node"]
        after = last if after is None else max(after, last)
        rest = None if limit is None else limit - len(rows)
        return rows + self._tables.scan(query._replace(after=after, limit=rest))

    def count(self, table: Table, where: Mapping[str, Any]) -> int:
        """Return how many archived rows a table has, of one session or of all."""
        unit = "sequence" if table is THOUGHTS else "node"
        return sum(
            row[f"last_{unit}"] - row[f"first_{unit}"] + 1
            for row in self._tables.scan(TableQuery(_SEGMENTS, where))
        )

    def _segments(self, session_id: str) -> list[Row]:
        """Return the segments of a session in their order."""
        if self._is_any is None:
            self._is_any = bool(self._tables.scan(TableQuery(_SEGMENTS, limit=1)))
        if not self._is_any:
            return []
        where = {"session_id": session_id}
        return self._tables.scan(TableQuery(_SEGMENTS, where, order_by="first_sequence"))

    def _thoughts(self, segments: list[Row], after: int) -> Iterator[Row]:
        for segment in segments:
            if segment["last_sequence"] <= after:
                continue
            session_id, first = segment["session_id"], segment["first_sequence"]
            held = self._archive.thoughts(segment["content_hash"])
            place = session_id, first, segment["last_sequence"] - first + 1
            if (held.session_id, held.first_sequence, len(held.thoughts)) != place:
                message = f"the segment of {session_id} from {first} on holds other thoughts"
                raise LedgerCorrupt(message)
            for sequence, thought in enumerate(held.thoughts, first):
                if sequence > after:
                    yield thought_row(session_id, sequence, thought)

    def _node_rows(self, session_id: str, segments: list[Row], after: int | None) -> Iterator[Row]:
        begin = 0 if after is None else after + 1
        if begin > segments[-1]["last_node"]:
            return
        nodes = self._nodes_of(session_id, segments)
        for index in range(begin, len(nodes)):
            yield nodes.row(session_id, index)

    def _nodes_of(self, session_id: str, segments: list[Row]) -> _Nodes:
        """Return the nodes that archived thoughts give; linear in their number, once a snapshot."""
        if self._nodes is not None and self._nodes[0] == session_id:
            return self._nodes[1]
        nodes, frontier = _Nodes(), Frontier()
        for row in self._thoughts(segments, 0):
            frontier, added = append_eta_leaf(frontier, bytes.fromhex(row["content_hash"]))
            for node in added:
                nodes.add(node)
        if segments[-1]["last_node"] >= len(nodes):
            # The last thoughts are archived, so what closes the tree is too.
            for node in eta_closing(frontier):
                nodes.add(node)
        self._nodes = session_id, nodes
        return nodes


def thought_row(session_id: str, sequence: int, thought: SegmentThought) -> Row:
    """Return the row of an archived thought.

    Raises:
        LedgerCorrupt: the record has no id.
    """
    try:
        thought_id = orjson.loads(thought.record_bytes)["thought_id"]
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerCorrupt(f"thought {sequence} of {session_id}: {error}") from None
    return {
        "session_id": session_id,
        "thought_sequence": sequence,
        "thought_id": thought_id,
        "content_hash": sha256(thought.record_bytes).hexdigest(),
        "record_bytes": thought.record_bytes,
        "ec_sequence_number": thought.ec_sequence_number,
    }
