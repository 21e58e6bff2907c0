"""Random proofs, honest and mutated, before every verifier that there is (`make proofs`).

    python -m tests.proof_verifiers [--cases N] [--rows N] [--seed N]

Four look at each: ours, the file of Python that stands alone, the file of JavaScript under Node,
and pymerkle (decision kernel/0361). Each case says what has to come of it. One kind of case leaves
that open: a size that was changed under the same root, which a path alone may not tell (`size not
bound`); there the verifiers only have to agree.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymerkle

from kernel.proof import proof_file
from kernel.proof.eta_tree import verify_eta_path
from kernel.proof.merkle_tree import (
    HASH_BYTES,
    consistency_path,
    inclusion_path,
    leaf_hash,
    node_hash,
    root_of,
)
from kernel.proof.proof_file import ProofFileInvalid
from kernel.proof.verification import ProofInvalid, verify_consistency, verify_inclusion

NODE = shutil.which("node")
SCRIPT = Path(proof_file.__file__).with_suffix(".mjs")
_HARNESS = Path(__file__).with_suffix(".mjs")
_CASES_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The statement that a tree has a leaf, and a path that may prove it."""

    leaf: bytes
    index: int
    size: int
    path: Sequence[bytes]
    root: bytes


@dataclass(frozen=True, slots=True)
class Consistency:
    """The statement that a tree begins with another, and a path that may prove it."""

    old_size: int
    old_root: bytes
    size: int
    root: bytes
    path: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Eta:
    """The statement that a session's tree (seed 002) has a leaf, and a path that may prove it."""

    leaf: bytes
    place: int
    count: int
    path: Sequence[bytes]
    root: bytes


@dataclass(frozen=True, slots=True)
class Case:
    """A statement, what was done to it, and whether it has to be taken."""

    stated: Inclusion | Consistency | Eta
    mutation: str = "honest"
    expected: bool | None = True
    """None: the verifiers agree on it, whatever they say."""


class Log:
    """The leaves of a log, and the hash of every complete subtree over them."""

    def __init__(self, count: int) -> None:
        self.rows = [b'{"row":%d}' % number for number in range(count)]
        self._levels = [[leaf_hash(row) for row in self.rows]]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            pairs = zip(below[::2], below[1::2], strict=False)
            self._levels.append([node_hash(left, right) for left, right in pairs])
        self.leaves = self._levels[0]
        self._peer = pymerkle.InmemoryTree.init_from_entries(self.rows)

    def node(self, level: int, index: int) -> bytes:
        return self._levels[level][index]

    def root(self, size: int) -> bytes:
        return root_of(size, self.node)

    def inclusion(self, index: int, size: int) -> Inclusion:
        path = inclusion_path(index, size, self.node)
        return Inclusion(self.leaves[index], index, size, path, self.root(size))

    def consistency(self, old_size: int, size: int) -> Consistency:
        path = consistency_path(old_size, size, self.node)
        return Consistency(old_size, self.root(old_size), size, self.root(size), path)

    def judged_by_pymerkle(self, case: Case) -> bool | None:
        """Let pymerkle judge; None where it has no words for the case.

        Its paths between two trees are not those of RFC 6962, so there it says whether both roots
        are those of its tree, and whether its own path leads from one to the other.
        """
        stated = case.stated
        if isinstance(stated, Inclusion):
            return self._includes(stated)
        if case.mutation.startswith("path") or case.expected is None:
            return None
        return self._is_beginning(stated) if isinstance(stated, Consistency) else None

    def _includes(self, stated: Inclusion) -> bool | None:
        if not 0 <= stated.index < stated.size <= len(self.leaves):
            return False if stated.index >= stated.size else None
        proof = self._peer.prove_inclusion(stated.index + 1, stated.size)
        proof.path = [stated.leaf, *stated.path]
        try:
            pymerkle.verify_inclusion(stated.leaf, stated.root, proof)
        except pymerkle.InvalidProof:
            return False
        return True

    def _is_beginning(self, stated: Consistency) -> bool | None:
        if not 0 < stated.old_size <= stated.size <= len(self.leaves):
            return False if stated.old_size > stated.size else None
        proof = self._peer.prove_consistency(stated.old_size, stated.size)
        try:
            pymerkle.verify_consistency(stated.old_root, stated.root, proof)
        except pymerkle.InvalidProof:
            return False
        return True


