"""The short form of `make chaos`: every kind of fault once, on a real fleet.

`CHAOS_SEED`, `CHAOS_REQUESTS` and `CHAOS_SECONDS` make another form of it.
What is wrong is told with the seed and the folder in which everything was kept.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.chaos.run import run
from tests.chaos.schedule import KINDS, SECONDS_MIN, SLOT_S_MIN

SEED = int(os.environ.get("CHAOS_SEED", "1"))
REQUESTS = int(os.environ.get("CHAOS_REQUESTS", "300"))
SECONDS = float(os.environ.get("CHAOS_SECONDS", SECONDS_MIN))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="servers are ended with their parent by Linux")
@pytest.mark.spec("K18", "K19", "D6")
@pytest.mark.timeout(60 + 10 * SECONDS)
def test_a_fleet_keeps_every_promise_whatever_happens_to_it():
    folder = Path(tempfile.mkdtemp(prefix="rotulus-chaos-"))
    said = f"seed {SEED}; kept: {folder}"
    try:
        report = run(folder, SEED, REQUESTS, SECONDS, print)
    except BaseException as error:
        error.add_note(said)
        raise
    assert report.wrong == {}, said
    assert set(report.faults) == set(KINDS)
    assert report.requests >= REQUESTS
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="servers are ended with their parent by Linux")
@pytest.mark.spec("K25")
@pytest.mark.timeout(300)
def test_a_fleet_that_takes_unknown_commits_for_success_is_caught(tmp_path):
    report = run(
        tmp_path,
        SEED,
        2 * REQUESTS,
        2 * SLOT_S_MIN,
        print,
        kinds=["lose_commit"],
        patience_s=5.0,
        CHAOS_TRUSTING="1",
    )
    assert "every_answer_on_record" in report.wrong
