"""Any process of the tree may be killed at any moment, and the record comes out the same."""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.reference import Reference
from tests.system.tree_run import FINISH_S, TreeRun, demo, wait_for

LEFT_BEHIND_S = 30.0
"""How long children may outlive a killed root: they are asked to end, then end themselves."""

pytestmark = pytest.mark.timeout(120)


def moments(reference: Reference, seed: str) -> list[int]:
    """Return the lengths of the log at which to strike: its first row, and around 40 and 80 %."""
    chance = random.Random(seed)
    return [1, *(int(reference.rows * chance.gauss(share, 0.03)) for share in (0.4, 0.8))]


def restarts(run: TreeRun, role: str) -> int:
    said = (json.loads(line) for line in run.stderr.splitlines() if "child_restarted" in line)
    return sum(line["name"].partition("-")[0] == role for line in said)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("each", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_children_that_are_killed_are_restarted_and_the_record_is_the_same(
    reference: Reference, tmp_path: Path, check: Callable[[TreeRun], None], each: int
) -> None:
    """In turn, over nine tenths of the log; none is killed again before it is back."""
    times = Counter[str]()
    strikes = each * ["redis", "worker", "gateway"]
    with demo(tmp_path / "data", reference.file) as run:
        for strike, role in enumerate(strikes):
            run.wait_for_rows(max(1, reference.rows * 9 * strike // (10 * len(strikes))))
            wait_for(role, lambda role=role: restarts(run, role) == times[role], FINISH_S)
            run.kill(role)
            times[role] += 1
        check(run)
        for role in times:
            assert restarts(run, role) == each


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