def honest_cases(log: Log, count: int, chance: random.Random) -> Iterator[Case]:
    """Yield as many proofs as they have to be, of both kinds."""
    for _ in range(count):
        yield Case(_drawn(log, chance))


def mutated_cases(log: Log, count: int, chance: random.Random) -> Iterator[Case]:
    """Yield as many proofs that were changed, in every way in turn."""
    made = 0
    while made < count:
        stated = _drawn(log, chance)
        mutate = chance.choice(MUTATIONS if isinstance(stated, Inclusion) else MUTATIONS_BETWEEN)
        case = mutate(log, stated, chance)
        if case is not None and case.stated != stated:
            made += 1
            yield case


def _drawn(log: Log, chance: random.Random) -> Inclusion | Consistency:
    # Small trees have every shape; large ones have long paths.
    size = chance.randint(1, chance.choice([9, 70, len(log.leaves)]))
    if chance.randrange(2):
        return log.inclusion(chance.randrange(size), size)
    return log.consistency(chance.randint(0, size), size)


# --- mutations ------------------------------------------------------------------------------------

Mutation = Callable[[Log, Any, random.Random], Case | None]
"""Changes a statement or its path; None where that one cannot be changed so."""


def path_bit(_: Log, stated: Any, chance: random.Random) -> Case | None:
    return _with_path(stated, "path bit", lambda path: _at(path, chance, _flipped), chance)


def path_drop(_: Log, stated: Any, chance: random.Random) -> Case | None:
    return _with_path(stated, "path drop", lambda path: _at(path, chance, lambda *_: []), chance)


def path_repeat(_: Log, stated: Any, chance: random.Random) -> Case | None:
    return _with_path(
        stated, "path repeat", lambda path: _at(path, chance, lambda node, _: [node, node]), chance
    )


def path_cut(_: Log, stated: Any, chance: random.Random) -> Case | None:
    return _with_path(
        stated, "path cut", lambda path: _at(path, chance, lambda node, _: [node[:-1]]), chance
    )


def path_turned(_: Log, stated: Any, chance: random.Random) -> Case | None:
    return _with_path(stated, "path turned", lambda path: path[::-1], chance)


def path_longer(_: Log, stated: Any, chance: random.Random) -> Case | None:
    longer = [*stated.path, chance.randbytes(HASH_BYTES)]
    return Case(replace(stated, path=longer), "path longer", expected=False)


def root_bit(_: Log, stated: Any, chance: random.Random) -> Case | None:
    if isinstance(stated, Consistency) and not stated.old_size:
        return None  # every tree begins with the empty one
    return Case(replace(stated, root=_flipped(stated.root, chance)[0]), "root bit", expected=False)


def leaf_bit(_: Log, stated: Inclusion, chance: random.Random) -> Case | None:
    return Case(replace(stated, leaf=_flipped(stated.leaf, chance)[0]), "leaf bit", expected=False)


def other_index(_: Log, stated: Inclusion, chance: random.Random) -> Case | None:
    index = chance.randrange(stated.size)
    return Case(replace(stated, index=index), "other index", expected=False)


def phantom_index(_: Log, stated: Inclusion, chance: random.Random) -> Case | None:
    index = stated.size + chance.randrange(stated.size + 1)
    return Case(replace(stated, index=index), "phantom index", expected=False)


