"""Writes checkpoint and tiles into a folder that any static server holds, as tlog-tiles says.

A tile is on the disk before the checkpoint that needs it. Tiles never change, so one that is there
is left alone. Everybody may read what is published, and nobody else may write it; where the folder
lies in one that lets nobody else in, it is as private as that.
"""

import os
import stat
from pathlib import Path
from shutil import rmtree

from kernel.ledger.log_tree import LogTree
from kernel.proof.merkle_tree import HASH_BYTES, ReadNode
from kernel.proof.tiles import (
    TILE_LEVELS,
    TILE_WIDTH,
    hashes_of,
    node_of_tiles,
    tile_path,
)
from kernel.proof.verification import ProofInvalid
from workers.environment.private_files import FILE_MODE, draft_of

CHECKPOINT = "checkpoint"
PUBLIC_MODE = 0o644

_OTHERS = 0o077
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def write_tiles(folder: Path, tree: LogTree, size: int, published: int = 0) -> None:
    """Write the tiles of the first rows that came since so many were published.

    An open tile that was published goes where the full one is there.

    Raises:
        OSError: it cannot be written.
        LedgerCorrupt: a tile of the tree is not there.
    """
    level = 0
    while count := size >> (TILE_LEVELS * level):
        begin = (published >> (TILE_LEVELS * level)) // TILE_WIDTH
        for index in range(begin, -(-count // TILE_WIDTH)):
            width = min(TILE_WIDTH, count - index * TILE_WIDTH)
            path = folder / tile_path(level, index, width)
            if not path.exists():
                _publish(folder, path, b"".join(tree.tile(level, index)[:width]))
            if width == TILE_WIDTH:
                rmtree(path.with_name(f"{path.name}.p"), ignore_errors=True)
        level += 1


def write_checkpoint(folder: Path, note: bytes) -> None:
    """Write the checkpoint, whose tiles are there.

    Raises:
        OSError: it cannot be written.
    """
    _publish(folder, folder / CHECKPOINT, note)


def _publish(folder: Path, path: Path, content: bytes) -> None:
    """Write a file of a folder, and the folders that lead to it."""
    missing = [parent for parent in (path.parent, *path.parent.parents) if not parent.exists()]
    around = folder.parent if folder in missing else folder
    is_private = around.exists() and not stat.S_IMODE(around.stat().st_mode) & _OTHERS
    for parent in reversed(missing):
        parent.mkdir(0o700 if is_private else 0o755, exist_ok=True)
    write_whole(path, content, FILE_MODE if is_private else PUBLIC_MODE)


def read_checkpoint(folder: Path) -> bytes | None:
    """Return the note of the checkpoint that a folder has.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return (folder / CHECKPOINT).read_bytes()
    except FileNotFoundError:
        return None


def read_tile(folder: Path, level: int, index: int, width: int) -> bytes | None:
    """Return the hashes of a tile that a folder has; an open one may be there as the full one.

    Raises:
        OSError: it cannot be read.
    """
    for path in dict.fromkeys((tile_path(level, index, width), tile_path(level, index))):
        try:
            stored = (folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        return stored[: width * HASH_BYTES]
    return None


def nodes_in(folder: Path, size: int) -> ReadNode:
    """Return what reads nodes of the tree of the first rows from the tiles of a folder.

    It raises `ProofInvalid` where a tile is not there, or is not as wide as the tree has it.
    """

    def tile(level: int, index: int) -> list[bytes]:
        width = min(TILE_WIDTH, (size >> (TILE_LEVELS * level)) - index * TILE_WIDTH)
        hashes = hashes_of(read_tile(folder, level, index, width) or b"")
        if len(hashes) == width:
            return hashes
        raise ProofInvalid(f"{folder} lacks tile {level}/{index} of the tree of {size} rows")

    return lambda level, index: node_of_tiles(level, index, tile)


def write_whole(path: Path, content: bytes, mode: int, *, synced: bool = True) -> None:
    """Write a file that is there as a whole or not at all, on the disk when this returns.

    One that is not `synced` may be an older one after the power was lost.

    Raises:
        OSError: it cannot be written.
    """
    part = draft_of(path)
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(part, _NEW, mode), "wb") as file:
            file.write(content)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if not synced:
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
