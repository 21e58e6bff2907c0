"""Builds η, the Merkle tree over the thoughts of a session, exactly as seed 002 builds it; pure.

A leaf is the content hash of a thought, a node is SHA-256(left ‖ right), and a level with an odd
count pairs its last node with itself. Nothing else is hashed, so the root alone binds neither how
many leaves there are nor on which level a hash stands: two lists of leaves can share a root
(CVE-2012-2459), and a node passes for a leaf. Whoever verifies therefore takes the count from the
session's seal (P1), holds every path to the shape that the count gives, and refuses two equal
siblings wherever the count has no node paired with itself.

Nodes are numbered in the order in which their hashes are known (decision kernel/0370): a leaf, then
the subtrees that it completes. Only what stands over an incomplete subtree waits for the end of the
session, at most one node a level; so closing a tree costs its height.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from kernel.proof.merkle_tree import HASH_BYTES, Frontier
from kernel.proof.verification import ProofInvalid

ETA_ALGORITHM = "eta-dup-sha256-v1"
"""The name of this tree in seals."""

LEAVES_AT_ONCE = 1024
"""Leaves of one subtree that are hashed together, so that they stay in the processor's cache."""

ReadHash = Callable[[int], bytes]
"""Returns the hash of a node by its index."""


@dataclass(frozen=True, slots=True)
class EtaNode:
    """One node of the tree; a leaf has no children, a last node may have one child twice."""

    index: int
    level: int
    """0 for a leaf."""

    hash: bytes
    left_child: int | None = None
    right_child: int | None = None


def eta_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node."""
    return sha256(left + right).digest()


def eta_height(count: int) -> int:
    """Return the level of the root over so many leaves, at least one."""
    return (count - 1).bit_length()


def eta_index(level: int, place: int, count: int) -> int:
    """Return the index of the node that stands at a place of a level, in a tree of `count` leaves.

    Raises:
        ValueError: the tree has no such node.
    """
    if count < 1 or not 0 <= level <= eta_height(count) or not 0 <= place <= (count - 1) >> level:
        raise ValueError(f"a tree of {count} leaves has no node {place} on level {level}")
    end = (place + 1) << level
    if end <= count:
        last = end - 1
        return 2 * last - last.bit_count() + level
    complete = (count & -count).bit_length() - 1
    return 2 * count - count.bit_count() + level - complete - 1


def append_eta_leaf(frontier: Frontier, leaf: bytes) -> tuple[Frontier, list[EtaNode]]:
    """Return the complete subtrees with a further leaf, and the nodes that this adds.

    Raises:
        ProofInvalid: two siblings would be equal; then the leaf is there already.
    """
    size, roots = frontier.size, frontier.roots
    index = 2 * size - size.bit_count()
    nodes = [EtaNode(index, 0, leaf)]
    level = 0
    while size >> level & 1:
        left, right = roots[-1], nodes[-1]
        if left == right.hash:
            raise ProofInvalid("two siblings are equal")
        left_index = eta_index(level, (size >> level) - 1, size)
        roots, level = roots[:-1], level + 1
        parent = eta_hash(left, right.hash)
        nodes.append(EtaNode(index + level, level, parent, left_index, right.index))
    return Frontier(size + 1, (*roots, nodes[-1].hash)), nodes


def eta_closing(frontier: Frontier) -> list[EtaNode]:
    """Return the nodes over incomplete subtrees, the root last; none where the tree is complete.

    Raises:
        ProofInvalid: two siblings are equal.
    """
    count, roots = frontier.size, list(frontier.roots)
    nodes: list[EtaNode] = []
    if not roots:
        return nodes
    level = (count & -count).bit_length() - 1
    last = roots.pop()
    while level < eta_height(count):
        place = (count - 1) >> level
        right_index = eta_index(level, place, count)
        left, left_index = last, right_index
        if place & 1:
            left, left_index = roots.pop(), eta_index(level, place - 1, count)
            if left == last:
                raise ProofInvalid("two siblings are equal")
        level += 1
        last = eta_hash(left, last)
        index = eta_index(level, place >> 1, count)
        nodes.append(EtaNode(index, level, last, left_index, right_index))
    return nodes


def eta_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over leaves, at least one.

    Raises:
        ProofInvalid: two siblings are equal, as where the last leaves repeat by duplication (P1).
    """
    whole = len(leaves) - len(leaves) % LEAVES_AT_ONCE
    if whole <= LEAVES_AT_ONCE:
        return _root(list(leaves))
    level = [
        _root(list(leaves[start : start + LEAVES_AT_ONCE]))
        for start in range(0, whole, LEAVES_AT_ONCE)
    ]
    if whole < len(leaves):
        rest = list(leaves[whole:])
        for _ in range(LEAVES_AT_ONCE.bit_length() - 1):
            rest = _above(rest)
        level += rest
    return _root(level)


def eta_path(place: int, count: int, read: ReadHash) -> list[bytes]:
    """Return what proves that a leaf is in the tree of `count` leaves, leaf to root.

    Raises:
        ValueError: that tree has no such leaf.
    """
    return [read(index) for index in _siblings(place, count)]


def verify_eta_path(
    leaf: bytes, place: int, count: int, path: Sequence[bytes], root: bytes
) -> None:
    """Check that a leaf is the one at a place of the tree of `count` leaves.

    The count has to come from the session's seal: the root does not bind it.

    Raises:
        ProofInvalid: it is not, or the path is no path of that tree.
    """
    if not 0 <= place < count:
        raise ProofInvalid(f"a tree of {count} leaves has no leaf {place}")
    height = eta_height(count)
    if len(path) != height:
        raise ProofInvalid(f"the path has {len(path)} hashes, that of this tree {height}")
    node, last = leaf, count - 1
    for sibling in path:
        if len(sibling) != HASH_BYTES:
            raise ProofInvalid(f"a hash has {HASH_BYTES} bytes")
        is_alone = place == last and not place & 1
        if (sibling == node) != is_alone:
            raise ProofInvalid("a node has another sibling than its place gives it")
        node = eta_hash(sibling, node) if place & 1 else eta_hash(node, sibling)
        place, last = place >> 1, last >> 1
    if node != root:
        raise ProofInvalid("the path leads to another root")


def _siblings(place: int, count: int) -> Iterator[int]:
    if not 0 <= place < count:
        raise ValueError(f"a tree of {count} leaves has no leaf {place}")
    for level in range(eta_height(count)):
        beside = place ^ 1
        yield eta_index(level, min(beside, (count - 1) >> level), count)
        place >>= 1


def _root(level: list[bytes]) -> bytes:
    while len(level) > 1:
        level = _above(level)
    return level[0]


def _above(level: list[bytes]) -> list[bytes]:
    """Return the level above a level."""
    alone = level.pop() if len(level) % 2 else None
    nodes = iter(level)
    above = [
        sha256(left + right).digest()
        for left, right in zip(nodes, nodes, strict=True)
        if left != right
    ]
    if 2 * len(above) != len(level):
        raise ProofInvalid("two siblings are equal")
    if alone is not None:
        above.append(eta_hash(alone, alone))
    return above
