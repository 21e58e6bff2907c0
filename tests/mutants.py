"""Mutation testing of the kernel's rules.

    make mutants ARGS="--only kernel/transaction/checks --sample 200"

A mutant is a module with one thing changed in its syntax tree. The tests that concern it run until
the first failure, in a process forked for it, which imports the changed tree instead of the file.
What is not the checkout's own is imported once, before any fork (decision tests/0022).
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

ROOT = Path.cwd()
JOBS = 2  # mutants at a time
CPU_TIMES, CPU_LEAST_S = 3, 5  # the CPU time of the tests without a change, so often: then it hangs
BLOCKED_S = 900  # the wall time of one test that waits for something and uses no CPU time
MEMORY_BYTES = 4 << 30
PYTEST = ["-p", "no:schemathesis", f"--timeout={BLOCKED_S}", "-m", "not slow", "-k", "not postgres"]
TESTS, ACCEPTED = tomllib.loads((ROOT / "tests/mutants.toml").read_text()).values()

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


def _files(path: str) -> list[str]:
    folder, *names = re.split("[/ ]", TESTS[_prefix(path)])
    return [f"tests/{folder}/test_{name}.py" for name in names]


def import_the_libraries(paths: list[str]) -> None:
    """Collect the tests of modules once, and forget all that it imported from the checkout."""
    files = {file: None for path in paths for file in _files(path)}
    pytest.main(["--collect-only", *PYTEST, *files])
    own = {file.stem for file in ROOT.iterdir()}
    for name in [name for name in sys.modules if name.split(".")[0] in own]:
        del sys.modules[name]


def forked(path: str, tree: ast.Module | None, cpu_limit_s: int) -> int:
    """Start the tests of a module with its tree in place of its file; return the process."""
    if pid := os.fork():
        return pid
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit_s, cpu_limit_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    class Finder(SourceFileLoader):
        def get_code(self, fullname):
            return super().get_code(fullname) if tree is None else compile(tree, self.path, "exec")

        def find_spec(self, fullname, *_):
            if path.removesuffix(".py").removesuffix("/__init__") != fullname.replace(".", "/"):
                return None
            self.name = fullname
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    sys.meta_path.insert(0, Finder("", str(ROOT / path)))
    os._exit(pytest.main(["-x", *PYTEST, *_files(path)]))


def limits(paths: list[str]) -> Iterator[tuple[str, int]]:
    """Yield for the tests of each prefix the CPU time that a mutant may take, in seconds."""
    for prefix, path in {_prefix(path): path for path in paths}.items():
        _, status, used = os.wait4(forked(path, None, resource.RLIM_INFINITY), 0)
        if status:
            sys.exit(f"the tests of {prefix} fail without a change")
        yield prefix, CPU_LEAST_S + int(CPU_TIMES * (used.ru_utime + used.ru_stime))


def outcomes(mutants: list[tuple[str, int]], limit_s: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield of each mutant its name and what became of it."""
    running: dict[int, str] = {}
    while mutants or running:
        if mutants and len(running) < JOBS:
            path, number = mutants.pop()
            name, tree = mutant_of(path, number)
            running[forked(path, tree, limit_s[_prefix(path)])] = name
        else:
            pid, status = os.wait()
            name = running.pop(pid)
            untouched = "accepted" if name in ACCEPTED else "survived"
            yield name, "hung" if os.WIFSIGNALED(status) else "killed" if status else untouched


def main() -> None:
    """Judge a sample and print what became of it; ends with 1 where an unlisted one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="kernel/", help="modules whose path begins so")
    parser.add_argument("--sample", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    folder = ROOT / Path(options.only).parts[0]
    files = [str(file.relative_to(ROOT)) for file in sorted(folder.rglob("*.py"))]
    paths = [file for file in files if file.startswith(options.only) and file.startswith((*TESTS,))]
    printed = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what pytest prints
    sizes = {path: len([*changes(ast.parse((ROOT / path).read_text()))]) for path in paths}
    every = [(path, number) for path, size in sizes.items() for number in range(size)]
    sample = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    paths = [path for path, _ in sample]
    import_the_libraries(paths)
    counts: Counter[str] = Counter()
    for name, outcome in outcomes([*sample], dict(limits(paths))):
        counts[outcome] += 1
        print(f"{outcome:8} | {name}", file=printed)
    head = "| Modules | Seed | Of | Mutants | Killed | Hung | Accepted | Survived | Killed % |"
    print(head, file=printed)
    numbers = [counts[outcome] for outcome in ("killed", "hung", "accepted", "survived")]
    row = [options.only, options.seed, len(every), len(sample), *numbers]
    row.append(round(100 * (counts["killed"] + counts["hung"]) / max(1, len(sample)), 1))
    print("|---" * len(row) + "|\n|", " | ".join(map(str, row)), "|", file=printed)
    sys.exit(int(counts["survived"] > 0))


if __name__ == "__main__":
    main()
