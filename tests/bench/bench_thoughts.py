"""Thoughts: η and ζ of a million of them against bare SHA-256 over as many bytes.

    python -m tests.bench.bench_thoughts [--json]

*Bare* hashes the same inputs in a loop and keeps nothing: 64 bytes for each node of the tree, the
bytes of each record for the chain. Rates are of CPU time, the median of interleaved rounds.
"""

import time
from collections.abc import Callable
from hashlib import sha256
from statistics import median

from kernel.proof.eta_tree import append_eta_leaf, eta_root
from kernel.proof.merkle_tree import Frontier
from kernel.proof.thought_chain import ThoughtRecord, chain_head, content_hash
from kernel.values.canonical import GENESIS_HASH
from tests.bench.report import figure, machine

THOUGHTS = 1_000_000
APPENDED = 100_000
ROUNDS = 5


def records(count: int) -> list[bytes]:
    """A chain of records as long as usual ones."""
    made, head = [], GENESIS_HASH
    for sequence in range(1, count + 1):
        record = ThoughtRecord(
            "0193514a-9a51-7cc3-8f0e-6a9c2b1d4e5f",
            sequence,
            f"0193514a-9a51-7cc3-8f0e-{sequence:012x}",
            "analysis",
            head,
            "2026-11-21T20:00:00.000000Z",
            head,
        )
        made.append(record.to_bytes())
        head = content_hash(made[-1])
    return made


def bare(inputs: list[bytes]) -> None:
    """Hash and keep nothing."""
    for content in inputs:
        sha256(content).digest()


def append_all(leaves: list[bytes]) -> None:
    """Grow a tree as a session does, leaf after leaf with its nodes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier, _ = append_eta_leaf(frontier, leaf)


def cpu_s(work: Callable[[], object]) -> float:
    """The CPU time of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def compare(name: str, count: int, ours: Callable[[], object], peer: Callable[[], object]) -> None:
    """Print our rate and its ratio to that of the peer."""
    rounds = [(cpu_s(peer), cpu_s(ours)) for _ in range(ROUNDS)]
    own = count / median(seconds for _, seconds in rounds)
    figure(name, own, "/s", ratio=median(bare / own for bare, own in rounds), of="bare SHA-256")


def main() -> None:
    """Print the rates."""
    machine(thoughts=THOUGHTS)
    chain = records(THOUGHTS)
    leaves = [sha256(record).digest() for record in chain]
    pairs = [leaf + leaf for leaf in leaves]
    compare("root of eta", THOUGHTS, lambda: eta_root(leaves), lambda: bare(pairs))
    compare("walk along zeta", THOUGHTS, lambda: chain_head(chain), lambda: bare(chain))
    some = leaves[:APPENDED]
    compare(
        "eta, leaf by leaf with nodes",
        APPENDED,
        lambda: append_all(some),
        lambda: bare(pairs[:APPENDED]),
    )


if __name__ == "__main__":
    main()
