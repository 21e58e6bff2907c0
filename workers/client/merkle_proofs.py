"""Verifies proofs against the roots of a tree (RFC 6962 §2.1.1, §2.1.2); pure.

A client verifies by code of its own, without the program that made the proof
(decision queues/0075). A path has an inner part, whose siblings stand on the side that a bit of the
place says, and a border, whose siblings all stand on the left; the lengths of both follow from the
place and the size. A root does not bind a size: both are taken from one statement.
"""

from collections.abc import Sequence
from functools import reduce
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()


class LogProofInvalid(Exception):
    """What a gateway answered does not prove what it says."""

    code = "proof_invalid"


def leaf_hash(row: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\x00" + row).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node."""
    return sha256(b"\x01" + left + right).digest()


def verify_inclusion(
    leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes
) -> None:
    """Check that a leaf with this hash is the leaf `index` of the tree of `size` leaves.

    Raises:
        LogProofInvalid: it is not, or the path is no path of that tree.
    """
    if not 0 <= index < size:
        raise LogProofInvalid(f"a tree of {size} leaves has no leaf {index}")
    inner, border = _lengths(index, size)
    _check_path(path, inner + border)
    _check_equal(_over_border(_over_inner(leaf, path[:inner], index), path[inner:]), root)


def verify_consistency(
    old_size: int, old_root: bytes, size: int, root: bytes, path: Sequence[bytes]
) -> None:
    """Check that the tree of `size` leaves begins with the tree of `old_size` leaves.

    Raises:
        LogProofInvalid: it does not, or the path is no path between those trees.
    """
    if not 0 <= old_size <= size:
        raise LogProofInvalid(f"a tree of {size} leaves does not begin with one of {old_size}")
    if old_size in (0, size):
        _check_path(path, 0)
        _check_equal(EMPTY_ROOT if old_size == 0 else root, old_root)
        return
    # The largest complete subtree at the end of the old tree, where both trees still agree.
    level = (old_size & -old_size).bit_length() - 1
    inner, border = _lengths(old_size - 1, size)
    inner -= level
    is_complete = old_size == 1 << level
    _check_path(path, inner + border + (not is_complete))
    shared, siblings = (old_root, path) if is_complete else (path[0], path[1:])
    place = (old_size - 1) >> level
    on_the_left = [sibling for bit, sibling in enumerate(siblings[:inner]) if place >> bit & 1]
    _check_equal(_over_border(_over_border(shared, on_the_left), siblings[inner:]), old_root)
    _check_equal(_over_border(_over_inner(shared, siblings[:inner], place), siblings[inner:]), root)


def _lengths(index: int, size: int) -> tuple[int, int]:
    """Return how many siblings of a leaf's path are inner ones, and how many the border has."""
    inner = (index ^ (size - 1)).bit_length()
    return inner, (index >> inner).bit_count()


def _over_inner(node: bytes, siblings: Sequence[bytes], place: int) -> bytes:
    for bit, sibling in enumerate(siblings):
        node = node_hash(sibling, node) if place >> bit & 1 else node_hash(node, sibling)
    return node


def _over_border(node: bytes, siblings: Sequence[bytes]) -> bytes:
    return reduce(lambda right, left: node_hash(left, right), siblings, node)


def _check_path(path: Sequence[bytes], length: int) -> None:
    if len(path) != length:
        raise LogProofInvalid(f"the path has {len(path)} hashes, that of this tree {length}")
    if any(len(sibling) != HASH_BYTES for sibling in path):
        raise LogProofInvalid(f"a hash has {HASH_BYTES} bytes")


def _check_equal(node: bytes, root: bytes) -> None:
    if node != root:
        raise LogProofInvalid("the path leads to another root")
