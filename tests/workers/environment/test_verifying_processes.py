"""Verification by several processes: what they come to, and how they end."""

import os
import runpy
import signal
import time
from contextlib import closing, suppress
from functools import partial
from multiprocessing import active_children

import pytest

from kernel.ledger.ledger import Ledger
from kernel.values.errors import VerificationProcessDied
from kernel.verify.stretches import LogStretch
from tests.kernel.build import FakeHost, create, submit
from workers.environment.ledger_access import ledger_place, open_store
from workers.environment.ledger_verification import verify_file
from workers.environment.settings import load_settings
from workers.environment.verifying_processes import VerifyingProcesses

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path, monkeypatch):
    monkeypatch.setenv("ROTULUS_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("ROTULUS_DATABASE_URL", raising=False)
    if request.param == "postgres":
        monkeypatch.setenv("ROTULUS_DATABASE_URL", request.getfixturevalue("postgres_url"))
    place = ledger_place(load_settings())
    with closing(Ledger.create(open_store(place), FakeHost().host)) as ledger:
        for number in range(6):
            submit(ledger, create(f"n-{number}", "Note"))
    return place


def nothing(_done, _total):
    """Progress that nobody looks at."""


def never():
    time.sleep(600)


def is_there(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_three_processes_come_to_what_one_comes_to(place):
    alone = verify_file(place, nothing, processes=1)
    assert alone.ok
    assert alone.rows == 6
    assert verify_file(place, nothing, processes=3, rows_min=1) == alone
    assert active_children() == []


def test_a_process_that_dies_is_an_error_and_leaves_none_behind():
    with closing(VerifyingProcesses(never, 3, 1)) as processes:
        processes.begin([LogStretch(0, 1, 0), LogStretch(1, 2, 0)])
        pids = processes.pids
        os.kill(pids[1], signal.SIGKILL)
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(VerificationProcessDied, match="ended with -9"):
            processes.finish()
    assert not any(map(is_there, pids))


def test_a_process_that_ends_by_itself_is_an_error_too():
    with closing(VerifyingProcesses(partial(os._exit, 3), 2, 1)) as processes:
        processes.begin([LogStretch(0, 1, 0)])
        with pytest.raises(VerificationProcessDied, match="ended with 3"):
            processes.finish()


def test_closing_ends_what_is_still_at_work():
    processes = VerifyingProcesses(never, 3, 1)
    processes.begin([LogStretch(0, 1, 0), LogStretch(1, 2, 0)])
    pids = processes.pids
    assert all(map(is_there, pids))
    processes.close()
    assert not any(map(is_there, pids))


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_an_interrupt_leaves_no_process(place):
    def interrupt(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify_file(place, interrupt, processes=3, rows_min=1)
    assert active_children() == []


def test_a_process_that_loads_its_parents_module_runs_no_command():
    loaded = runpy.run_module("workers", run_name="__mp_main__", alter_sys=True)
    assert loaded["__name__"] == "__mp_main__"


def test_as_many_processes_as_processors():
    assert VerifyingProcesses(never, None, 1).count == len(os.sched_getaffinity(0)) - 1
    assert VerifyingProcesses(never, 1, 1).count == 0
