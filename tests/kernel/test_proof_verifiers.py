"""Four verifiers judge the same proofs, honest and mutated, and the traps by their names.

`make proofs` lets them judge 100,000 of each. The file of JavaScript is judged with where there is
a node; without one those tests are skipped.
"""

import random
from dataclasses import replace
from hashlib import sha256

import pytest

from kernel.proof.merkle_tree import leaf_hash, node_hash
from tests.kernel.test_eta_tree import levels_of
from tests.proof_verifiers import (
    MUTATIONS,
    MUTATIONS_BETWEEN,
    NODE,
    Case,
    Consistency,
    Eta,
    Inclusion,
    Log,
    disagreements,
    honest_cases,
    judged_by_the_file,
    judged_by_the_script,
    judged_by_us,
    mutated_cases,
)

CASES = 1_200

pytestmark = pytest.mark.spec("P5")

needs_node = pytest.mark.skipif(NODE is None, reason="there is no node on the path")
with_script = pytest.mark.parametrize(
    "with_script", [False, pytest.param(True, marks=needs_node)], ids=["python", "node"]
)


@pytest.fixture(scope="module")
def log():
    return Log(700)


@pytest.fixture(scope="module")
def cases(log):
    chance = random.Random(18)
    return [*honest_cases(log, CASES, chance), *mutated_cases(log, CASES, chance)]


def verdicts(case, *, with_script):
    """What each of our verifiers says; pymerkle has no words for most of the traps."""
    judged = [judged_by_us(case), judged_by_the_file(case)]
    return judged + (judged_by_the_script([case]) if with_script else [])


@with_script
def test_all_verifiers_take_what_is_proved_and_nothing_that_was_mutated(log, cases, with_script):
    assert disagreements(log, cases, with_script=with_script) == []
    mutations = {case.mutation for case in cases}
    assert len(mutations) == 1 + len({*MUTATIONS, *MUTATIONS_BETWEEN})


@with_script
def test_phantom_index(log, with_script):
    """A tree that repeats its tail proves a leaf 5 among 5; this one none behind its end."""
    for index in (5, 6, 7, 8):
        for path in (log.inclusion(4, 5).path, log.inclusion(3, 5).path):
            claim = Inclusion(log.leaves[4], index, 5, path, log.root(5))
            assert not any(verdicts(Case(claim), with_script=with_script))


@with_script
def test_inner_node_as_leaf(log, with_script):
    """The hash of two leaves is no leaf, neither itself nor as bytes that are hashed as a row."""
    inner = node_hash(log.leaves[0], log.leaves[1])
    path = log.inclusion(0, 4).path[1:]
    rows = (log.leaves[0] + log.leaves[1], b"\x01" + log.leaves[0] + log.leaves[1])
    for size in (2, 3, 4):
        for row in rows:
            claim = Inclusion(leaf_hash(row), 0, size, path, log.root(4))
            assert not any(verdicts(Case(claim), with_script=with_script))
    # A verifier that is handed a hash cannot tell; a proof file has the row, which it hashes.
    assert inner not in map(leaf_hash, rows)


@with_script
def test_size_not_bound(log, with_script):
    """A path proves a leaf under a root and not of how many: the size has to be authenticated."""
    honest = log.inclusion(0, 3)
    claim = Inclusion(honest.leaf, 0, 4, honest.path, honest.root)
    assert all(verdicts(Case(claim), with_script=with_script))
    authentic = Inclusion(honest.leaf, 0, 4, honest.path, log.root(4))
    assert not any(verdicts(Case(authentic), with_script=with_script))
    grown = log.consistency(2, 3)
    claim = Consistency(2, grown.old_root, 4, grown.root, grown.path)
    assert all(verdicts(Case(claim), with_script=with_script))
    authentic = Consistency(2, grown.old_root, 4, log.root(4), grown.path)
    assert not any(verdicts(Case(authentic), with_script=with_script))


@with_script
def test_duplicated_tail(log, with_script):
    """CVE-2012-2459: a list and the list with its tail once more have one root; not here."""
    assert repeating_root(log.leaves[:6]) == repeating_root(log.leaves[:6] + log.leaves[4:6])
    for size, repeated in ((3, 1), (6, 2), (12, 4)):
        copied = size - repeated
        claim = Inclusion(
            log.leaves[copied],
            size,
            size + repeated,
            log.inclusion(copied, size).path,
            log.root(size + repeated),
        )
        assert not any(verdicts(Case(claim), with_script=with_script))


@with_script
@pytest.mark.spec("P1")
def test_a_tree_that_repeats_its_tail_is_read_by_its_count(log, with_script):
    """Of every tree of up to 20 leaves: each path is taken at its place and count alone."""
    cases, chance = [], random.Random(2)
    for count in range(1, 21):
        levels = levels_of(log.leaves[:count])
        [root] = levels[-1]
        for place in range(count):
            path = eta_siblings(levels, place)
            honest = Eta(log.leaves[place], place, count, path, root)
            cases.append(Case(honest))
            cases += [
                Case(changed, "eta", expected=False) for changed in eta_changes(honest, chance)
            ]
    ours, file = map(judged_by_us, cases), map(judged_by_the_file, cases)
    judged = [ours, file, judged_by_the_script(cases)] if with_script else [ours, file]
    for case, *verdicts in zip(cases, *judged, strict=True):
        assert verdicts == [case.expected] * len(judged), case
    assert sum(case.expected is False for case in cases) > 2_000


def eta_siblings(levels, place):
    return [
        level[min((place >> height) ^ 1, len(level) - 1)]
        for height, level in enumerate(levels[:-1])
    ]


def eta_changes(honest, chance):
    """What none of the verifiers may take: another place, an inner node, another shape."""
    size = honest.count
    for place in {honest.place ^ 1, honest.place + 1, size, size + 1, chance.randrange(size)}:
        if place != honest.place:
            yield replace(honest, place=place)
    for count in range(1, 2 * size + 2):
        if (count - 1).bit_length() != (size - 1).bit_length():
            yield replace(honest, count=count)
    yield replace(honest, path=[*honest.path, honest.root])
    yield replace(honest, leaf=honest.root if size > 1 else bytes(32))
    if honest.path:
        place = chance.randrange(len(honest.path))
        node = bytearray(honest.path[place])
        node[chance.randrange(32)] ^= 1
        yield replace(honest, path=[*honest.path[:place], bytes(node), *honest.path[place + 1 :]])
        yield replace(honest, path=honest.path[1:])
        yield replace(honest, path=[*honest.path[:place], honest.path[place][:-1]])
        pair = [honest.leaf, honest.path[0]]
        inner = sha256(b"".join(pair if honest.place % 2 == 0 else pair[::-1])).digest()
        yield replace(honest, leaf=inner, place=honest.place // 2, path=honest.path[1:])


def repeating_root(leaves):
    """The root of a tree that repeats the last node of a level that has an odd number."""
    level = list(leaves)
    while len(level) > 1:
        level += level[-1:] if len(level) % 2 else []
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [sha256(left + right).digest() for left, right in pairs]
    return level[0]
