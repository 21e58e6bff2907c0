"""Puts the four packages below `rotulus` in the wheel, and rewrites what they import.

1. An import is rewritten where it stands in its line, so that tracebacks name the same lines.
2. The client has a wheel of its own: imports of `workers.client` become imports of
   `rotulus_client`.
3. `import kernel.values` binds the name `kernel`, and goes on doing so by a further import in its
   line. What cannot be rewritten in its own statement ends the build.
4. The pages that `rotulus docs` opens lie below `rotulus` as they lie in the repository.
5. An editable install is left as it is: `dev-mode-dirs` in pyproject.toml leads to this folder.
"""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME: Final = "rotulus"
PACKAGES: Final = ("actors", "kernel", "queues", "workers")
CLIENT: Final = "workers.client"
OWN: Final = {"workers.client.typed": f"{NAME}.workers.client.typed", CLIENT: "rotulus_client"}
"""Modules whose name in the wheel is not their name behind that of the wheel."""

PAGES: Final = "deploy"
PICTURES: Final = "deploy/pictures/*"

LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "decisions", "rulings.md")


def name_in_wheel(module: str) -> str:
    """Return what a module is called where the wheels are installed."""
    for ours, theirs in OWN.items():
        if module == ours or module.startswith(f"{ours}."):
            return theirs + module[len(ours) :]
    return f"{NAME}.{module}" if module.split(".", 1)[0] in PACKAGES else module


def text_in_wheel(text: str) -> str:
    """Return a module's text with imports as they are where the wheels are installed.

    Raises:
        ValueError: an import binds a name that the rest of the text would have to know otherwise.
    """
    lines = text.encode().splitlines(keepends=True)
    for line, column, module, written in sorted(_imports(ast.parse(text)), reverse=True):
        start, end = lines[line - 1][:column], lines[line - 1][column:]
        if not end.startswith(module.encode()):
            raise ValueError(f"line {line} does not import {module} where it is looked for")
        lines[line - 1] = start + written.encode() + end[len(module) :]
    return b"".join(lines).decode()


def _imports(tree: ast.Module) -> Iterator[tuple[int, int, str, str]]:
    """Yield line, column in bytes, name and new text of each module that is renamed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if name_in_wheel(alias.name) != alias.name:
                    yield alias.lineno, alias.col_offset, alias.name, _import_in_wheel(node, alias)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            theirs = name_in_wheel(node.module)
            if theirs == node.module:
                continue
            for alias in node.names:
                if name_in_wheel(f"{node.module}.{alias.name}") != f"{theirs}.{alias.name}":
                    raise ValueError(f"line {node.lineno}: {alias.name} is from another wheel")
            yield node.lineno, node.col_offset + len("from "), node.module, theirs


def _import_in_wheel(node: ast.Import, alias: ast.alias) -> str:
    theirs = name_in_wheel(alias.name)
    if alias.asname is not None:
        return theirs
    if len(node.names) > 1 or theirs != f"{NAME}.{alias.name}":
        raise ValueError(f"line {node.lineno}: import {alias.name} without `as`")
    return f"{theirs}; from {NAME} import {alias.name.split('.', 1)[0]}"


def write_wheels_files(root: Path, folder: Path) -> None:
    """Write the files of the wheel into a folder that is not there yet."""
    shutil.copytree(root / "deploy" / "package" / NAME, folder, ignore=LEFT_OUT)
    for package in PACKAGES:
        shutil.copytree(root / package, folder / package, ignore=LEFT_OUT)
    client = folder.joinpath(*CLIENT.split("."))
    for path in client.iterdir():
        if path.is_file() and path.suffix != ".md":
            path.unlink()
    for path in (*root.glob("*.md"), *(root / PAGES).rglob("*.md"), *root.glob(PICTURES)):
        copy = folder / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    for path in folder.rglob("*.py"):
        try:
            path.write_text(text_in_wheel(path.read_text("utf-8")), "utf-8")
        except ValueError as error:
            raise ValueError(f"{path.relative_to(folder)}: {error}") from error


class RotulusWheel(BuildHookInterface[Any]):
    """The step of a build that gives hatchling the rewritten files."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files of a wheel that is no editable install."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name, NAME)
        write_wheels_files(Path(self.root), folder)
        build_data["force_include"][str(folder)] = NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the written files."""
        del build_data, artifact_path
        if version != "editable":
            self._folder.cleanup()
