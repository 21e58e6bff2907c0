"""Two runs of the tests draw the same examples, unless they are asked for others."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import schemathesis
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests import openapi_doc

_DRAWING = """
import sys
from hypothesis import settings
from tests import conftest, test_determinism
for profile in sys.argv[1:]:
    settings.load_profile(profile)
    print(test_determinism.drawn())
"""


def drawn():
    """Draw from a strategy of our own and from one that schemathesis makes of the routes."""
    schema = schemathesis.openapi.from_dict(openapi_doc.document())
    cases = schema["/v1/queues/{queue}/requests"]["POST"].as_strategy()
    examples = []

    @settings(max_examples=20, phases=[Phase.generate])
    @given(st.text(), cases)
    def draw(text, case):
        examples.append(f"{text!r} {case.body!r} {case.path_parameters!r}")

    draw()
    return examples


def drawn_by_a_process(*profiles):
    """Draw by the profile that the process was started with, and by those after it."""
    answer = subprocess.run(
        [sys.executable, "-c", _DRAWING, *profiles],
        cwd=Path(__file__).parents[1],
        env={"HYPOTHESIS_PROFILE": profiles[0], "PATH": ""},
        capture_output=True,
        check=True,
    )
    return dict(zip(profiles, answer.stdout.splitlines(), strict=True))


@pytest.mark.slow
def test_runs_of_ci_draw_the_same_and_nightly_ones_do_not():
    first, second = drawn_by_a_process("ci", "nightly"), drawn_by_a_process("nightly", "ci")
    assert len(ast.literal_eval(first["ci"].decode())) >= 10
    assert first["ci"] == second["ci"]
    assert first["nightly"] != second["nightly"]
