"""Each exception from the rules about security (ruff's S, which are bandit's) says why."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("actors", "deploy", "kernel", "queues", "workers")

_EXCEPTION = re.compile(r"# (?:ruff: )?noqa: [A-Z0-9, ]*\bS\d{3}\b(.*)")
_REASON = re.compile(r"(?:, [A-Z]+\d+)* +(?:-|#) \w.+")


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_exception_from_a_rule_about_security_says_why(folder):
    for path in (ROOT / folder).rglob("*.py"):
        lines = path.read_text("utf-8").splitlines()
        for line, below in zip(lines, [*lines[1:], ""], strict=True):
            exception = _EXCEPTION.search(line)
            if exception is None:
                continue
            # One of a whole file is explained in the line below.
            of_file = line.startswith("# ruff:") and below.startswith("# ")
            assert of_file or _REASON.fullmatch(exception[1]), f"{path}: {line}"
