"""Installs plug-ins outside the tree, as their users do: a wheel into a folder of its own."""

import re
import subprocess
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

EXAMPLE = Path(__file__).parent / "plugin_example"
ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "workers" / "client"
READMES = (CLIENT / "README.md", ROOT / "README.md")


def programs() -> list[tuple[str, str, str]]:
    """Return the plug-ins of the READMEs: module, program, entry points."""
    text = "\n".join(readme.read_text() for readme in READMES)
    program = r"```python\n((?:(?!```).)*)```\n\n```toml\n(.*?)```"
    blocks = re.findall(program, text, re.DOTALL)
    modules = [re.findall(r'= "(\w+):', entry)[0] for _, entry in blocks]
    return [(module, *block) for module, block in zip(modules, blocks, strict=True)]


def producers() -> list[str]:
    """Return the programs of the READMEs that ask for work and wait for it."""
    text = "\n".join(readme.read_text() for readme in READMES)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [program for program in blocks if "rotulus_client" in program]


def install_client(folder: Path) -> Path:
    """Make the client importable as its wheel names it; returns the folder to import from."""
    folder.mkdir()
    (folder / "rotulus_client").symlink_to(CLIENT)
    return folder


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


def named_plugin() -> list[str]:
    """Return the option that names pytest our plug-in, where a checkout is installed without it."""
    is_installed = "rotulus" in entry_points(group="pytest11").names
    return [] if is_installed else ["-p", "rotulus.pytest_plugin"]
