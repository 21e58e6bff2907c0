"""Mutation testing of the kernel's rules: `make mutants ARGS="--only kernel/checks --sample 200"`.

A mutant is a module with one thing changed in its syntax tree. The tests that concern it run in a
process forked for it, which imports the changed tree instead of the file (decision tests/0022).
"""

import argparse
import ast
import importlib.util
import os
import random
import re
import resource
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

# ruff: noqa: T201 - a command prints

ROOT = Path(__file__).parent.parent
JOBS, CPU_LIMIT_S = 2, 120  # mutants at a time; one that takes longer is noticed by that
TESTS, ACCEPTED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).values()

_PAIRS = "Eq NotEq,Lt LtE,Gt GtE,Is IsNot,In NotIn,And Or,Add Sub,Mult Add,BitOr BitAnd"
_ONE_WAY = [(getattr(ast, a), getattr(ast, b)) for a, b in (p.split() for p in _PAIRS.split(","))]
_TURNED: dict[type, type] = {b: a for a, b in _ONE_WAY} | dict(_ONE_WAY)
_UNREAD = {"annotation", "returns", "decorator_list", "bases"}


def changes(node: ast.AST) -> Iterator[tuple]:
    """Yield who holds what can be changed, where, and what stands there then; in a fixed order."""
    typed = isinstance(node, ast.Subscript) and re.match("[A-Z]+[a-z]", ast.unparse(node.value))
    for name, value in ast.iter_fields(node):
        for key, child in enumerate(value) if isinstance(value, list) else [(name, value)]:
            is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            skipped = name in _UNREAD or (typed and name == "slice") or is_docstring
            if isinstance(child, ast.AST) and not (skipped or isinstance(child, ast.JoinedStr)):
                holder = value if isinstance(value, list) else node.__dict__
                yield from ((holder, key, other) for other in _instead_of(child))
                yield from changes(child)


def _instead_of(node: ast.AST) -> Iterator[ast.AST]:
    def with_(**fields: object) -> ast.AST:
        return type(node)(**(node.__dict__ | fields))

    match node:
        case ast.Constant(value=int(value)):
            yield ast.Constant(not value if isinstance(value, bool) else value + 1)
        case ast.Constant(value=str(value)) if re.fullmatch(r"[\w:.|/-]+", value):
            yield ast.Constant(value + "~")
        case ast.Compare(ops=[operator, *others]):
            yield with_(ops=[_TURNED[type(operator)](), *others])
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if type(operator) in _TURNED:
            yield with_(op=_TURNED[type(operator)]())
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare):
            yield with_(test=ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[first, *others]):
            yield with_(ifs=[ast.UnaryOp(ast.Not(), first), *others])
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.AugAssign() | ast.Expr():
            yield ast.Pass()


def mutant_of(path: str, number: int) -> tuple[str, ast.Module]:
    """Return a mutant's name, which holds its line's text and not its number, and its tree."""
    tree = ast.parse(source := (ROOT / path).read_text())
    holder, key, other = [*changes(tree)][number]
    before, holder[key] = holder[key], other
    line = source.splitlines()[getattr(before, "iter", before).lineno - 1]
    texts = " -> ".join(" ".join(ast.unparse(node).split())[:60] for node in (before, other))
    return f"{path} | {line.strip()} | {texts}", ast.fix_missing_locations(tree)


def _prefix(path: str) -> str:
    return next(prefix for prefix in TESTS if path.startswith(prefix))


def forked(path: str, tree: ast.Module | None) -> int:
    """Start the tests of a module with its tree in place of its file; return the process."""
    if pid := os.fork():
        return pid
    folder, *names = re.split("[/ ]", TESTS[_prefix(path)])
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    class Finder(SourceFileLoader):
        def get_code(self, fullname):
            return super().get_code(fullname) if tree is None else compile(tree, self.path, "exec")

        def find_spec(self, fullname, *_):
            if path.removesuffix(".py").removesuffix("/__init__") != fullname.replace(".", "/"):
                return None
            self.name = fullname
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    sys.meta_path.insert(0, Finder("", str(ROOT / path)))
    os._exit(pytest.main(["-x", *(f"tests/{folder}/test_{name}.py" for name in names)]))


def outcomes(mutants: list[tuple[str, int]]) -> Iterator[tuple[str, str]]:
    """Yield of each mutant its name and what became of it."""
    running: dict[int, str] = {}
    while mutants or running:
        if mutants and len(running) < JOBS:
            path, number = mutants.pop()
            name, tree = mutant_of(path, number)
            running[forked(path, tree)] = name
        else:
            pid, status = os.wait()
            name = running.pop(pid)
            yield name, "killed" if status else "accepted" if name in ACCEPTED else "survived"


def main() -> None:
    """Judge a sample and print what became of it; ends with 1 where an unlisted one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="kernel/", help="modules whose path begins so")
    parser.add_argument("--sample", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    files = [str(file.relative_to(ROOT)) for file in sorted((ROOT / "kernel").rglob("*.py"))]
    paths = [file for file in files if file.startswith(options.only) and file.startswith((*TESTS,))]
    for path in {_prefix(path): path for path in paths}.values():
        if os.waitpid(forked(path, None), 0)[1]:
            sys.exit(f"the tests of {path} fail without a change")
    sizes = {path: len([*changes(ast.parse((ROOT / path).read_text()))]) for path in paths}
    every = [(path, number) for path, size in sizes.items() for number in range(size)]
    sample = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    counts: Counter[str] = Counter()
    for name, outcome in outcomes(sample):
        counts[outcome] += 1
        print(f"{outcome:8} | {name}", flush=True)
    print("| Modules | Seed | Mutants | Of | Killed | Accepted | Survived | Killed % |")
    numbers = map(counts.__getitem__, ("killed", "accepted", "survived"))
    row = [options.only, options.seed, len(sample), len(every), *numbers]
    row.append(round(100 * counts["killed"] / max(1, len(sample)), 1))
    print("|---" * len(row) + "|\n|", " | ".join(map(str, row)), "|")
    sys.exit(int(counts["survived"] > 0))


if __name__ == "__main__":
    main()
