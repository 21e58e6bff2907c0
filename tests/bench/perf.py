"""Compares this tree with another commit, bench by bench and by turns.

    python -m tests.bench.perf [--against COMMIT] [--pairs N] [--only NAME ...]

Each bench runs in this tree and in a worktree of the other commit, with the interpreter and the
packages of this one, and prints its own figures as JSON lines. A figure that both trees know by the
same name is printed with the ratio of this tree to the other: the median over the pairs, and the
least and the greatest of them. Beside a bench's own figures stand the CPU time and the time on the
clock of the whole bench, its processes included. A spread that is wider than the change says
nothing; a ratio of a rate above 1 and one of a time below 1 are better.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from tests.bench.report import machine

ROOT = Path(__file__).parents[2]
PINNED: Final = "9ab039c2"
"""The commit that a change is held against where no other is named; moved on with a release."""

BENCHES: Mapping[str, tuple[str, ...]] = {
    "kernel": (),
    "queues": ("--items", "10000", "--rounds", "1", "--systems"),
    "http": (),
    "replay": (),
    "proofs": (),
    "belief": (),
}


class Figure(NamedTuple):
    """A figure of a bench: its value, and what it counts."""

    value: float
    unit: str


Figures = Mapping[str, Figure]


@contextmanager
def checkout_of(commit: str) -> Iterator[Path]:
    """Check a commit out beside this tree for as long as the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tree")
        _git("worktree", "add", "--quiet", "--detach", str(path), commit)
        try:
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=ROOT, check=True)  # noqa: S607 - git as the user has it


def figures_of(tree: Path, bench: str) -> Figures:
    """Run a bench of a tree and return its figures by name; raises when the bench fails."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", f"tests.bench.bench_{bench}", "--json", *BENCHES[bench]]
    output = subprocess.run(command, cwd=tree, check=True, capture_output=True).stdout
    wall_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rows = [orjson.loads(line) for line in output.splitlines()]
    return {row["figure"]: Figure(row["value"], row["unit"]) for row in rows if "figure" in row} | {
        f"{bench}: CPU of the whole bench": Figure(cpu_s, "s"),
        f"{bench}: the whole bench on the clock": Figure(wall_s, "s"),
    }


def compare(bench: str, other: Path, pairs: int) -> None:
    """Print the ratios of a bench's figures; whose turn is first changes from pair to pair."""
    runs: dict[Path, list[Figures]] = {ROOT: [], other: []}
    for pair in range(pairs):
        for tree in (other, ROOT) if pair % 2 == 0 else (ROOT, other):
            runs[tree].append(figures_of(tree, bench))
    for name, (_, unit) in runs[ROOT][0].items():
        ratios = [
            new[name].value / old[name].value
            for new, old in zip(runs[ROOT], runs[other], strict=True)
            if name in new and name in old and old[name].value
        ]
        if ratios:
            spread = f"{min(ratios):6.2f} to {max(ratios):.2f}"
            sys.stdout.write(f"{name:<62}{unit:<8}{statistics.median(ratios):6.2f}  {spread}\n")
    sys.stdout.flush()


def main() -> None:
    """Compare the benches that the command names, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", default=PINNED, metavar="COMMIT")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[*BENCHES], choices=[*BENCHES])
    options = parser.parse_args()
    machine(against=options.against, pairs=options.pairs)
    with checkout_of(options.against) as other:
        for bench in options.only:
            compare(bench, other, options.pairs)


if __name__ == "__main__":
    main()
