"""A run that was killed goes on as if nobody had disturbed it (seed 003, Resume Flow)."""

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import SqliteStore
from tests.actors.pipelines.essence import essence
from tests.forked import forked
from tests.system.faulty_store import CountedSteps
from tests.workers.pipelines.killed_run import ENTRIES, RUN, run_and_die, run_here, small_source
from workers.environment.system_host import system_host

KILLS = 8
OUTPUTS = ("sure.csv", "unsure.csv", "kinds.jsonl", "unreadable.jsonl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def came_to(folder: Path) -> tuple[dict[str, bytes], dict[str, list[dict[str, Any]]]]:
    """Return the files of a run and its records."""
    ledger = Ledger(SqliteStore(folder / "ledger.db", read_only=True), system_host())
    with ledger.view() as view:
        records = essence(view, RUN)
    ledger.close()
    return {name: (folder / name).read_bytes() for name in OUTPUTS}, records


@pytest.fixture(autouse=True)
def _in_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What a run comes to that nobody disturbs, and how many steps it has."""
    folder = tmp_path_factory.mktemp("undisturbed")
    small_source(folder)
    steps = CountedSteps()
    assert run_here(folder, steps).rows == ENTRIES
    return came_to(folder), steps.count


@pytest.mark.spec("seed 003, Resume Flow")
@pytest.mark.parametrize("kill", range(KILLS))
def test_a_run_that_is_killed_ends_with_the_files_and_the_lineage_of_one_that_is_not(
    tmp_path, undisturbed, kill
):
    expected, steps = undisturbed
    small_source(tmp_path)
    # From the first record of the run to the last; the steps before it found the ledger.
    kill_at = steps - (steps - steps // 8) * (KILLS - kill) // (KILLS + 1)
    with forked(run_and_die, tmp_path, kill_at) as (process, _):
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    assert run_here(tmp_path, CountedSteps(), resume=True).status == "completed"
    files, records = came_to(tmp_path)
    assert files == expected[0]
    assert {name for name in records if records[name] != expected[1][name]} == set()
    ends = Counter(row["token_id"] for row in records["token_outcomes"] if row["is_terminal"])
    assert ends == Counter(row["token_id"] for row in records["tokens"])


def test_the_example_has_every_kind_of_end(undisturbed):
    (files, records), _ = undisturbed
    outcomes = Counter(row["outcome"] for row in records["token_outcomes"])
    assert outcomes.keys() == {
        *("forked", "routed", "buffered", "consumed_in_batch", "completed", "quarantined")
    }
    assert all(files.values())
    assert len(records["calls"]) == ENTRIES - 1
