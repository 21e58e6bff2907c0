"""Parses the modules of a folder once, for tests of what the sources say."""

import ast
import gc
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def modules_below(folder: str) -> Mapping[Path, ast.Module]:
    """Return the modules below a folder of the repository, but for generated ones."""
    paths = (ROOT / folder).rglob("*.py")
    return parsed(sorted(path for path in paths if "_pb2" not in path.name))


def parsed(paths: Iterable[Path]) -> Mapping[Path, ast.Module]:
    """Parse files without collecting garbage, which would look through every node again and again.

    The nodes stay out of later collections too.
    """
    gc.disable()
    try:
        return {path: ast.parse(path.read_text()) for path in paths}
    finally:
        gc.freeze()
        gc.enable()
