"""Lists what was written to the graph of late, and what it replaced.

The first effect on a record after a moment names the state in which the record was then. Costs what
was written since, once for a transaction; nothing where nobody looks back.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import orjson

from kernel.ledger import schema
from kernel.ledger.store.tables import PAGE_ROWS, TableQuery, TablesView
from kernel.values.canonical import sha256_hex
from kernel.values.errors import LedgerCorrupt, SnapshotTooOld

SNAPSHOT_OPERATIONS_MAX = 65_536
"""How many operations may have been recorded since a moment that is looked back to."""


_STORES = frozenset({schema.nodes.name, schema.edges.name})

RecordName = tuple[str, str]
"""A store, and the key of a record in it."""


class Change(Protocol):
    """What an effect wrote; None or an empty hash says that there was no record before."""

    store: str
    record_key: str
    pre_image_hash: str | None


class RecentChanges:
    """The newest changes of the graph: those of a transaction, and those on record before it.

    The fold of a log keeps one for all its transactions (`kernel/verify`).
    """

    def __init__(self, begun_at: int) -> None:
        """Begin with nothing noted; what was recorded up to `begun_at` is read when needed."""
        self.begun_at = begun_at
        self._noted: list[tuple[int, Sequence[Change]]] = []
        self._taken = 0
        """How many of the noted operations are in `_own`."""

        self._own: dict[RecordName, list[tuple[int, str]]] = {}
        self._read_to = begun_at
        """Changes after this sequence, up to the beginning, are in `_older`."""

        self._older: dict[RecordName, list[tuple[int, str]]] = {}
        """Newest first, for they are read backwards; `_own` is in the order of the log."""

        self._edges: dict[str, None] = {}
        """Hashes of edges that one of these changes replaced, still to be read."""

        self._fed: dict[str, dict[str, None]] = {}
        """Those edges by the nodes to which they led."""

    def note(self, sequence: int, applied: Sequence[Change]) -> None:
        """Note what an operation has written."""
        self._noted.append((sequence, applied))
        if len(self._noted) > 2 * SNAPSHOT_OPERATIONS_MAX:
            del self._noted[:SNAPSHOT_OPERATIONS_MAX]
            self._forget_own()

    def changes_after(self, sequence: int) -> Iterator[tuple[int, Sequence[Change]]]:
        """Yield what was noted after a sequence, the newest first.

        Of what was noted at least the last `SNAPSHOT_OPERATIONS_MAX` operations are there.
        """
        for noted in reversed(self._noted):
            if noted[0] <= sequence:
                return
            yield noted

    def cut(self, sequence: int) -> None:
        """Forget the operations after a sequence: they were undone."""
        while self._noted and self._noted[-1][0] > sequence:
            self._noted.pop()
        if self._taken > len(self._noted):
            self._forget_own()

    def first_since(self, sequence: int, name: RecordName) -> str | None:
        """Return the hash of what the first change after a sequence replaced.

        None where nothing was changed, an empty text where there was no record before.
        """
        older = self._older.get(name)
        if older and older[0][0] > sequence:
            last = bisect_left(older, -sequence, key=lambda change: -change[0]) - 1
            return older[last][1]
        own = self._own.get(name)
        if own and own[-1][0] > sequence:
            return own[bisect_right(own, sequence, key=lambda change: change[0])][1]
        return None

    def reach(self, tables: TablesView, head: int, sequence: int) -> bool:
        """Read every change after a sequence; tell whether there is any.

        Raises:
            SnapshotTooOld: when that is further back than the limit.
        """
        if head - sequence > SNAPSHOT_OPERATIONS_MAX:
            raise SnapshotTooOld(
                f"{head - sequence} operations were recorded since, and no more than"
                f" {SNAPSHOT_OPERATIONS_MAX} are looked back over: read again"
            )
        if head <= sequence:
            return False
        self._take_own()
        while self._read_to > sequence:
            self._read_back(tables)
        for pre_image_hash in self._edges:
            self._remember_end(tables, pre_image_hash)
        self._edges.clear()
        return True

    def edges_once_into(self, node_id: str) -> Iterable[str]:
        """Return the edges that led to a node before some change; others may be among them."""
        return self._fed.get(node_id, ())

    def _forget_own(self) -> None:
        self._taken = 0
        self._own.clear()

    def _take_own(self) -> None:
        for sequence, applied in self._noted[self._taken :]:
            for write in applied:
                if write.store in _STORES:
                    name = (write.store, write.record_key)
                    self._own.setdefault(name, []).append((sequence, write.pre_image_hash or ""))
                    self._look_at(name, write.pre_image_hash)
        self._taken = len(self._noted)

    def _read_back(self, tables: TablesView) -> None:
        """Read a page of effects backwards, operations as a whole."""
        limit = PAGE_ROWS
        while True:
            query = TableQuery(
                schema.applied_effects,
                order_by="ec_sequence_number",
                after=self._read_to + 1,
                descending=True,
                limit=limit,
            )
            rows = tables.scan(query)
            is_last = len(rows) < limit
            lowest = 0 if is_last else rows[-1]["ec_sequence_number"]
            whole = [row for row in rows if row["ec_sequence_number"] > lowest]
            if whole or is_last:
                break
            limit *= 2
        whole.sort(key=lambda row: (-row["ec_sequence_number"], -row["ordinal"]))
        for row in whole:
            if row["store"] in _STORES:
                name = (row["store"], row["record_key"])
                before = row["pre_image_hash"].hex()
                change = (row["ec_sequence_number"], before)
                self._older.setdefault(name, []).append(change)
                self._look_at(name, before)
        self._read_to = lowest

    def _look_at(self, name: RecordName, pre_image_hash: str | None) -> None:
        if name[0] == schema.edges.name and pre_image_hash:
            self._edges[pre_image_hash] = None

    def _remember_end(self, tables: TablesView, pre_image_hash: str) -> None:
        edge = replaced_record(tables, pre_image_hash)
        self._fed.setdefault(edge["target_node_id"], {})[edge["edge_id"]] = None


def replaced_record(tables: TablesView, pre_image_hash: str) -> dict[str, Any]:
    """Return the record that a change replaced.

    Raises:
        LedgerCorrupt: when it is not there, or not what its hash says.
    """
    row = tables.get(schema.pre_images, pre_image_hash)
    if row is None or sha256_hex(row["content"]) != pre_image_hash:
        raise LedgerCorrupt(f"the pre-image {pre_image_hash} is not what its digest says")
    record: dict[str, Any] = orjson.loads(row["content"])
    return record
