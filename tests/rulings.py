"""Read the tables of rulings: what a folder decided where the specification has a gap.

`<folder>/rulings.md` holds one table `rule | ruling | test`. A test is named as pytest names it,
`tests/queues/test_claims.py::test_name` in backticks; a row may name several.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("actors", "queues", "kernel", "workers", "tests", "deploy")

_TEST = re.compile(r"`(tests/[\w/]+\.py::\w+)`")


@dataclass(frozen=True)
class Ruling:
    """One row of a table, and the tests that it names."""

    folder: str
    rule: str
    ruling: str
    tests: tuple[str, ...]


def rulings() -> list[Ruling]:
    """Return the rows of every folder's table, in their order."""
    return [ruling for folder in FOLDERS for ruling in _of_folder(folder)]


def is_test(node_id: str) -> bool:
    """Say whether the file of a test defines it."""
    path, _, name = node_id.partition("::")
    return name in _functions(ROOT / path)


def _of_folder(folder: str) -> list[Ruling]:
    table = ROOT / folder / "rulings.md"
    if not table.is_file():
        return []
    lines = [line for line in table.read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return [Ruling(folder, row[0], row[1], tuple(_TEST.findall(row[-1]))) for row in rows]


@cache
def _functions(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text()))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in nodes if isinstance(node, kinds))
