"""Cuts the hashes of a tree into tiles, as C2SP tlog-tiles does: 256 hashes of every eighth level.

A full tile never changes. Nodes between two tiles are computed from the lower one, so a proof reads
at most two tiles for each eight levels of the tree.
"""

import re
from collections.abc import Callable, Sequence

from kernel.proof.merkle_tree import HASH_BYTES, node_hash

TILE_LEVELS = 8
TILE_WIDTH = 1 << TILE_LEVELS

_PATH = re.compile(
    r"tile/([0-9]{1,2})/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", re.ASCII
)
"""A path of a tile; how its numbers are spelled is checked by writing it again."""

ReadTile = Callable[[int, int], Sequence[bytes]]
"""Returns the hashes of a tile, by its level and its index there; as many as it has by now."""


def node_of_tiles(level: int, index: int, read: ReadTile) -> bytes:
    """Return the hash of a complete subtree."""
    tile_level, above = divmod(level, TILE_LEVELS)
    first = index << above
    tile_index, start = divmod(first, TILE_WIDTH)
    return subtree_root(read(tile_level, tile_index)[start : start + (1 << above)])


def subtree_root(hashes: Sequence[bytes]) -> bytes:
    """Return the root over the hashes of a complete subtree's lowest level, a power of two."""
    nodes = list(hashes)
    while len(nodes) > 1:
        nodes = [
            node_hash(left, right) for left, right in zip(nodes[::2], nodes[1::2], strict=True)
        ]
    return nodes[0]


def tile_path(level: int, index: int, width: int = TILE_WIDTH) -> str:
    """Return the path of a tile below the prefix of a log: `tile/0/x001/x234/067.p/5`."""
    digits = f"{index % 1000:03d}"
    while index := index // 1000:
        digits = f"x{index % 1000:03d}/{digits}"
    partial = "" if width == TILE_WIDTH else f".p/{width}"
    return f"tile/{level}/{digits}{partial}"


def tile_of_path(path: str) -> tuple[int, int, int] | None:
    """Return the level, the index and the width of the tile that a path names, None for none.

    A path is taken only as `tile_path` writes it.
    """
    stated = _PATH.fullmatch(path)
    if stated is None:
        return None
    level, digits, width = stated.groups()
    index = int(digits.replace("x", "").replace("/", ""))
    tile = int(level), index, TILE_WIDTH if width is None else int(width)
    return tile if tile_path(*tile) == path else None


def hashes_of(stored: bytes) -> list[bytes]:
    """Return the hashes of a stored tile, which stand one behind the other."""
    starts = range(0, len(stored), HASH_BYTES)
    return [stored[start : start + HASH_BYTES] for start in starts]
