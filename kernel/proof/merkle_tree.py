"""Builds the tree over the rows of the log, as RFC 6962 has it; pure.

A leaf is the hash of a row's bytes behind a zero byte, a node that of its two children behind a one
byte, so that no node can pass for a leaf. A tree of any size splits at the largest power of two
below its size; so it consists of complete subtrees, whose hashes never change, and of at most one
node a level that does. A complete subtree is known by its level and its index there: it holds the
leaves from `index << level` on, `1 << level` of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from typing import Self

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()

ReadNode = Callable[[int, int], bytes]
"""Returns the hash of a complete subtree, by its level and its index there."""


def leaf_hash(row_bytes: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\x00" + row_bytes).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node."""
    return sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """A tree as far as it takes to append to it: the roots of its complete subtrees."""

    size: int = 0
    roots: tuple[bytes, ...] = ()
    """One for each bit of the size, that of the largest subtree first."""

    @classmethod
    def of_bytes(cls, size: int, stored: bytes) -> Self:
        """Return the frontier of a tree of a size.

        Raises:
            ValueError: a tree of that size has another number of complete subtrees.
        """
        if len(stored) != size.bit_count() * HASH_BYTES:
            raise ValueError(f"{len(stored)} bytes are no frontier of {size} leaves")
        roots = range(0, len(stored), HASH_BYTES)
        return cls(size, tuple(stored[start : start + HASH_BYTES] for start in roots))

    def to_bytes(self) -> bytes:
        """Return what `of_bytes` reads beside the size."""
        return b"".join(self.roots)

    def append(self, leaf: bytes) -> "Frontier":
        """Return the frontier with the hash of a further leaf."""
        return self.extend([leaf])

    def extend(self, leaves: Sequence[bytes]) -> "Frontier":
        """Return the frontier with the hashes of further leaves."""
        roots = [*self.roots]
        for size, leaf in enumerate(leaves, self.size):
            level, node = size, leaf
            while level & 1:
                node = node_hash(roots.pop(), node)
                level >>= 1
            roots.append(node)
        return Frontier(self.size + len(leaves), tuple(roots))

    def root_at(self, level: int, index: int) -> bytes | None:
        """Return the root of a complete subtree; None where it is none of the frontier's."""
        above = self.size >> level
        if not above & 1 or index != above - 1:
            return None
        return self.roots[above.bit_count() - 1]

    @property
    def root(self) -> bytes:
        """Return the root of the tree."""
        return _root_of(self.roots) if self.roots else EMPTY_ROOT


def root_of(size: int, read: ReadNode) -> bytes:
    """Return the root of the tree of the first leaves."""
    return _hash_of(0, size, read) if size else EMPTY_ROOT


def inclusion_path(index: int, size: int, read: ReadNode) -> list[bytes]:
    """Return what proves that a leaf is in the tree of the first `size` leaves, leaf to root.

    Raises:
        ValueError: that tree has no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    path = []
    begin, end = 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(_hash_of(middle, end, read))
            end = middle
        else:
            path.append(_hash_of(begin, middle, read))
            begin = middle
    return path[::-1]


def consistency_path(old_size: int, size: int, read: ReadNode) -> list[bytes]:
    """Return what proves that the tree of `old_size` leaves is the beginning of that of `size`.

    Raises:
        ValueError: neither is the beginning of the other.
    """
    if not 0 <= old_size <= size:
        raise ValueError(f"a tree of {size} leaves does not begin with one of {old_size}")
    if old_size in (0, size):
        return []
    path = []
    begin, end = 0, size
    while end != old_size:
        middle = begin + _split(end - begin)
        if old_size <= middle:
            path.append(_hash_of(middle, end, read))
            end = middle
        else:
            path.append(_hash_of(begin, middle, read))
            begin = middle
    if begin:
        path.append(_hash_of(begin, end, read))
    return path[::-1]


def _split(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << ((size - 1).bit_length() - 1)


def _hash_of(begin: int, end: int, read: ReadNode) -> bytes:
    """Return the root of the subtree over a range, which begins where a subtree of its size may."""
    return _root_of(tuple(read(level, index) for level, index in _complete(begin, end)))


def _complete(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the complete subtrees of a range, the largest first."""
    while begin < end:
        level = (end - begin).bit_length() - 1
        yield level, begin >> level
        begin += 1 << level


def _root_of(roots: tuple[bytes, ...]) -> bytes:
    """Return the root over the complete subtrees of a range."""
    return reduce(lambda right, left: node_hash(left, right), reversed(roots))
