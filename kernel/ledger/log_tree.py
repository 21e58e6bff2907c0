"""Grows the Merkle tree over the rows of the log, beside the log (P5): its frontier and its tiles.

The leaf with index `n` is the row with sequence `n + 1`, so a tree is as large as its newest row's
sequence. The head has the frontier, and a transaction moves it over the rows that it adds. A tile
of the lowest level is stored with the row that fills it; the open one is hashed from its rows, at
most 255. A tile of a higher level is stored with its first hash and grows by one for each tile
below that is full (decision kernel/0330).
"""

from collections.abc import Sequence

from kernel.ledger import schema
from kernel.ledger.store.tables import PAGE_ROWS, TableQuery, Tables, TablesView
from kernel.proof.merkle_tree import (
    HASH_BYTES,
    Frontier,
    consistency_path,
    inclusion_path,
    leaf_hash,
    root_of,
)
from kernel.proof.tiles import (
    TILE_LEVELS,
    TILE_WIDTH,
    hashes_of,
    node_of_tiles,
    subtree_root,
)
from kernel.values.errors import LedgerCorrupt

_ABOVE_EVERY_LEVEL = 1 << 62


def frontier_of(size: int, stored: bytes | None) -> Frontier:
    """Return the frontier that the head has at a size.

    Raises:
        LedgerCorrupt: it has none, or that of another size.
    """
    try:
        return Frontier.of_bytes(size, b"" if stored is None else stored)
    except ValueError as error:
        raise LedgerCorrupt(f"the frontier of the log's tree: {error}") from error


def grow_tree(tables: Tables, stored: bytes | None, old_size: int, size: int) -> bytes:
    """Return the frontier over the rows that a transaction added, and write the tiles they fill.

    Raises:
        LedgerCorrupt: the tree is not the one over the rows before.
    """
    growth = _Growth(tables, frontier_of(old_size, stored))
    for sequence in range(old_size + 1, size + 1):
        row = tables.get(schema.kernel_event_log, sequence)
        if row is None:
            raise LedgerCorrupt(f"the log has no row {sequence}, up to {size} are counted")
        growth.add(row["row_bytes"])
    return growth.frontier().to_bytes()


def build(tables: Tables) -> bytes:
    """Write every tile anew from the rows of the log, in pages, and return the frontier.

    Raises:
        LedgerCorrupt: the log has a gap.
    """
    tables.delete_before(schema.tree_tiles, "tile_level", _ABOVE_EVERY_LEVEL)
    growth = _Growth(tables, Frontier())
    names, page = ("ec_sequence_number", "row_bytes"), [(0, b"")]
    while page:
        query = TableQuery(
            schema.kernel_event_log, columns=names, after=growth.size, limit=PAGE_ROWS
        )
        page = tables.scan(query)
        for sequence, row_bytes in page:
            if sequence != growth.size + 1:
                raise LedgerCorrupt(f"the log has no row {growth.size + 1}")
            growth.add(row_bytes)
    return growth.frontier().to_bytes()


