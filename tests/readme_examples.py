"""The shell examples of the README, and what becomes of each in the tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
COMMAND = ".venv/bin/rotulus"
INTERPRETERS_OWN = Path(sys.executable).with_name("rotulus")
EXAMPLE_S = 90.0

_FENCED = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

ANSWERS = {
    ".venv/bin/rotulus status": "Nothing needs attention.",
    ".venv/bin/rotulus verify": "verifies: true",
}
"""By the examples that are run on a tree whose main job is done: what is in the answer."""

NOT_RUN = {
    "make demo": "sets everything up; tests of whole trees run `rotulus demo`, which it runs",
    "ROTULUS_PORT=8440 rotulus up --app jobs:app": "runs until it is stopped; a test serves it",
    "make test": "runs the tests, this one among them",
}
"""By the examples that are not run: why."""


def examples() -> list[str]:
    """Return each line of the README's fenced shell examples, without its comment."""
    blocks = _FENCED.findall(README.read_text())
    lines = (line.partition(" #")[0].strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def answer(example: str, folder: Path) -> str:
    """Run an example in a folder that has a `rotulus-data`, as its reader does; return its answer.

    Raises:
        CalledProcessError: it ended with another code than 0.
    """
    program, _, arguments = example.partition(" ")
    assert program == COMMAND, f"{example}: only {COMMAND} is run"
    done = subprocess.run(
        [str(INTERPRETERS_OWN), *arguments.split()],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("ROTULUS_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=EXAMPLE_S,
    )
    return done.stdout
