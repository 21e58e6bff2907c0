"""The tree over the log against RFC 6962, written out as it stands there, and against pymerkle."""

from collections.abc import Sequence
from hashlib import sha256

import pymerkle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.merkle_tree import (
    EMPTY_ROOT,
    HASH_BYTES,
    Frontier,
    consistency_path,
    inclusion_path,
    leaf_hash,
    node_hash,
    root_of,
)
from kernel.proof.tiles import (
    TILE_WIDTH,
    hashes_of,
    node_of_tiles,
    subtree_root,
    tile_of_path,
    tile_path,
)
from kernel.proof.verification import ProofInvalid, verify_consistency, verify_inclusion

SIZES = st.integers(1, 700)


def rows(count: int) -> list[bytes]:
    return [f'{{"row":{number}}}'.encode() for number in range(count)]


def mth(entries: Sequence[bytes]) -> bytes:
    """The Merkle Tree Hash of RFC 6962 §2.1."""
    if not entries:
        return sha256().digest()
    if len(entries) == 1:
        return sha256(b"\x00" + entries[0]).digest()
    k = split(len(entries))
    return sha256(b"\x01" + mth(entries[:k]) + mth(entries[k:])).digest()


def path(m: int, entries: Sequence[bytes]) -> list[bytes]:
    """The Merkle audit path of RFC 6962 §2.1.1."""
    if len(entries) == 1:
        return []
    k = split(len(entries))
    if m < k:
        return [*path(m, entries[:k]), mth(entries[k:])]
    return [*path(m - k, entries[k:]), mth(entries[:k])]


def proof(m: int, entries: Sequence[bytes]) -> list[bytes]:
    """The Merkle consistency proof of RFC 6962 §2.1.2."""
    return subproof(m, entries, is_whole=True)


def subproof(m: int, entries: Sequence[bytes], *, is_whole: bool) -> list[bytes]:
    if m == len(entries):
        return [] if is_whole else [mth(entries)]
    k = split(len(entries))
    if m <= k:
        return [*subproof(m, entries[:k], is_whole=is_whole), mth(entries[k:])]
    return [*subproof(m - k, entries[k:], is_whole=False), mth(entries[:k])]


