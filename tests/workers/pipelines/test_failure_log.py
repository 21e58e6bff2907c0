"""The log says where a node of a pipeline fails, once for each kind of failure."""

import pytest
from structlog.testing import capture_logs

from kernel.values.foreign_code import call_foreign
from tests.foreign_ends import ENDS, nobody_at_the_keyboard
from workers.pipelines.engine.step import RowRefused
from workers.pipelines.tools import KINDS_MAX, FailureLog


@pytest.mark.parametrize("name", ENDS)
def test_a_failure_is_said_with_its_traceback_and_once(name: str):
    failures = FailureLog()
    with nobody_at_the_keyboard(), pytest.raises(Exception) as caught:  # noqa: PT011
        call_foreign(ENDS[name])
    with capture_logs() as logs:
        failures.note("parse", RowRefused("no such row"))
        for node in ("parse", "classify", "parse"):
            failures.note(node, caught.value)
    assert [log["node"] for log in logs] == ["parse", "classify"]
    assert all("Traceback" in log["exception"] for log in logs)


def test_kinds_of_failures_are_bounded():
    failures = FailureLog()
    with capture_logs() as logs:
        for number in range(2 * KINDS_MAX):
            failures.note(f"node-{number}", RuntimeError("no"))
    assert len(logs) == KINDS_MAX
