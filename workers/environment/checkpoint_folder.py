"""A folder that any static server can hold: the checkpoint and the tiles, as tlog-tiles lays them.

A tile is on the disk before the checkpoint that needs it. Tiles never change, so one that is there
is left alone.
"""

import os
from pathlib import Path

from kernel.ledger.log_tree import LogTree
from kernel.proof.merkle_tree import ReadNode
from kernel.proof.tiles import (
    TILE_LEVELS,
    TILE_WIDTH,
    hashes_of,
    node_of_tiles,
    tile_path,
)
from kernel.proof.verification import ProofInvalid

CHECKPOINT = "checkpoint"
PUBLIC_MODE = 0o644

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def publish(folder: Path, tree: LogTree, note: bytes, *, published: int = 0) -> None:
    """Write the tiles that came since so many rows, and then the checkpoint.

    Raises:
        OSError: it cannot be written.
        LedgerCorrupt: a tile of the tree is not there.
    """
    level = 0
    while count := tree.size >> (TILE_LEVELS * level):
        begin = (published >> (TILE_LEVELS * level)) // TILE_WIDTH
        for index in range(begin, -(-count // TILE_WIDTH)):
            width = min(TILE_WIDTH, count - index * TILE_WIDTH)
            path = folder / tile_path(level, index, width)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, b"".join(tree.tile(level, index)), PUBLIC_MODE)
        level += 1
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / CHECKPOINT, note, PUBLIC_MODE)


def nodes_in(folder: Path, size: int) -> ReadNode:
    """Return what reads nodes of the tree of the first rows from the tiles of a folder.

    It raises `ProofInvalid` where a tile is not there, or is not as wide as the tree has it.
    """

    def tile(level: int, index: int) -> list[bytes]:
        width = min(TILE_WIDTH, (size >> (TILE_LEVELS * level)) - index * TILE_WIDTH)
        # What was the open tile of a tree may have been filled since, and be there as a full one.
        paths = {
            folder / tile_path(level, index, width): None,
            folder / tile_path(level, index): None,
        }
        for path in paths:
            if path.is_file():
                hashes = hashes_of(path.read_bytes())
                if len(hashes) >= width:
                    return hashes[:width]
        raise ProofInvalid(f"{folder} lacks tile {level}/{index} of the tree of {size} rows")

    return lambda level, index: node_of_tiles(level, index, tile)


def write_whole(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is there as a whole or not at all, on the disk when this returns.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, _NEW, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