def split(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


class Log:
    """Rows, and the nodes of their tree as tiles give them."""

    def __init__(self, count: int) -> None:
        self.rows = rows(count)
        self.leaves = [leaf_hash(row) for row in self.rows]

    def tile(self, level: int, index: int) -> Sequence[bytes]:
        if level == 0:
            return self.leaves[index * TILE_WIDTH : (index + 1) * TILE_WIDTH]
        below = range(index * TILE_WIDTH, (index + 1) * TILE_WIDTH)
        tiles = (self.tile(level - 1, lower) for lower in below)
        return [subtree_root(tile) for tile in tiles if len(tile) == TILE_WIDTH]

    def node(self, level: int, index: int) -> bytes:
        return node_of_tiles(level, index, self.tile)


LOG = Log(700)


@given(SIZES)
def test_the_root_is_that_of_rfc_6962(size: int):
    root = mth(LOG.rows[:size])
    assert root_of(size, LOG.node) == root
    frontier = Frontier()
    for leaf in LOG.leaves[:size]:
        frontier = frontier.append(leaf)
    assert frontier.root == root
    assert Frontier.of_bytes(size, frontier.to_bytes()) == frontier
    assert len(frontier.to_bytes()) == HASH_BYTES * size.bit_count()


def test_a_tree_without_leaves_has_the_root_of_rfc_6962():
    assert root_of(0, LOG.node) == Frontier().root == EMPTY_ROOT == mth([])


def test_a_frontier_of_another_size_is_refused():
    with pytest.raises(ValueError, match="no frontier of 3 leaves"):
        Frontier.of_bytes(3, b"\x00" * HASH_BYTES)


@pytest.mark.parametrize("size", [*range(1, 20), 256, 699])
def test_the_frontier_has_the_roots_of_its_own_subtrees_and_of_no_others(size: int):
    frontier = Frontier().extend(LOG.leaves[:size])
    complete = [(level, at) for level in range(11) for at in range(size >> level)]
    held = {at: root for at in complete if (root := frontier.root_at(*at)) is not None}
    assert held == {at: LOG.node(*at) for at in held}
    assert [held[at] for at in sorted(held, reverse=True)] == [*frontier.roots]
    assert frontier.root_at(0, size) is None


@given(st.data())
def test_an_inclusion_path_is_that_of_rfc_6962_and_verifies(data: st.DataObject):
    size = data.draw(SIZES)
    index = data.draw(st.integers(0, size - 1))
    proven = inclusion_path(index, size, LOG.node)
    assert proven == path(index, LOG.rows[:size])
    verify_inclusion(LOG.leaves[index], index, size, proven, mth(LOG.rows[:size]))


@given(st.data())
def test_a_consistency_path_is_that_of_rfc_6962_and_verifies(data: st.DataObject):
    size = data.draw(SIZES)
    old = data.draw(st.integers(0, size))
    proven = consistency_path(old, size, LOG.node)
    assert proven == (proof(old, LOG.rows[:size]) if old else [])
    verify_consistency(old, mth(LOG.rows[:old]), size, mth(LOG.rows[:size]), proven)


@given(st.data())
def test_pymerkle_makes_the_same_proofs(data: st.DataObject):
    size = data.draw(st.integers(2, 80))
    index = data.draw(st.integers(1, size))
    peer = pymerkle.InmemoryTree.init_from_entries(LOG.rows[:size])
    assert peer.get_root() == root_of(size, LOG.node)
    inclusion = peer.prove_inclusion(index, size)
    assert inclusion.path[0] == LOG.leaves[index - 1]
    assert inclusion.path[1:] == inclusion_path(index - 1, size, LOG.node)
    old = data.draw(st.integers(1, size))
    pymerkle.verify_consistency(
        peer.get_root(old), peer.get_root(size), peer.prove_consistency(old, size)
    )
    assert peer.get_root(old) == root_of(old, LOG.node)


def test_what_no_tree_has_is_not_proven():
    for index, size in ((-1, 3), (3, 3), (0, 0)):
        with pytest.raises(ValueError, match="has no leaf"):
            inclusion_path(index, size, LOG.node)
    for old, size in ((-1, 3), (4, 3)):
        with pytest.raises(ValueError, match="does not begin"):
            consistency_path(old, size, LOG.node)


def refused(verify, *arguments) -> None:
    with pytest.raises(ProofInvalid):
        verify(*arguments)


def spoiled(hashes: list[bytes], data: st.DataObject) -> list[bytes]:
    """Change a path in one place."""
    how = data.draw(st.sampled_from(["flip", "drop", "repeat", "swap", "shorten", "add"]))
    place = data.draw(st.integers(0, max(0, len(hashes) - 1)))
    changed = list(hashes)
    if how == "add" or not hashes:
        return [*hashes, data.draw(st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES))]
    if how == "flip":
        bit = data.draw(st.integers(0, HASH_BYTES * 8 - 1))
        number = int.from_bytes(changed[place], "big") ^ (1 << bit)
        changed[place] = number.to_bytes(HASH_BYTES, "big")
    elif how == "drop":
        del changed[place]
    elif how == "repeat":
        changed.insert(place, changed[place])
    elif how == "shorten":
        changed[place] = changed[place][:-1]
    else:
        other = data.draw(st.integers(0, len(hashes) - 1))
        changed[place], changed[other] = changed[other], changed[place]
    return changed


@given(st.data())
def test_a_spoiled_inclusion_path_proves_nothing(data: st.DataObject):
    size = data.draw(SIZES)
    index = data.draw(st.integers(0, size - 1))
    proven = inclusion_path(index, size, LOG.node)
    changed = spoiled(proven, data)
    root = root_of(size, LOG.node)
    if changed != proven:
        refused(verify_inclusion, LOG.leaves[index], index, size, changed, root)
    other = data.draw(st.integers(-1, size + 1))
    if other != index:
        refused(verify_inclusion, LOG.leaves[index], other, size, proven, root)
    refused(verify_inclusion, leaf_hash(b"another"), index, size, proven, root)
    refused(verify_inclusion, LOG.leaves[index], index, size, proven, leaf_hash(b"another"))


