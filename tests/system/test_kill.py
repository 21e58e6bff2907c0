"""Any process of the tree may be killed at any moment, and the record comes out the same."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.reference import Reference
from tests.system.tree_run import TreeRun, demo, wait_for

LEFT_BEHIND_S = 6.0
"""How long children may outlive a killed root: they are asked to end, then end themselves."""

pytestmark = pytest.mark.timeout(120)


def moments(reference: Reference, seed: str) -> list[int]:
    """Return the lengths of the log at which to strike: its first row, and around 40 and 80 %."""
    chance = random.Random(seed)
    return [1, *(int(reference.rows * chance.gauss(share, 0.03)) for share in (0.4, 0.8))]


@pytest.mark.parametrize("role", ["redis", "gateway", "worker"])
def test_a_child_killed_three_times_is_restarted_and_the_record_is_the_same(
    role: str, reference: Reference, tmp_path: Path, check: Callable[[TreeRun], None]
) -> None:
    with demo(tmp_path / "data", reference.file) as run:
        for rows in moments(reference, role):
            run.wait_for_rows(rows)
            run.kill(role)
        check(run)
        assert run.stderr.count('"event":"child_restarted"') == 3


def test_a_killed_root_leaves_nothing_running_and_the_same_command_finishes(
    reference: Reference, tmp_path: Path, check: Callable[[TreeRun], None]
) -> None:
    """Killed early and left alone; killed midway and followed at once; killed late with all."""
    early, midway, late = moments(reference, "root")
    with demo(tmp_path / "data", reference.file) as run:
        run.wait_for_rows(early)
        run.kill("root")
        run.process.wait()
        wait_for("the end of the children", lambda: not run.members(), LEFT_BEHIND_S)

    with demo(tmp_path / "data", reference.file) as run:
        run.wait_for_rows(midway)
        run.kill("root")
        run.process.wait()
        # The children that are left end while the tree that follows begins.
        with demo(tmp_path / "data", reference.file) as following:
            following.wait_for_rows(late)
            for pid in following.members():
                os.kill(pid, signal.SIGKILL)
            following.process.wait()

    with demo(tmp_path / "data", reference.file) as run:
        check(run)