class _Growth:
    """A tree to which rows are added."""

    def __init__(self, tables: Tables, frontier: Frontier) -> None:
        self.size = frontier.size
        self._tables = tables
        self._frontier = frontier
        """Over the rows before the leaves."""

        self._leaves: list[bytes] = []
        """The newest leaves of the open tile, as many as were added here."""

    def add(self, row_bytes: bytes) -> None:
        self._leaves.append(leaf_hash(row_bytes))
        self.size += 1
        if self.size % TILE_WIDTH == 0:
            begin = self.size - TILE_WIDTH
            before = _leaves(self._tables, begin, TILE_WIDTH - len(self._leaves))
            self._add_tile(begin // TILE_WIDTH, [*before, *self._leaves])
            self._frontier = self.frontier()
            self._leaves = []

    def frontier(self) -> Frontier:
        return self._frontier.extend(self._leaves)

    def _add_tile(self, index: int, hashes: list[bytes]) -> None:
        tiles, level, stored = self._tables, 0, b"".join(hashes)
        tiles.append(schema.tree_tiles, _tile_row(level, index, stored))
        while len(stored) == TILE_WIDTH * HASH_BYTES:
            root = subtree_root(hashes_of(stored))
            level, (index, place) = level + 1, divmod(index, TILE_WIDTH)
            row = tiles.get(schema.tree_tiles, level, index)
            before = b"" if row is None else row["hashes"]
            if len(before) != place * HASH_BYTES:
                raise LedgerCorrupt(f"tile {level}/{index} of the log's tree is not what it was")
            stored = before + root
            tiles.put(schema.tree_tiles, _tile_row(level, index, stored))


class LogTree:
    """The tree of one snapshot; it keeps the tiles that it reads and the nodes that it computes."""

    def __init__(self, tables: TablesView, size: int, frontier: Frontier) -> None:
        self._tables = tables
        self.size = size
        self._frontier = frontier
        self._tiles: dict[tuple[int, int], Sequence[bytes]] = {}
        self._nodes: dict[tuple[int, int], bytes] = {}

    def root(self, size: int | None = None) -> bytes:
        """Return the root over the first rows, by default over all.

        Raises:
            ValueError: there are fewer.
            LedgerCorrupt: a tile that this takes is not there.
        """
        if size is None or size == self.size:
            return self._frontier.root
        self._check(size)
        return root_of(size, self._node)

    def inclusion_path(self, index: int, size: int) -> list[bytes]:
        """Return what proves that a row is among the first `size`.

        Raises:
            ValueError: it is not among them, or there are fewer.
            LedgerCorrupt: a tile that this takes is not there.
        """
        self._check(size)
        return inclusion_path(index, size, self._newest_node)

    def consistency_path(self, old_size: int, size: int) -> list[bytes]:
        """Return what proves that the tree of `size` rows goes on from that of `old_size`.

        Raises:
            ValueError: `old_size` is the larger one, or there are fewer rows.
            LedgerCorrupt: a tile that this takes is not there.
        """
        self._check(size)
        return consistency_path(old_size, size, self._node)

    def tile(self, level: int, index: int) -> Sequence[bytes]:
        """Return the hashes of a tile, as many as it has by now.

        Raises:
            LedgerCorrupt: it is not there.
        """
        hashes = self._tiles.get((level, index))
        if hashes is None:
            hashes = self._tiles[level, index] = self._read(level, index)
        return hashes

    def _check(self, size: int) -> None:
        if not 0 <= size <= self.size:
            raise ValueError(f"the log has {self.size} rows, not {size}")

    def _node(self, level: int, index: int) -> bytes:
        node = self._nodes.get((level, index))
        if node is None:
            node = self._nodes[level, index] = node_of_tiles(level, index, self.tile)
        return node

    def _newest_node(self, level: int, index: int) -> bytes:
        """Return a node from the frontier, where most of a path of one of the newest rows is."""
        root = self._frontier.root_at(level, index)
        return self._node(level, index) if root is None else root

    def _read(self, level: int, index: int) -> list[bytes]:
        width = min(TILE_WIDTH, (self.size >> (TILE_LEVELS * level)) - index * TILE_WIDTH)
        if width <= 0:
            return []
        if level == 0 and width < TILE_WIDTH:
            return _leaves(self._tables, index * TILE_WIDTH, width)
        row = self._tables.get(schema.tree_tiles, level, index)
        hashes = [] if row is None else hashes_of(row["hashes"])
        if len(hashes) != width:
            raise LedgerCorrupt(f"tile {level}/{index} of the log's tree lacks a hash")
        return hashes


def _leaves(tables: TablesView, begin: int, count: int) -> list[bytes]:
    """Return the hashes of the rows from an index on."""
    if not count:
        return []
    page = tables.scan(
        TableQuery(schema.kernel_event_log, columns=("row_bytes",), after=begin, limit=count)
    )
    if len(page) != count:
        raise LedgerCorrupt(f"the log lacks rows behind {begin}")
    return [leaf_hash(row_bytes) for (row_bytes,) in page]


def _tile_row(level: int, index: int, stored: bytes) -> dict[str, int | bytes]:
    return {"tile_level": level, "tile_index": index, "hashes": stored}
