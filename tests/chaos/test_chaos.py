"""The short form of `make chaos`: every kind of fault once, on a real fleet with a single Redis.

A Redis that fails over is met by one failover of each shape; `make chaos` does the rest. What is
asserted of readiness holds on a busy machine: no gateway that is asked three seconds after a fault
of Redis names none, and each is ready again by itself. That red and green come within three
seconds is measured here, and asserted by `make chaos` (`readiness.py`).

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
from tests.chaos.schedule import (
    CLUSTER,
    KINDS,
    SENTINELS,
    SINGLE,
    SLOT_S_MIN,
    kinds_of,
    seconds_min,
)

SEED = int(os.environ.get("CHAOS_SEED", "1"))
REQUESTS = int(os.environ.get("CHAOS_REQUESTS", "300"))
SECONDS = float(os.environ.get("CHAOS_SECONDS", seconds_min(kinds_of(SINGLE))))
FAILOVER_REQUESTS = 100


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="servers are ended with their parent by Linux")
@pytest.mark.spec("K18", "K19", "D6")
@pytest.mark.timeout(60 + 10 * SECONDS)
def test_a_fleet_keeps_every_promise_whatever_happens_to_it():
    folder = Path(tempfile.mkdtemp(prefix="rotulus-chaos-"))
    said = f"seed {SEED}; kept: {folder}"
    try:
        report = run(folder, SEED, REQUESTS, SECONDS, print, shape=SINGLE)
    except BaseException as error:
        error.add_note(said)
        raise
    assert report.wrong == {}, said
    assert set(report.faults) == set(kinds_of(SINGLE))
    assert set(reddened(report)) == {kind for kind in kinds_of(SINGLE) if KINDS[kind].reddens}
    assert report.requests >= REQUESTS
    shutil.rmtree(folder)


def reddened(report: ChaosReport) -> list[str]:
    """Return the kinds of fault after which a gateway was red, and then green again."""
    both = {"red_after_s", "green_after_s"}
    return [kind for kind, times in report.readiness.items() if times.keys() >= both]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="servers are ended with their parent by Linux")
@pytest.mark.spec("K18", "K19", "D6")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("shape", "kind"), [(SENTINELS, "promote_redis"), (CLUSTER, "kill_redis_node")]
)
def test_a_fleet_loses_nothing_where_a_replica_takes_over_from_its_redis(
    shape: str, kind: str, tmp_path: Path
):
    seconds = seconds_min([kind])
    report = run(tmp_path, SEED, FAILOVER_REQUESTS, seconds, print, shape=shape, kinds=[kind])
    assert report.wrong == {}
    assert reddened(report) == [kind]
    assert report.requests >= FAILOVER_REQUESTS


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
