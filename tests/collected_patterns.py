"""Collects every regular expression of the product: those made on import, and those in functions.

Run as a program it imports every module and prints, as JSON, which patterns were compiled where.
"""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("kernel", "actors", "queues", "workers")
AT_ONE_PLACE = frozenset({"match", "fullmatch"})
_FUNCTIONS = frozenset(
    {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
)

USES_ELSEWHERE = {"_opening": frozenset({"match"})}
"""How patterns are used that a function makes and another module uses."""


@dataclass(frozen=True, slots=True)
class Site:
    """A call of the module `re` in the source."""

    file: str
    first_line: int
    last_line: int
    uses: frozenset[str]
    """Names of the methods that the pattern is used by, as far as its module tells; else empty."""

    constant: str | bytes | None
    """The pattern where it is written out in the call."""

    flags: int


@dataclass(frozen=True, slots=True)
class Collected:
    """A pattern that some site makes."""

    site: Site
    pattern: str | bytes
    flags: int

    @property
    def searches(self) -> bool:
        """Whether it may be tried at every place of a text."""
        return not self.site.uses or not self.site.uses <= AT_ONE_PLACE

    @property
    def whole(self) -> bool:
        """Whether a match has to reach the end of the text."""
        return self.site.uses == {"fullmatch"}


def sites() -> list[Site]:
    """Return every call of `re` in the product."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [site for path in paths for site in _sites_of(path)]


@cache
def collected() -> tuple[list[Collected], list[Site]]:
    """Return the patterns, and the sites whose patterns are made while the product runs."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.collected_patterns"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    made = json.loads(done.stdout)
    patterns, later = [], []
    for site in sites():
        here = {
            (pattern.encode("latin-1") if is_bytes else pattern, flags)
            for file, line, pattern, is_bytes, flags in made
            if file == site.file and site.first_line <= line <= site.last_line
        }
        if site.constant is not None:
            here.add((site.constant, site.flags))
        patterns += [Collected(site, pattern, flags) for pattern, flags in sorted(here, key=str)]
        if not here:
            later.append(site)
    return patterns, later


def _sites_of(path: Path) -> Iterator[Site]:
    source = path.read_text()
    if "re." not in source:
        return
    tree = ast.parse(source)
    uses_of = _Uses(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called = node.func
        is_re = isinstance(called.value, ast.Name) and called.value.id == "re"
        if not is_re or called.attr not in _FUNCTIONS:
            continue
        constant = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        yield Site(
            str(path.relative_to(ROOT)),
            node.lineno,
            node.end_lineno or node.lineno,
            uses_of(node) if called.attr == "compile" else frozenset({called.attr}),
            constant if isinstance(constant, str | bytes) else None,
            _flags_of(node),
        )


class _Uses:
    """Tells by which methods a compiled pattern is used in its module."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self._parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        self._methods: dict[str, set[str]] = {}
        handed_on: Counter[str] = Counter()
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                self._methods.setdefault(node.value.id, set()).add(node.attr)
                handed_on[node.value.id] -= 1
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                handed_on[node.id] += 1
        self._handed_on = {name for name, times in handed_on.items() if times > 0}

    def __call__(self, call: ast.Call) -> frozenset[str]:
        """Return the methods, none where the pattern may be used in any way."""
        parent = self._parents[call]
        if isinstance(parent, ast.Attribute):
            return frozenset({parent.attr})
        if isinstance(parent, ast.Return):
            function = self._parents[parent]
            return USES_ELSEWHERE.get(getattr(function, "name", ""), frozenset())
        target = parent.targets[0] if isinstance(parent, ast.Assign) else None
        target = parent.target if isinstance(parent, ast.AnnAssign) else target
        if not isinstance(target, ast.Name) or target.id in self._handed_on:
            return frozenset()
        is_seen_elsewhere = not target.id.startswith("_")
        return frozenset(() if is_seen_elsewhere else self._methods.get(target.id, ()))


def _flags_of(call: ast.Call) -> int:
    names = {
        node.attr
        for argument in (*call.args[1:], *(each.value for each in call.keywords))
        for node in ast.walk(argument)
        if isinstance(node, ast.Attribute)
    }
    return sum(int(flag) for name, flag in re.RegexFlag.__members__.items() if name in names)


def _print_patterns() -> None:
    compile_one = re._compile  # type: ignore[attr-defined]  # noqa: SLF001
    made: set[tuple[str, int, str, bool, int]] = set()

    def recorded(pattern: object, flags: int) -> object:
        frame = sys._getframe(1)  # noqa: SLF001
        while frame.f_code.co_filename == re.__file__ and frame.f_back is not None:
            frame = frame.f_back
        path = Path(frame.f_code.co_filename)
        if isinstance(pattern, str | bytes) and path.is_relative_to(ROOT):
            text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
            file = str(path.relative_to(ROOT))
            made.add((file, frame.f_lineno, text, isinstance(pattern, bytes), int(flags)))
        return compile_one(pattern, flags)

    re._compile = recorded  # type: ignore[attr-defined]  # noqa: SLF001
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[-1] != "__main__" and "migrations" not in parts:
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                importlib.import_module(name)
    print(json.dumps(sorted(made)))  # noqa: T201


if __name__ == "__main__":
    _print_patterns()
