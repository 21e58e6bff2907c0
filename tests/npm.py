"""Packages of npm that a lock names, installed once for each lock, beside those of Python."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

BIN: Final = Path(sys.executable).parent
NPM: Final = shutil.which("npm")

needs_npm = pytest.mark.skipif(
    NPM is None and not os.environ.get("NPM_REQUIRED"), reason="no npm is installed"
)


def npm_packages(locked: Path) -> Path:
    """Return the folder of the packages of a folder's lock, installed where they are not yet."""
    assert NPM is not None, "NPM_REQUIRED is set, and no npm is installed"
    lock = (locked / "package-lock.json").read_bytes()
    folder = BIN.parent / "npm" / hashlib.sha256(lock).hexdigest()[:16]
    packages = folder / "node_modules"
    if not (folder / "installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(locked / name, folder)
        command = (NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        if done.returncode:
            assert not os.environ.get("NPM_REQUIRED"), done.stderr.decode()
            pytest.skip("npm's registry cannot be reached")
        (folder / "installed").touch()
    return packages
