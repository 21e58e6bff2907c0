"""`rotulus pipeline`: the program of the README as its reader runs it, stops it and resumes it."""

import csv
import json
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.workers.cli.command import printed, rotulus
from workers.pipelines import dockets

README = Path(dockets.__file__).with_name("README.md")
PROGRAM_LINES_MAX = 60
SMALL_COMMITS = ('Pipeline("orders")', 'Pipeline("orders", commit_rows=8)')

pytestmark = pytest.mark.spec("seed 003")


def program() -> str:
    """The first program of the README."""
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the program, in which commands run; each finds the module anew."""
    (tmp_path / "orders.py").write_text(program())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "orders", raising=False)
    yield tmp_path
    sys.modules.pop("orders", None)


def changed(folder: Path, old: str, new: str) -> None:
    """Change the program, so that the next command imports it so."""
    text = (folder / "orders.py").read_text()
    assert old in text
    (folder / "orders.py").write_text(text.replace(old, new))
    sys.modules.pop("orders", None)


def waiting_in(verified: dict[str, object]) -> set[object]:
    """How much of the record no tree head commits to, by what it is."""
    return {verified[f"{what}_not_under_the_tree"] for what in ("receipts", "run_groups")}


def test_the_program_of_the_readme_runs_and_says_where_every_order_is(folder):
    assert len(program().splitlines()) <= PROGRAM_LINES_MAX
    ended = printed("pipeline", "run", "orders:pipeline", "--run", "monday", "--json")
    assert ended == {"run_id": "monday", "status": "completed", "rows": 100, "failed": 0}
    with (folder / "large.csv").open(newline="") as file:
        large = [int(row["order"]) for row in csv.DictReader(file)]
    parcels = [json.loads(line) for line in (folder / "parcels.jsonl").read_text().splitlines()]
    refused = [json.loads(line) for line in (folder / "refused.jsonl").read_text().splitlines()]
    small = [order for parcel in parcels for order in parcel["orders"]]
    assert len(parcels[0]["orders"]) == 10
    everything = [*large, *small, *(row["row"]["order"] for row in refused)]
    assert sorted(everything) == [*range(100)]
    assert refused[0]["error"] == {"type": "ValueError", "message": "nothing was ordered"}
    explained = printed("explain", "monday.parcel.000000.0", "--format", "json")
    [lineage] = explained["lineage"]["lineages"]
    assert len(lineage["parents"]) == 10
    assert lineage["outcomes"][0]["outcome"] == "completed"
    assert "outcome: ROUTED, sink large" in rotulus("explain", "monday.00000005").output
    summary = printed("landscape", "report", "monday", "--json")
    assert summary["sealed_by_sequence"] is not None
    assert rotulus("verify").exit_code == 0
    again = rotulus("pipeline", "resume", "monday")
    assert (again.exit_code, "landscape_run_over" in again.output) == (1, True)


def test_a_run_that_failed_goes_on_when_its_sink_does_again_and_not_with_other_functions(folder):
    (folder / "large.csv").mkdir()
    stopped = rotulus("pipeline", "run", "orders:pipeline", "--run", "r")
    assert (stopped.exit_code, "pipeline_stopped: IsADirectoryError" in stopped.output) == (1, True)
    assert "`rotulus pipeline resume r` goes on" in stopped.output
    (folder / "large.csv").rmdir()
    changed(folder, "// 5}", "// 6}")
    other = rotulus("pipeline", "resume", "r")
    assert (other.exit_code, "landscape_topology_differs" in other.output) == (1, True)
    assert other.output.endswith("begin another run: check changed since\n")
    changed(folder, "// 6}", "// 5}")
    assert printed("pipeline", "resume", "r", "--json")["status"] == "completed"
    sys.modules.pop("orders", None)
    assert printed("pipeline", "run", "orders:pipeline", "--run", "whole", "--json")["rows"] == 100
    assert (
        printed("landscape", "report", "r", "outcome_analysis", "--json")["content"][
            "outcome_distribution"
        ]
        == (
            printed("landscape", "report", "whole", "outcome_analysis", "--json")["content"][
                "outcome_distribution"
            ]
        )
    )


def test_a_run_that_is_told_to_stop_ends_behind_the_rows_in_hand_and_goes_on(folder):
    changed(folder, *SMALL_COMMITS)
    changed(folder, "from rotulus", "import os\n\nfrom rotulus")
    source = "    for number in range(100):\n"
    once = (
        "        if number == 20 and not os.path.exists('stopped'):\n"
        "            open('stopped', 'w').close()\n"
        f"            os.kill(os.getpid(), {int(signal.SIGTERM)})\n"
    )
    changed(folder, source, source + once)
    stopped = rotulus("pipeline", "run", "orders:pipeline", "--run", "r")
    assert (stopped.exit_code, "rotulus pipeline resume r" in stopped.output) == (130, True)
    assert printed("landscape", "report", "r", "--json")["status"] == "interrupted"
    verified = printed("verify", "--kept", "head", "--json")
    assert verified["run_groups"] > 1
    assert waiting_in(verified) == {0}
    sys.modules.pop("orders", None)
    assert printed("pipeline", "resume", "r", "--json")["rows"] == 100
    again = printed("verify", "--kept", "head", "--json")
    assert (again["since"], waiting_in(again)) == (verified["tree_head"], {0})
    assert rotulus("verify", "--full").exit_code == 0


def test_other_rows_in_the_source_are_not_taken_for_those_on_record(folder):
    (folder / "first").write_text("0")
    changed(folder, "range(100)", 'range(int(Path("first").read_text()), 100)')
    changed(folder, "from rotulus", "from pathlib import Path\n\nfrom rotulus")
    changed(folder, *SMALL_COMMITS)
    (folder / "refused.jsonl").mkdir()
    assert rotulus("pipeline", "run", "orders:pipeline", "--run", "r").exit_code == 1
    (folder / "refused.jsonl").rmdir()
    (folder / "first").write_text("1")
    sys.modules.pop("orders", None)
    other = rotulus("pipeline", "resume", "r")
    assert "pipeline_source_differs: row 0" in other.output
    assert printed("landscape", "report", "r", "--json")["status"] == "failed"
    (folder / "first").write_text("0")
    sys.modules.pop("orders", None)
    assert printed("pipeline", "resume", "r", "--json")["rows"] == 100


@pytest.mark.parametrize("place", ["orders", "nowhere:pipeline", "orders:size", "orders:nothing"])
def test_what_names_no_pipeline_is_refused_and_records_nothing(folder, place):
    refused = rotulus("pipeline", "run", place)
    assert (refused.exit_code, "pipeline_invalid" in refused.output) == (1, True)
    assert rotulus("pipeline", "graph", "orders:pipeline").output.startswith("flowchart LR")


def test_an_id_that_no_run_may_have_and_a_setting_without_a_value_are_refused(folder):
    for arguments in (("--run", "../up"), ("--set", "alone")):
        assert rotulus("pipeline", "run", "orders:pipeline", *arguments).exit_code == 2


def test_a_run_id_that_is_taken_is_refused_and_leaves_the_run_as_it_is(folder):
    assert printed("pipeline", "run", "orders:pipeline", "--run", "r", "--json")["rows"] == 100
    before = printed("landscape", "report", "r", "--json")
    again = rotulus("pipeline", "run", "orders:pipeline", "--run", "r")
    assert (again.exit_code, "landscape_conflict" in again.output) == (1, True)
    assert printed("landscape", "report", "r", "--json") == before