def inner_node_as_leaf(log: Log, stated: Inclusion, chance: random.Random) -> Case | None:
    """A path from a node upwards, for the two hashes below it as a leaf."""
    left = stated.index & ~1
    if left + 1 >= stated.size:
        return None
    row = log.leaves[left] + log.leaves[left + 1]
    places = [(stated.index, stated.size), (stated.index >> 1, (stated.size + 1) >> 1)]
    index, size = chance.choice(places)
    claim = Inclusion(leaf_hash(row), index, size, stated.path[1:], stated.root)
    return Case(claim, "inner node as leaf", expected=False)


def duplicated_tail(log: Log, stated: Inclusion, chance: random.Random) -> Case | None:
    """The last leaves once more, where the log goes on otherwise."""
    repeated = chance.randint(1, stated.size)
    size = stated.size + repeated
    if size > len(log.leaves):
        return None
    copied = stated.size - repeated + chance.randrange(repeated)
    path = inclusion_path(copied, stated.size, log.node)
    claim = Inclusion(log.leaves[copied], copied + repeated, size, path, log.root(size))
    return Case(claim, "duplicated tail", expected=False)


def size_not_bound(log: Log, stated: Any, chance: random.Random) -> Case | None:
    """Another size under the same root, which only a checkpoint tells."""
    size = max(1, stated.size + chance.choice([-2, -1, 1, 2, 7]))
    return Case(replace(stated, size=size), "size not bound", expected=None)


def other_size(log: Log, stated: Any, chance: random.Random) -> Case | None:
    """Another size and the root of that."""
    least = stated.index + 1 if isinstance(stated, Inclusion) else stated.old_size
    size = chance.randint(max(1, least), len(log.leaves))
    if size == stated.size or (not stated.path and isinstance(stated, Consistency)):
        return None
    return Case(replace(stated, size=size, root=log.root(size)), "path of another size", False)


def old_root_bit(_: Log, stated: Consistency, chance: random.Random) -> Case | None:
    claim = replace(stated, old_root=_flipped(stated.old_root, chance)[0])
    return Case(claim, "old root bit", expected=False)


def other_old_root(log: Log, stated: Consistency, chance: random.Random) -> Case | None:
    claim = replace(stated, old_root=log.root(chance.randint(0, stated.size)))
    return Case(claim, "old root of another size", expected=False)


def turned_round(_: Log, stated: Consistency, chance: random.Random) -> Case | None:
    """The older tree as the newer one."""
    if stated.old_size == stated.size:
        return None
    claim = Consistency(stated.size, stated.root, stated.old_size, stated.old_root, stated.path)
    return Case(claim, "turned round", expected=False)


_OF_PATHS: list[Mutation] = [
    path_bit, path_bit, path_drop, path_repeat, path_cut, path_turned, path_longer,
    root_bit, size_not_bound, other_size,
]  # fmt: skip
MUTATIONS: list[Mutation] = [
    *_OF_PATHS, leaf_bit, other_index, phantom_index, inner_node_as_leaf, duplicated_tail,
]  # fmt: skip
MUTATIONS_BETWEEN: list[Mutation] = [*_OF_PATHS, old_root_bit, other_old_root, turned_round]


def _with_path(
    stated: Any, name: str, change: Callable[[list[bytes]], list[bytes]], _: random.Random
) -> Case | None:
    if not stated.path:
        return None
    return Case(replace(stated, path=change(list(stated.path))), name, expected=False)


def _at(path: list[bytes], chance: random.Random, change: Callable[..., list[bytes]]) -> Any:
    place = chance.randrange(len(path))
    return [*path[:place], *change(path[place], chance), *path[place + 1 :]]


def _flipped(node: bytes, chance: random.Random) -> list[bytes]:
    number = int.from_bytes(node, "big") ^ (1 << chance.randrange(HASH_BYTES * 8))
    return [number.to_bytes(HASH_BYTES, "big")]


# --- verifiers ------------------------------------------------------------------------------------


