"""Random pipelines in processes that are killed at any step, and go on in others (seed 003)."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.properties.family import NIGHTLY
from tests.system.faulty_store import CountedSteps, FaultyStore
from tests.system.killed_at_steps import host_of, how_it_ended, in_a_process
from tests.workers.pipelines.engine.random_pipelines import pipelines
from tests.workers.pipelines.engine.running import check_records, go_on, status
from tests.workers.pipelines.killed_run import halved_writes
from workers.pipelines.file_sinks import JsonLinesSink

FILE = "ledger.db"


def run_in_a_process(make: Callable[..., Any], folder: Path, number: int, kill_at: int) -> int:
    """Begin a run in a folder or go on with it, in a process of its own; return how that ended."""

    def run() -> None:
        os.chdir(folder)
        store, steps = SqliteStore(Path(FILE)), CountedSteps(kill_at)
        ledger = Ledger.create(store, host_of(number))
        reached = ledger.read(status)
        if reached == "completed":
            return  # It was killed behind its last step.
        made, _ = make(new_sink=lambda name: JsonLinesSink(f"{name}.jsonl"))
        faulty = Ledger(FaultyStore(store, steps), ledger.host)
        with halved_writes(steps):
            go_on(faulty, made, resume=reached is not None)
        ledger.close()

    return how_it_ended(in_a_process(run))


def outputs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


@pytest.mark.spec("seed 003, Core Invariants")
@settings(max_examples=200 if NIGHTLY else 6, deadline=None)
@given(pipelines(), st.lists(st.integers(1, 150), min_size=1, max_size=4))
def test_whatever_process_is_killed_the_run_ends_as_one_that_nobody_disturbed(make, kills):
    with TemporaryDirectory() as name:
        alone, killed = Path(name, "alone"), Path(name, "killed")
        alone.mkdir()
        killed.mkdir()
        assert run_in_a_process(make, alone, 0, 0) == 0
        for number, kill_at in enumerate([*kills, 0]):
            ended = run_in_a_process(make, killed, number, kill_at)
            assert ended in (0, -signal.SIGKILL)
            if ended == 0:
                break
        ledgers = [Ledger(SqliteStore(folder / FILE), host_of(9)) for folder in (alone, killed)]
        check_records(*ledgers)
        for ledger in ledgers:
            ledger.close()
        assert outputs(killed) == outputs(alone)
