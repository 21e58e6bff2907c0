"""Computes the tree over the log from its rows and compares it with what is stored of it.

It is computed level by level of the tiles, of which one is open on each level, and not as the
ledger does it; the two have the rule of RFC 6962 in common and no code.
"""

from contextlib import suppress
from hashlib import sha256

from kernel.ledger import schema
from kernel.ledger.log_tree import LogTree
from kernel.ledger.store.tables import Row, TableQuery
from kernel.verify.reading import EnoughFindings, Finding, Findings, Reader, join_key

WIDTH = 256
_HASH_BYTES = 32
_EMPTY_ROOT = sha256(b"").digest()


class TreeCheck:
    """The tree as rows give it; full tiles are compared as they arise."""

    def __init__(self, reader: Reader, limit_findings: int) -> None:
        self._reader = Reader(reader.tables, Findings(limit_findings))
        self._open: list[list[bytes]] = [[]]
        """The hashes of the open tile of each level, the lowest first."""
        self._full: list[int] = [0]
        """How many tiles of each level are full."""

    def go_on_after(self, tree: LogTree, size: int) -> None:
        """Begin behind so many rows, whose root was verified, with the tiles that were open there.

        Every hash of an open tile is part of that root.
        """
        self._open, self._full = [], []
        level, count = 0, size
        while count or not level:
            full, width = divmod(count, WIDTH)
            self._open.append([*tree.tile(level, full)[:width]] if width else [])
            self._full.append(full)
            level, count = level + 1, full

    def add(self, row_bytes: bytes) -> None:
        """Add the next row."""
        self._push(0, sha256(b"\x00" + row_bytes).digest())

    def finish(self, head: Row | None) -> tuple[bytes, list[Finding]]:
        """Compare the frontier and what is left; return the root and the findings."""
        findings = self._reader.findings
        for level, hashes in enumerate(self._open):
            if level and hashes:
                self._compare(level, self._full[level], hashes)
        roots = [root for hashes in reversed(self._open) for root in _complete_roots(hashes)]
        with suppress(EnoughFindings):
            with findings.guard(schema.tree_tiles, "tiles"):
                self._check_extra()
            if head is not None and head["frontier"] != b"".join(roots):
                message = "the frontier is not that of the rows of the log"
                findings.add(schema.chain_head, "main", "frontier_differs", message)
        return _root_of(roots), findings.entries

    def _push(self, level: int, node: bytes) -> None:
        if level == len(self._open):
            self._open.append([])
            self._full.append(0)
        hashes = self._open[level]
        hashes.append(node)
        if len(hashes) == WIDTH:
            self._compare(level, self._full[level], hashes)
            self._open[level] = []
            self._full[level] += 1
            self._push(level + 1, _complete_roots(hashes)[0])

    def _compare(self, level: int, index: int, hashes: list[bytes]) -> None:
        findings, key = self._reader.findings, join_key(level, index)
        with suppress(EnoughFindings):
            row = self._reader.get(schema.tree_tiles, level, index)
            if row is None:
                findings.add(schema.tree_tiles, key, "missing", "rows of the log fill this tile")
            elif row["hashes"] != b"".join(hashes):
                message = "the hashes are not those of the rows of the log"
                findings.add(schema.tree_tiles, key, "tile_differs", message)

    def _check_extra(self) -> None:
        """Name the tiles that no rows fill, where there are more than rows fill."""
        kept = [*self._full]
        for level, hashes in enumerate(self._open):
            kept[level] += bool(level and hashes)
        if self._reader.count(schema.tree_tiles) == sum(kept):
            return
        for row in self._reader.pages(schema.tree_tiles, page_rows=WIDTH):
            level, index = row["tile_level"], row["tile_index"]
            if not (0 <= level < len(kept) and 0 <= index < kept[level]):
                message = "no rows of the log fill this tile"
                key = join_key(level, index)
                self._reader.findings.add(schema.tree_tiles, key, "extra", message)


def check_tile_of_rows(reader: Reader, index: int) -> None:
    """Compare a full tile of the lowest level with its rows, and those above with its root."""
    findings, columns = reader.findings, ("row_bytes",)
    rows = reader.tables.scan(
        TableQuery(schema.kernel_event_log, columns=columns, after=index * WIDTH, limit=WIDTH)
    )
    hashes = [sha256(b"\x00" + content).digest() for (content,) in rows]
    expected, level, place = hashes, 0, 0
    while True:
        key, row = join_key(level, index), reader.get(schema.tree_tiles, level, index)
        if row is None:
            findings.add(schema.tree_tiles, key, "missing", "rows of the log fill this tile")
            return
        begin, end = _HASH_BYTES * place, _HASH_BYTES * (place + len(expected))
        if row["hashes"][begin:end] != b"".join(expected):
            message = "the hashes are not those of the rows of the log"
            findings.add(schema.tree_tiles, key, "tile_differs", message)
            return
        if level and place != WIDTH - 1:
            return
        stored = row["hashes"]
        whole = [stored[at : at + _HASH_BYTES] for at in range(0, len(stored), _HASH_BYTES)]
        expected, level = _complete_roots(whole)[:1], level + 1
        index, place = divmod(index, WIDTH)


def _complete_roots(hashes: list[bytes]) -> list[bytes]:
    """Return the roots of the complete subtrees over some hashes, the largest first."""
    roots: list[bytes] = []
    level = hashes
    while level:
        if len(level) % 2:
            roots.append(level[-1])
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [sha256(b"\x01" + left + right).digest() for left, right in pairs]
    return roots[::-1]


def _root_of(roots: list[bytes]) -> bytes:
    if not roots:
        return _EMPTY_ROOT
    node = roots[-1]
    for left in reversed(roots[:-1]):
        node = sha256(b"\x01" + left + node).digest()
    return node