@given(st.data())
def test_a_spoiled_consistency_path_proves_nothing(data: st.DataObject):
    size = data.draw(SIZES)
    old = data.draw(st.integers(1, size))
    proven = consistency_path(old, size, LOG.node)
    old_root, root = root_of(old, LOG.node), root_of(size, LOG.node)
    changed = spoiled(proven, data)
    if changed != proven:
        refused(verify_consistency, old, old_root, size, root, changed)
    refused(verify_consistency, old, leaf_hash(b"another"), size, root, proven)
    refused(verify_consistency, old, old_root, size, leaf_hash(b"another"), proven)
    refused(verify_consistency, size + 1, old_root, size, root, proven)


@given(st.integers(2, 39), st.data())
def test_no_phantom_index_is_taken(size: int, data: st.DataObject):
    """A duplicated tail lets a tree of five leaves prove a sixth; this tree duplicates nothing."""
    index = data.draw(st.integers(0, size - 1))
    proven = inclusion_path(index, size, LOG.node)
    for phantom in range(size, 2 * size):
        refused(verify_inclusion, LOG.leaves[index], phantom, size, proven, root_of(size, LOG.node))


@given(st.integers(2, 39), st.data())
def test_no_inner_node_is_taken_for_a_leaf(size: int, data: st.DataObject):
    index = data.draw(st.integers(0, size - 2)) & ~1
    inner = node_hash(LOG.leaves[index], LOG.leaves[index + 1])
    root = root_of(size, LOG.node)
    proven = inclusion_path(index, size, LOG.node)
    for claimed in range(1, size + 1):
        for place in range(claimed):
            refused(verify_inclusion, leaf_hash(inner), place, claimed, proven[1:], root)
    # Who hands in the bytes of a node hands in a row: they are hashed behind another byte.
    refused(verify_inclusion, leaf_hash(LOG.leaves[0] + LOG.leaves[1]), 0, size, proven, root)


def test_a_repeated_tail_is_another_tree():
    for size in range(1, 40):
        for repeated in range(1, size + 1):
            longer = LOG.rows[:size] + LOG.rows[size - repeated : size]
            assert mth(longer) != root_of(size, LOG.node)


def test_a_root_of_another_size_is_told_apart_by_who_authenticates_the_size():
    """A path alone does not bind the size, so a verifier takes the size from a checkpoint."""
    for size in range(2, 40):
        root = root_of(size, LOG.node)
        roots = {root_of(other, LOG.node) for other in range(1, 41) if other != size}
        assert root not in roots


@pytest.mark.parametrize(
    ("level", "index", "width", "expected"),
    [
        (0, 5, 256, "tile/0/005"),
        (0, 1234067, 256, "tile/0/x001/x234/067"),
        (1, 1000, 5, "tile/1/x001/000.p/5"),
    ],
)
def test_a_tile_has_the_path_of_tlog_tiles(level: int, index: int, width: int, expected: str):
    assert tile_path(level, index, width) == expected
    assert tile_of_path(expected) == (level, index, width)


@given(st.integers(0, 7), st.integers(0, 1 << 40), st.integers(1, TILE_WIDTH))
def test_a_path_names_the_tile_that_it_was_written_for(level: int, index: int, width: int):
    assert tile_of_path(tile_path(level, index, width)) == (level, index, width)


@pytest.mark.parametrize(
    "path",
    [
        "checkpoint",
        "tile/0/5",
        "tile/0/0005",
        "tile/00/005",
        "tile/0/x000/005",
        "tile/0/005.p/0",
        "tile/0/005.p/05",
        "tile/0/005.p/256",
        "tile/0/005.p/1000",
        "tile/0/005.p",
        "tile/0/005/",
        "tile/0/005\n",
        "tile/0/\u0660\u0660\u0665",
        "tile/-1/005",
        "tile/0/../005",
        "tile/0/..",
        "tile/entries/000",
        "/tile/0/005",
        "tile/0/" + "x001/" * 40 + "001",
    ],
)
def test_a_path_that_is_spelled_otherwise_names_no_tile(path: str):
    assert tile_of_path(path) is None


def test_the_hashes_of_a_stored_tile_are_those_that_were_stored():
    assert hashes_of(b"".join(LOG.leaves[:7])) == LOG.leaves[:7]
    assert hashes_of(b"") == []