def judged_by_us(case: Case) -> bool:
    stated = case.stated
    try:
        if isinstance(stated, Eta):
            verify_eta_path(stated.leaf, stated.place, stated.count, stated.path, stated.root)
        elif isinstance(stated, Inclusion):
            verify_inclusion(stated.leaf, stated.index, stated.size, stated.path, stated.root)
        else:
            verify_consistency(
                stated.old_size, stated.old_root, stated.size, stated.root, stated.path
            )
    except ProofInvalid:
        return False
    return True


_OF_FILE: dict[type, Callable[..., None]] = {
    Inclusion: proof_file.check_inclusion,
    Consistency: proof_file.check_consistency,
    Eta: proof_file.check_eta,
}


def judged_by_the_file(case: Case) -> bool:
    check: Callable[..., None] = _OF_FILE[type(case.stated)]
    try:
        check(**{name: getattr(case.stated, name) for name in case.stated.__slots__})
    except ProofFileInvalid:
        return False
    return True


def judged_by_the_script(cases: Sequence[Case]) -> list[bool]:
    """Let the file of JavaScript judge, in one process of Node."""
    return [proved is not None for proved in asked_of_the_script(map(_as_json, cases))]


def asked_of_the_script(questions: Iterator[dict[str, Any]]) -> list[Any]:
    """Return what the file of JavaScript says is proved, None where nothing is."""
    assert NODE is not None
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    command = [NODE, "--no-warnings", str(_HARNESS), str(SCRIPT)]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line)["proved"] for line in ran.stdout.split("\n")[:-1]]


def _as_json(case: Case) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": type(case.stated).__name__.lower()}
    for name in case.stated.__slots__:
        value = getattr(case.stated, name)
        if isinstance(value, bytes):
            document[name] = value.hex()
        else:
            document[name] = [node.hex() for node in value] if name == "path" else str(value)
    return document


def disagreements(log: Log, cases: Sequence[Case], *, with_script: bool) -> list[str]:
    """Return the cases that somebody judges otherwise than is expected, or than the others."""
    of_script = judged_by_the_script(cases) if with_script else [None] * len(cases)
    differing = []
    for case, script in zip(cases, of_script, strict=True):
        ours = judged_by_us(case)
        judged = {
            "ours": ours,
            "file": judged_by_the_file(case),
            "script": script,
            "pymerkle": log.judged_by_pymerkle(case),
        }
        expected = ours if case.expected is None else case.expected
        if any(verdict not in (None, expected) for verdict in judged.values()):
            differing.append(f"{case.mutation}, expected {case.expected}, {judged}: {case.stated}")
    return differing


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Look at as many honest and as many mutated proofs; say what came of it."""
    parser = argparse.ArgumentParser(description="Random proofs before every verifier")
    parser.add_argument("--cases", type=int, default=100_000, help="of each: honest, mutated")
    parser.add_argument("--rows", type=int, default=1 << 16, help="leaves of the largest tree")
    parser.add_argument("--seed", type=int, default=6962)
    options = parser.parse_args()
    log, chance = Log(options.rows), random.Random(options.seed)
    began_s, left, n_differing = time.monotonic(), options.cases, 0
    counts: Counter[str] = Counter()
    while left:
        count = min(left, _CASES_AT_ONCE)
        left -= count
        cases = [*honest_cases(log, count, chance), *mutated_cases(log, count, chance)]
        counts.update(case.mutation for case in cases)
        for line in disagreements(log, cases, with_script=NODE is not None):
            n_differing += 1
            _say(line)
    for mutation, count in sorted(counts.items()):
        _say(f"{count:>9,}  {mutation}")
    verifiers = "ours, the file, pymerkle" + (", the script" if NODE else " (there is no node)")
    _say(f"{sum(counts.values()):,} proofs, {n_differing} judged otherwise: {verifiers}")
    _say(f"trees of up to {options.rows:,} rows, {time.monotonic() - began_s:.0f} s")
    return 1 if n_differing else 0


if __name__ == "__main__":
    sys.exit(main())
