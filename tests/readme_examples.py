"""The shell examples of the README, and what becomes of each in the tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
COMMAND = ".venv/bin/rotulus"
INTERPRETERS_OWN = Path(sys.executable).with_name("rotulus")
EXAMPLE_S = 240.0

_FENCED = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

ANSWERS = {
    ".venv/bin/rotulus status": "wait for a person's review",
    ".venv/bin/rotulus verify": "verifies: true",
}
"""By the examples that are run on a tree whose main job is done: what is in the answer."""

NEED_SOMEBODY = frozenset({".venv/bin/rotulus status"})
"""The examples that end with 1, because the main job leaves something to a person."""

NOT_RUN = {
    "make demo": "sets everything up; tests of whole trees run `rotulus demo`, which it runs",
    "rotulus dev jobs.py": "runs until it is stopped; `tests/system/test_plugins.py` runs it",
    "python ask.py": "asks what the line before serves, in the same test",
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
        CalledProcessError: it ended with another code than it has to.
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
        check=False,
        timeout=EXAMPLE_S,
    )
    if done.returncode != (example in NEED_SOMEBODY):
        raise subprocess.CalledProcessError(done.returncode, example, done.stdout, done.stderr)
    return done.stdout
