"""`make mutants` says the truth of a module whose mutants are known."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULE = """
LEAST = 1
def left(number):
    while number >= LEAST:
        number -= 2
    return number * LEAST
"""
TESTS = """
from toy.rule import left
def test_left(): assert left(2) == 0
"""
MAPPING = """
[tests]
"toy/" = "toy/rule"
[accepted]
"toy/rule.py | LEAST = 1 | 1 -> 2" = "nothing is asked of a number that is odd"
"""
OUTCOMES = """
accepted | toy/rule.py | LEAST = 1 | 1 -> 2
hung     | toy/rule.py | number -= 2 | number -= 2 -> pass
killed   | toy/rule.py | number -= 2 | 2 -> 3
killed   | toy/rule.py | return number * LEAST | number * LEAST -> number + LEAST
killed   | toy/rule.py | return number * LEAST | return number * LEAST -> return None
survived | toy/rule.py | while number >= LEAST: | number >= LEAST -> number > LEAST
""".strip().splitlines()


def run_mutants(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    for name, text in {
        "toy/rule.py": MODULE,
        "tests/toy/test_rule.py": tests,
        "tests/mutants.toml": MAPPING,
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "tests.mutants", "--only", "toy/"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_each_mutant_is_killed_hangs_survives_or_is_accepted(tmp_path: Path) -> None:
    run = run_mutants(tmp_path, TESTS)
    *lines, _, _, row = run.stdout.splitlines()
    assert sorted(lines) == OUTCOMES, run.stderr
    assert row == "| toy/ | 1 | 6 | 6 | 3 | 1 | 1 | 1 | 66.7 |"
    assert run.returncode == 1


@pytest.mark.slow
def test_no_mutant_is_judged_by_tests_that_fail_without_a_change(tmp_path: Path) -> None:
    run = run_mutants(tmp_path, TESTS.replace("0", "1"))
    assert run.stdout == ""
    assert run.stderr.splitlines()[-1] == "the tests of toy/ fail without a change"
    assert run.returncode == 1
