"""Two runs of the tests draw the same examples, unless they are asked for others."""

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
from pathlib import Path
from tests import conftest, test_determinism
for line in test_determinism.drawn():
    print(line)
"""


def drawn():
    """Draw from a strategy of our own and from one that schemathesis makes of the routes."""
    schema = schemathesis.openapi.from_dict(openapi_doc.document())
    cases = schema["/v1/queues/{queue}/requests"]["POST"].as_strategy()
    found = []

    @settings(max_examples=20, phases=[Phase.generate])
    @given(st.text(), cases)
    def draw(text, case):
        found.append(f"{text!r} {case.body!r} {case.path_parameters!r}")

    draw()
    return found


def drawn_by_a_process(profile):
    answer = subprocess.run(
        [sys.executable, "-c", _DRAWING],
        cwd=Path(__file__).parents[1],
        env={"HYPOTHESIS_PROFILE": profile, "PATH": ""},
        capture_output=True,
        check=True,
    )
    return answer.stdout


@pytest.mark.parametrize(("profile", "same"), [("ci", True), ("nightly", False)])
def test_runs_of_ci_draw_the_same_and_nightly_ones_do_not(profile, same):
    first, second = (drawn_by_a_process(profile) for _ in range(2))
    assert len(first.splitlines()) >= 10
    assert (first == second) is same
