"""Whatever is sent to a fleet or written into its Redis: it lives, it answers, its record holds.

By day it sends a sixtieth of what `make fuzz` does, to a ledger in a file: what is between a
request and the storage port is the same for both stores. `make nightly` sends to each for half an
hour.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.fuzz.fleet import STORES
from tests.fuzz.report import described
from tests.fuzz.run import run

SEED = int(os.environ.get("FUZZ_SEED", "1"))
REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "250"))
REDIS_VALUES = int(os.environ.get("FUZZ_REDIS_VALUES", "25"))
SHARE = {"sqlite": 0.7, "postgres": 0.3}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory and waiting are read in /proc")
@pytest.mark.timeout(1800 + REQUESTS // 4)
@pytest.mark.parametrize(
    "store",
    [
        pytest.param(store, marks=() if store == "sqlite" else pytest.mark.nightly)
        for store in STORES
    ],
)
def test_nothing_that_anybody_sends_ends_a_process_or_is_answered_without_a_type(store):
    folder = Path(tempfile.mkdtemp(prefix="rotulus-fuzz-"))
    said = f"{store}, seed {SEED}; kept: {folder}"
    requests = int(SHARE[store] * REQUESTS)
    try:
        report = run(folder, store, SEED, requests, REDIS_VALUES, print)
    except BaseException as error:
        error.add_note(said)
        raise
    print(described(report))  # noqa: T201 - shown where it fails
    assert report.wrong == [], said
    assert report.hostile >= requests
    assert report.redis_values >= REDIS_VALUES
    assert report.statuses.total() > report.hostile // 2
    shutil.rmtree(folder)
