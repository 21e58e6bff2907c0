"""The short form of `make chaos`: a fault of each manner, on a real fleet with a single Redis.

`make nightly` has every kind of fault, on each shape of Redis; a Redis that fails over under load
is met in `system/test_redis_refuses.py` too. What is asserted of readiness holds on a busy machine:
no gateway that is asked three seconds after a fault of Redis names none, and each is ready again by
itself. That red and green come within three seconds is measured here, and asserted by `make chaos`
(`readiness.py`).

`CHAOS_SEED`, `CHAOS_REQUESTS` and `CHAOS_SECONDS` make another form of it.
What is wrong is told with the seed and the folder in which everything was kept.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.chaos.run import ChaosReport, run
from tests.chaos.schedule import KINDS, SINGLE, SLOT_S_MIN, seconds_min

# Of what is killed, paused, of another version, refused, cut or left in doubt, one kind for each
# sort of process or server that it meets.
BRIEF = (
    "kill_worker",
    "pause_writer",
    "pause_worker",
    "roll_fleet",
    "evict_redis",
    "refuse_redis",
    "restart_redis",
    "restart_postgres",
    "cut_redis_of_gateway",
    "cut_postgres_of_gateway",
    "lose_commit",
    "doubt_commit",
)
WENT_BACK = "ledger_went_back"
"""Answered by a gateway whose ledger lacks what it took for committed."""

SEED = int(os.environ.get("CHAOS_SEED", "1"))
REQUESTS = int(os.environ.get("CHAOS_REQUESTS", "150"))
SECONDS = float(os.environ.get("CHAOS_SECONDS", seconds_min(BRIEF)))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="servers are ended with their parent by Linux")
@pytest.mark.spec("K18", "K19", "D6")
@pytest.mark.timeout(60 + 10 * SECONDS)
def test_a_fleet_keeps_every_promise_whatever_happens_to_it():
    folder = Path(tempfile.mkdtemp(prefix="rotulus-chaos-"))
    said = f"seed {SEED}; kept: {folder}"
    try:
        report = run(folder, SEED, REQUESTS, SECONDS, print, shape=SINGLE, kinds=BRIEF)
    except BaseException as error:
        error.add_note(said)
        raise
    assert report.wrong == {}, said
    assert WENT_BACK not in report.asked_again
    assert set(report.faults) == set(BRIEF)
    assert set(reddened(report)) == {kind for kind in BRIEF if KINDS[kind].reddens}
    assert report.requests >= REQUESTS
    shutil.rmtree(folder)


def reddened(report: ChaosReport) -> list[str]:
    """Return the kinds of fault after which a gateway was red, and then green again."""
    both = {"red_after_s", "green_after_s"}
    return [kind for kind, times in report.readiness.items() if times.keys() >= both]


@pytest.mark.nightly  # by day `test_judge.py` shows that the judge finds what is missing
@pytest.mark.skipif(sys.platform != "linux", reason="servers are ended with their parent by Linux")
@pytest.mark.spec("K25")
@pytest.mark.timeout(300)
def test_a_fleet_that_takes_unknown_commits_for_success_is_caught(tmp_path):
    report = run(
        tmp_path,
        SEED,
        4 * REQUESTS,
        2 * SLOT_S_MIN,
        print,
        kinds=["lose_commit"],
        patience_s=5.0,
        settings={"CHAOS_TRUSTING": "1"},
    )
    # Which of the two is first to see it depends on how fast the machine is.
    by_judge = "every_answer_on_record" in report.wrong
    assert by_judge or WENT_BACK in report.asked_again
