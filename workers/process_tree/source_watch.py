"""Watches a folder of Python files by looking at them once in a while; needs no library."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FILES_MAX: Final = 4_000
"""Files that are looked at; what lies behind them is not watched."""

_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "rotulus-data"})

Stamp = tuple[int, int]
"""When a file was changed last, and its size."""


class SourceWatch:
    """The Python files below a folder as they were at the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = self._stamps()

    def changed_files(self) -> list[Path]:
        """Return the files that were written, added or taken away since the last look."""
        before, self._known = self._known, self._stamps()
        names = before.keys() | self._known.keys()
        return sorted(name for name in names if before.get(name) != self._known.get(name))

    def _stamps(self) -> dict[Path, Stamp]:
        stamps: dict[Path, Stamp] = {}
        for path in _python_files(self._folder):
            try:
                facts = path.stat()
            except OSError:  # it was taken away meanwhile
                continue
            stamps[path] = facts.st_mtime_ns, facts.st_size
            if len(stamps) >= FILES_MAX:
                break
        return stamps


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        has_environment = "pyvenv.cfg" in names
        if has_environment:
            folders.clear()
            continue
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and not name.startswith(".")
        )
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def syntax_problem(path: Path) -> str | None:
    """Return where and why a file is no Python, None where it is, or is gone."""
    try:
        compile(path.read_bytes(), path.name, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{path.name}:{error.lineno}: {error.msg}"
    except ValueError as error:  # null bytes
        return f"{path.name}: {error}"
    except OSError:
        return None
    return None
