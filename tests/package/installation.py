"""Both wheels in an environment without the checkout, and a project with packages of our names."""

import shutil
import subprocess
import sysconfig
import tomllib
import venv
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import release
from build_hook import PACKAGES, text_in_wheel
from tests.process_environment import process_environment

ROOT = release.ROOT
_AT = datetime(2026, 11, 1, tzinfo=UTC)
ENDS_WITHIN_S = 240
LEFT_OUT = (
    *("__pycache__", "package", "bench", "chaos", "fuzz", "generated_clients"),
    *("ledgers", "properties", "ratchet"),
)
"""Folders of tests that no test which passes there needs."""


@dataclass(frozen=True, slots=True)
class Installation:
    """An environment with both wheels, and the folder of a project that uses it."""

    bin: Path
    site: Path
    project: Path

    def run(self, program: str, *arguments: str, **settings: str) -> str:
        """Run a program of the environment in the project's folder; return what it printed."""
        ended = subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=self.project,
            env=self.environment(**settings),
            capture_output=True,
            text=True,
            timeout=ENDS_WITHIN_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def environment(self, **settings: str) -> dict[str, str]:
        """Return the variables of this process, without those by which it finds its modules."""
        inherited = process_environment()
        return {k: v for k, v in inherited.items() if not k.startswith("PYTHON")} | settings


def install(folder: Path, root: Path = ROOT) -> Installation:
    """Build both wheels of a tree and install them, with what they need from this environment."""
    for project in release.PROJECTS.values():
        release.build_wheel(root / project.relative_to(ROOT), folder, _AT)
    venv.create(folder / "env", symlinks=True, with_pip=True)
    [site] = (folder / "env").glob("lib/python*/site-packages")
    # A folder that a .pth names is searched, and its own .pth, which leads to the checkout, is not.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    project = folder / "project"
    for package in PACKAGES:
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").write_text(f'OWNER = "the project, {package}"\n')
    installation = Installation(folder / "env" / "bin", site, project)
    offline = (
        "-q",
        "--no-index",
        "--no-deps",
        "--no-cache-dir",
        "--no-compile",
        "--disable-pip-version-check",
    )
    wheels = sorted(map(str, folder.glob("*.whl")))
    installation.run("python", "-m", "pip", "install", *offline, *wheels)
    return installation


def copy_tests(installation: Installation) -> None:
    """Copy the tests into the project, with imports as they are where the wheels are installed."""
    copy = installation.project / "tests"
    shutil.copytree(ROOT / "tests", copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for path in copy.rglob("*.py"):
        path.write_text(text_in_wheel(path.read_text()))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    lines = (f"{name} = {_ini(value)}" for name, value in settings.items())
    (installation.project / "pytest.ini").write_text("\n".join(("[pytest]", *lines)) + "\n")


def _ini(value: object) -> str:
    return "\n  ".join(("", *value)) if isinstance(value, list) else str(value)
