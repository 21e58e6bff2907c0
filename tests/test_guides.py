"""The guides: tutorials that a test types, and references that are made from the code."""

import os
import re
import shlex
import sys
from pathlib import Path

import click
import pytest

from tests.process_environment import process_environment
from tests.reference_docs import FOLDER, PAGES
from tests.tutorials import TUTORIALS, Typed, follow, steps
from workers.cli.main import main

ROOT = Path(__file__).parents[1]
_CALL = re.compile(r"(?:^|[\s(])rotulus ([^|><&;)\n]*)")


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_is_what_the_code_says(page):
    assert (FOLDER / page).read_text() == PAGES[page](), "make reference"


def test_each_reader_has_a_tutorial_one_click_from_the_readme():
    readme = (ROOT / "README.md").read_text()
    for page in ("README", "parts", *TUTORIALS):
        assert f"](deploy/guides/{page}.md)" in readme, page


@pytest.mark.parametrize("tutorial", TUTORIALS)
def test_a_tutorial_names_commands_and_options_that_there_are(tutorial):
    commands = [step.command for step in steps(tutorial) if isinstance(step, Typed)]
    calls = [call for command in commands for call in _CALL.findall(command)]
    assert len(calls) > 5
    for call in calls:
        words, at = shlex.split(call), main
        while words and isinstance(at, click.Group) and not words[0].startswith("-"):
            below = at.get_command(click.Context(at), words[0])
            if below is None:
                break
            words, at = words[1:], below
        assert at is not main, call
        options = {option for parameter in at.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, call


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tutorial", TUTORIALS)
def test_a_tutorial_does_what_it_says(tutorial, tmp_path):
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # A free port, where a reader has the one that clients know.
    follow(tutorial, tmp_path, process_environment() | {"PATH": programs, "ROTULUS_PORT": "0"})
