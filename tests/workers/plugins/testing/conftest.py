"""The files that the READMEs show."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.fixture
def readme_files() -> dict[str, str]:
    """Each Python file of the README, by its name."""
    blocks = re.findall(
        r"```python\n(# (\w+\.py)\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    return {name: text for text, name in blocks}


@pytest.fixture
def readmes_test() -> str:
    """The test of a job that the README of plug-ins shows."""
    text = (ROOT / "workers" / "plugins" / "README.md").read_text()
    [program] = re.findall(r"```python\n(from jobs import.*?)```", text, re.DOTALL)
    return str(program)
