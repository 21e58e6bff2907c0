"""Verifies proofs against the roots of a tree (RFC 6962 §2.1.1, §2.1.2); pure.

The code shares nothing with what makes the proofs but the two hashes. A path has an inner part,
whose siblings stand on the side that a bit of the place says, and a border, whose siblings all
stand on the left. The lengths of both follow from the place and the size alone.

A root does not bind a size: a verifier takes both from one authenticated statement, a checkpoint.
"""

from collections.abc import Sequence

from kernel.proof.merkle_tree import EMPTY_ROOT, HASH_BYTES, node_hash
from kernel.values.errors import KernelError


class ProofInvalid(KernelError):
    """A proof does not prove what it is said to prove."""

    code = "proof_invalid"


def verify_inclusion(
    leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes
) -> None:
    """Check that a leaf with this hash is the leaf `index` of the tree of `size` leaves.

    Raises:
        ProofInvalid: it is not, or the path is no path of that tree.
    """
    if not 0 <= index < size:
        raise ProofInvalid(f"a tree of {size} leaves has no leaf {index}")
    inner, border = _lengths(index, size)
    _check_path(path, inner + border)
    _check_equal(_border(_inner(leaf, path[:inner], index), path[inner:]), root)


def verify_consistency(
    old_size: int, old_root: bytes, size: int, root: bytes, path: Sequence[bytes]
) -> None:
    """Check that the tree of `size` leaves begins with the tree of `old_size` leaves.

    Raises:
        ProofInvalid: it does not, or the path is no path between those trees.
    """
    if not 0 <= old_size <= size:
        raise ProofInvalid(f"a tree of {size} leaves does not begin with one of {old_size}")
    if old_size in (0, size):
        _check_path(path, 0)
        _check_equal(EMPTY_ROOT if old_size == 0 else root, old_root)
        return
    nodes = [old_root, *path] if old_size & (old_size - 1) == 0 else path
    first, second = roots_of_path(old_size, size, nodes)
    _check_equal(first, old_root)
    _check_equal(second, root)


def roots_of_path(old_size: int, size: int, nodes: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the roots to which a path between two trees leads, that of the old one first.

    The first node is the root of the largest complete subtree at the end of the old tree, where
    both trees still agree; a consistency proof leaves it out where that is all of the old tree.

    Raises:
        ProofInvalid: the path is no path between those trees.
    """
    shift = (old_size & -old_size).bit_length() - 1
    inner, border = _lengths(old_size - 1, size)
    inner -= shift
    _check_path(nodes, 1 + inner + border)
    shared, *siblings = nodes
    place = (old_size - 1) >> shift
    left = [sibling for bit, sibling in enumerate(siblings[:inner]) if place >> bit & 1]
    old_root = _border(_border(shared, left), siblings[inner:])
    return old_root, _border(_inner(shared, siblings[:inner], place), siblings[inner:])


def _lengths(index: int, size: int) -> tuple[int, int]:
    """Return how many siblings of a leaf's path are inner ones, and how many the border has."""
    inner = (index ^ (size - 1)).bit_length()
    return inner, (index >> inner).bit_count()


def _inner(node: bytes, siblings: Sequence[bytes], place: int) -> bytes:
    for bit, sibling in enumerate(siblings):
        left, right = (sibling, node) if place >> bit & 1 else (node, sibling)
        node = node_hash(left, right)
    return node


def _border(node: bytes, siblings: Sequence[bytes]) -> bytes:
    for sibling in siblings:
        node = node_hash(sibling, node)
    return node


def _check_path(path: Sequence[bytes], length: int) -> None:
    if len(path) != length:
        raise ProofInvalid(f"the path has {len(path)} hashes, that of this tree {length}")
    if any(len(sibling) != HASH_BYTES for sibling in path):
        raise ProofInvalid(f"a hash has {HASH_BYTES} bytes")


def _check_equal(node: bytes, root: bytes) -> None:
    if node != root:
        raise ProofInvalid("the path leads to another root")
