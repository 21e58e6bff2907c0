"""Installs plug-ins outside the tree, as their users do: a wheel into a folder of its own."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

EXAMPLE = Path(__file__).parent / "plugin_example"
README = Path(__file__).parents[1] / "workers" / "plugins" / "README.md"


def programs() -> list[tuple[str, str, str]]:
    """Return the programs of the plug-ins' README: module, program, entry points."""
    text = README.read_text()
    blocks = re.findall(r"```python\n(.*?)```\n\n```toml\n(.*?)```", text, re.DOTALL)
    modules = [re.findall(r'= "(\w+):', entry)[0] for _, entry in blocks]
    return [(module, *block) for module, block in zip(modules, blocks, strict=True)]


def install_programs(folder: Path) -> list[Path]:
    """Install the programs of the README; returns a folder for each."""
    folders = []
    for module, program, entry in programs():
        [(group, name, place)] = re.findall(r'entry-points."(.+)"\]\n(\S+) = "(.+)"', entry)
        entries = {group: f"{name} = {place}"}
        folders.append(install_program(folder / module, module, program, entries))
    return folders


def install_example(folder: Path) -> Path:
    """Build the wheel of the example and install it into a folder, which is returned."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=EXAMPLE, check=True, capture_output=True)
    [wheel] = folder.glob("mail_room-*.whl")
    installed = folder / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    return installed


def install_program(folder: Path, module: str, program: str, entries: dict[str, str]) -> Path:
    """Install one module with entry points, by their group and name; returns the folder."""
    installed = folder / "installed"
    info = installed / f"{module}-1.0.0.dist-info"
    info.mkdir(parents=True)
    (installed / f"{module}.py").write_text(program)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0.0\n")
    lines = (f"[{group}]\n{entry}\n" for group, entry in entries.items())
    (info / "entry_points.txt").write_text("\n".join(lines))
    return installed
