"""Two runs of the tests draw the same examples, unless they are asked for others."""

import ast
import subprocess
import sys
from contextlib import contextmanager
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


@contextmanager
def drawing_process(*profiles):
    """Have a process draw by the profile that it was started with, and by those after it."""
    with subprocess.Popen(
        [sys.executable, "-c", _DRAWING, *profiles],
        cwd=Path(__file__).parents[1],
        env={"HYPOTHESIS_PROFILE": profiles[0], "PATH": ""},
        stdout=subprocess.PIPE,
    ) as process:
        yield lambda: dict(zip(profiles, process.communicate()[0].splitlines(), strict=True))


@pytest.mark.slow
def test_runs_of_ci_draw_the_same_and_nightly_ones_do_not():
    # At once, because Hypothesis draws constants of the source files too, as they are then.
    with drawing_process("ci", "nightly") as day, drawing_process("nightly", "ci") as night:
        first, second = day(), night()
    assert len(ast.literal_eval(first["ci"].decode())) >= 10
    assert first["ci"] == second["ci"]
    assert first["nightly"] != second["nightly"]
