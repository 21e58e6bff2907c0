"""Offered ten times what it can do, a fleet refuses in order, keeps targets, and recovers."""

import os
import sys

import anyio
import pytest

from tests.chaos.fleet import running_fleet
from tests.chaos.overload import REFUSED, SESSIONS, critical_limit_s, described, overload
from tests.wall_clock import hold_at_night
from workers.environment.ledger_verification import verify_file

SECONDS = float(os.environ.get("ROTULUS_OVERLOAD_SECONDS", "2"))
MAILBOX_MAX = 4
MEBIBYTE = 2**20


# Whether a fleet is given ten times what it can do hangs on who else uses the machine. By day
# `system/test_full_gateway.py` shows how a full gateway refuses, and that others have their places.
@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")
@pytest.mark.timeout(300 + 20 * SECONDS)
def test_an_overloaded_fleet_refuses_with_a_time_stays_small_and_recovers(tmp_path):
    # Past the proxies: they live in this process, which has enough to do with the load.
    settings = {"ROTULUS_MAILBOX_MAX": str(MAILBOX_MAX)}
    with running_fleet(tmp_path, proxied=False, settings=settings) as fleet:
        seen = anyio.run(overload, fleet, SECONDS)
        print(described(seen))  # noqa: T201 - shown where it fails
        assert sum(seen.statuses[status] for status in REFUSED) > 0
        assert seen.statuses[200] > 0
        assert seen.refused_without_retry_after == 0
        assert seen.unanswered == {}
        assert seen.health_s
        assert seen.health_unanswered == {}
        for name, size in seen.rss_most.items():
            assert size < 2 * seen.rss_before[name] + 64 * MEBIBYTE, name
        assert seen.critical_asked > 0
        assert len(seen.critical_s) == seen.critical_asked
        hold_at_night(max(seen.critical_s), critical_limit_s(seen))
        assert seen.accepted_after == SESSIONS
        assert fleet.open_requests() == {}
        fleet.stop()
        verification = verify_file(fleet.place, lambda _done, _total: None)
        assert (verification.findings, verification.authorities_pending) == ((), 0)
