"""η against seed 002, written out as it stands there, and against what is known of such trees."""

from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.eta_tree import (
    LEAVES_AT_ONCE,
    append_eta_leaf,
    eta_closing,
    eta_height,
    eta_index,
    eta_path,
    eta_root,
    verify_eta_path,
)
from kernel.proof.merkle_tree import Frontier
from kernel.proof.verification import ProofInvalid

LEAVES = [sha256(bytes([number % 256, number // 256])).digest() for number in range(3000)]


def levels_of(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """The tree of seed 002: an odd level has its last hash twice, up to one root."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        level = levels[-1] + levels[-1][-1:] * (len(levels[-1]) % 2)
        pairs = range(0, len(level), 2)
        levels.append([sha256(level[at] + level[at + 1]).digest() for at in pairs])
    return levels


def grown(leaves: Sequence[bytes]):
    """The nodes of a tree as they are written, one leaf after the other and then the end."""
    frontier, nodes = Frontier(), []
    for leaf in leaves:
        frontier, added = append_eta_leaf(frontier, leaf)
        nodes += added
    return [*nodes, *eta_closing(frontier)]


@pytest.mark.spec("002 The tree")
@given(st.one_of(st.integers(1, 70), st.integers(LEAVES_AT_ONCE - 2, len(LEAVES))))
def test_the_root_duplicates_the_last_leaf_of_an_odd_level(count: int):
    root = levels_of(LEAVES[:count])[-1][0]
    assert eta_root(LEAVES[:count]) == root
    assert grown(LEAVES[:count])[-1].hash == root


@pytest.mark.spec("002 The tree", "002 Load-bearing tables")
@given(st.integers(1, 200))
def test_the_nodes_are_the_whole_tree_each_under_its_own_index(count: int):
    nodes, levels = grown(LEAVES[:count]), levels_of(LEAVES[:count])
    assert [node.index for node in nodes] == list(range(sum(map(len, levels))))
    for level, hashes in enumerate(levels):
        for place, expected in enumerate(hashes):
            node = nodes[eta_index(level, place, count)]
            assert (node.level, node.hash) == (level, expected)
            if level == 0:
                assert node.left_child is node.right_child is None
                continue
            right = min(2 * place + 1, len(levels[level - 1]) - 1)
            assert node.left_child == eta_index(level - 1, 2 * place, count)
            assert node.right_child == eta_index(level - 1, right, count)


def test_a_tree_of_one_leaf_is_its_root():
    assert grown(LEAVES[:1])[-1].hash == eta_root(LEAVES[:1]) == LEAVES[0]
    assert eta_height(1) == 0


def test_a_session_without_thoughts_has_no_node_to_close():
    assert eta_closing(Frontier()) == []


def test_what_no_tree_has_is_not_numbered_and_not_proven():
    for level, place, count in ((0, 0, 0), (0, 5, 5), (0, -1, 5), (4, 0, 5), (-1, 0, 5)):
        with pytest.raises(ValueError, match="has no node"):
            eta_index(level, place, count)
    for place, count in ((-1, 3), (3, 3)):
        with pytest.raises(ValueError, match="has no leaf"):
            eta_path(place, count, lambda _: b"")


def test_every_honest_path_verifies_and_every_wrong_place_or_count_is_refused():
    for count in range(1, 40):
        nodes = grown(LEAVES[:count])
        root = nodes[-1].hash
        for place in range(count):
            path = eta_path(place, count, lambda index, nodes=nodes: nodes[index].hash)
            verify_eta_path(LEAVES[place], place, count, path, root)
            for wrong in range(-1, 2 * count + 2):
                if wrong != place:
                    with pytest.raises(ProofInvalid):
                        verify_eta_path(LEAVES[place], wrong, count, path, root)


@given(st.data())
def test_a_path_with_one_changed_bit_is_refused(data: st.DataObject):
    count = data.draw(st.integers(2, 70))
    place = data.draw(st.integers(0, count - 1))
    nodes = grown(LEAVES[:count])
    path = eta_path(place, count, lambda index: nodes[index].hash)
    changed = data.draw(st.integers(0, len(path) * 256 - 1))
    at, bit = divmod(changed, 256)
    path[at] = (int.from_bytes(path[at], "big") ^ 1 << bit).to_bytes(32, "big")
    with pytest.raises(ProofInvalid):
        verify_eta_path(LEAVES[place], place, count, path, nodes[-1].hash)


@pytest.mark.spec("P1")
def test_a_phantom_index_is_refused():
    """Five leaves: the last is paired with itself, so a naive verifier takes a sixth."""
    nodes = grown(LEAVES[:5])
    path = eta_path(4, 5, lambda index: nodes[index].hash)
    with pytest.raises(ProofInvalid, match="no leaf 5"):
        verify_eta_path(LEAVES[4], 5, 5, path, nodes[-1].hash)
    with pytest.raises(ProofInvalid, match="another sibling"):
        verify_eta_path(LEAVES[4], 5, 6, path, nodes[-1].hash)


@pytest.mark.spec("P1")
def test_an_inner_node_is_no_leaf():
    """The root of four leaves is that of their two parents as leaves."""
    left, right = levels_of(LEAVES[:4])[1]
    root = eta_root(LEAVES[:4])
    assert root == eta_root([left, right])
    with pytest.raises(ProofInvalid, match="1 hashes, that of this tree 2"):
        verify_eta_path(left, 0, 4, [right], root)


@pytest.mark.spec("P1")
def test_a_root_does_not_bind_the_count_and_a_path_is_held_to_the_stated_count():
    """[1 … 6] and [1 … 6, 5, 6] share their root (CVE-2012-2459)."""
    six, eight = LEAVES[:6], [*LEAVES[:6], *LEAVES[4:6]]
    assert levels_of(six)[-1] == levels_of(eight)[-1]
    nodes = grown(six)
    path = eta_path(5, 6, lambda index: nodes[index].hash)
    with pytest.raises(ProofInvalid, match="another sibling"):
        verify_eta_path(LEAVES[5], 7, 8, path, nodes[-1].hash)


@pytest.mark.spec("P1")
@pytest.mark.parametrize("count", [3, 5, 6, 7, 12, 1025, 2050])
def test_a_list_whose_last_leaves_repeat_by_duplication_is_refused(count: int):
    repeated = count & -count
    malleated = [*LEAVES[:count], *LEAVES[count - repeated : count]]
    assert levels_of(malleated)[-1] == levels_of(LEAVES[:count])[-1]
    with pytest.raises(ProofInvalid, match="equal"):
        eta_root(malleated)
    with pytest.raises(ProofInvalid, match="equal"):
        grown(malleated)


def test_a_path_of_other_lengths_is_refused():
    nodes = grown(LEAVES[:4])
    path = eta_path(0, 4, lambda index: nodes[index].hash)
    for wrong in (path[:1], [*path, path[0]], [path[0], path[1] + b"\x00"]):
        with pytest.raises(ProofInvalid):
            verify_eta_path(LEAVES[0], 0, 4, wrong, nodes[-1].hash)
