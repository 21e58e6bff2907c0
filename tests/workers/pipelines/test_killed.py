"""A run that was killed goes on as if nobody had disturbed it (seed 003, Resume Flow)."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.forked import forked
from tests.system.faulty_store import CountedSteps
from tests.workers.cli.command import printed, rotulus
from tests.workers.pipelines.engine.essence import essence
from tests.workers.pipelines.killed_run import ENTRIES, RUN, run_and_die, run_here, small_source
from workers.environment.ledger_access import LedgerPlace, open_record

KILLS = 8
OUTPUTS = ("sure.csv", "unsure.csv", "kinds.jsonl", "unreadable.jsonl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def came_to(
    folder: Path, place: LedgerPlace | None = None
) -> tuple[dict[str, bytes], dict[str, list[dict[str, Any]]]]:
    """Return the files of a run and its records."""
    with open_record(place or folder / "ledger.db") as view:
        records = essence(view, RUN)
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


@pytest.mark.spec("seed 003, Resume Flow", "L4")
def test_a_run_on_postgres_is_killed_resumed_explained_and_taken_elsewhere(
    tmp_path, undisturbed, postgres_url, monkeypatch
):
    expected, steps = undisturbed
    small_source(tmp_path)
    with forked(run_and_die, tmp_path, steps // 2, postgres_url) as (process, _):
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    end = run_here(tmp_path, CountedSteps(), postgres_url, resume=True)
    assert end.status == "completed"
    assert came_to(tmp_path, SecretStr(postgres_url)) == expected

    own = ("--data-dir", str(tmp_path / "own"))
    file = tmp_path / "run.jsonl"
    with monkeypatch.context() as of_postgres:
        of_postgres.setenv("ROTULUS_DATABASE_URL", postgres_url)
        on_postgres = printed("explain", f"{RUN}.00000003", "--format", "json", *own)
        file.write_text(rotulus("landscape", "export", RUN, *own).stdout, encoding="utf-8")
        events, document = (
            rotulus("landscape", "export", RUN, "--format", name, *own).stdout
            for name in ("openlineage", "prov")
        )
        again = rotulus("landscape", "import", str(file), *own)
        assert (again.exit_code, "landscape_conflict" in again.output) == (1, True)
    ends = [lineage["outcome"]["outcome"] for lineage in on_postgres["lineage"]["lineages"]]
    assert sorted(ends) == ["consumed_in_batch", "forked", "routed"]
    assert json.loads(events.splitlines()[-1])["eventType"] == "COMPLETE"
    assert "wasDerivedFrom" in json.loads(document)

    taken = printed("landscape", "import", str(file), "--json", *own)
    assert taken["record_count"] == len(file.read_text(encoding="utf-8").splitlines()) - 1
    assert came_to(tmp_path, tmp_path / "own" / "ledger.db") == expected


def test_the_example_has_every_kind_of_end(undisturbed):
    (files, records), _ = undisturbed
    outcomes = Counter(row["outcome"] for row in records["token_outcomes"])
    assert outcomes.keys() == {
        *("forked", "routed", "buffered", "consumed_in_batch", "completed", "quarantined")
    }
    assert all(files.values())
    assert len(records["calls"]) == ENTRIES - 1
