"""The client verifies proofs by code of its own, and judges as the kernel does."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernel.proof import verification
from kernel.proof.merkle_tree import Frontier, consistency_path, inclusion_path, leaf_hash
from workers.client import merkle_proofs

SIZE_MAX = 20
LEAVES = [leaf_hash(b"row %d" % number) for number in range(SIZE_MAX)]


def root_of(leaves: Sequence[bytes]) -> bytes:
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    return frontier.root


ROOTS = [root_of(LEAVES[:size]) for size in range(SIZE_MAX + 1)]


def node(level: int, index: int) -> bytes:
    return root_of(LEAVES[index << level : (index + 1) << level])


def is_taken(verify: Callable[..., None], *arguments: Any) -> bool:
    try:
        verify(*arguments)
    except (merkle_proofs.LogProofInvalid, verification.ProofInvalid):
        return False
    return True


def test_every_proof_of_a_small_tree_is_taken():
    for size in range(1, SIZE_MAX + 1):
        for index in range(size):
            proof = inclusion_path(index, size, node)
            leaf = merkle_proofs.leaf_hash(b"row %d" % index)
            merkle_proofs.verify_inclusion(leaf, index, size, proof, ROOTS[size])
        for old in range(size + 1):
            proof = consistency_path(old, size, node)
            merkle_proofs.verify_consistency(old, ROOTS[old], size, ROOTS[size], proof)


HASHES = st.sampled_from([*LEAVES[:6], *ROOTS[:6], b"short"])
SIZES = st.integers(-1, 9)


@given(HASHES, SIZES, SIZES, st.lists(HASHES, max_size=5), HASHES)
def test_any_inclusion_is_judged_alike(leaf, index, size, path, root):
    arguments = (leaf, index, size, path, root)
    assert is_taken(merkle_proofs.verify_inclusion, *arguments) == is_taken(
        verification.verify_inclusion, *arguments
    )


@given(st.data(), SIZES, SIZES, st.integers(0, 9))
def test_any_consistency_is_judged_alike(data, old, size, place):
    """Also where a proof that holds is changed in a place."""
    path = consistency_path(old, size, node) if 0 <= old <= size else []
    path[place : place + 1] = data.draw(st.lists(HASHES, max_size=2))
    roots = [ROOTS[max(0, number)] for number in (old, size)]
    old_root, root = data.draw(st.sampled_from(roots)), data.draw(st.sampled_from(roots))
    arguments = (old, old_root, size, root, path)
    assert is_taken(merkle_proofs.verify_consistency, *arguments) == is_taken(
        verification.verify_consistency, *arguments
    )
