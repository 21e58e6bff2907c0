"""A pipeline whose rows a fleet walks: the worker and the run are killed, and both go on."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.installed_plugins import install_program
from tests.system.essence import outcomes_for_each_request, reading
from tests.system.tree_run import COMMAND, TreeRun, running, wait_for
from tests.workers.cli.command import printed
from tests.workers.pipelines.engine.essence import essence
from workers.environment.ledger_verification import verify_file
from workers.environment.system_host import system_host
from workers.pipelines import dockets

README = Path(dockets.__file__).with_name("README.md").read_text()
ORDERS, QUEUE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
OUTPUTS = ("large.csv", "parcels.jsonl", "refused.jsonl")
ROWS = 48
WAIT_S = 60

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def installed(folder: Path) -> Path:
    """Install the README's pipeline with its queue, each row taking a moment."""
    [(group, name, place)] = re.findall(r'entry-points."(.+)"\]\n(\S+) = "(.+)"', README)
    place_in = install_program(folder, "orders_queue", QUEUE, {group: f"{name} = {place}"})
    slow = ORDERS.replace("    if row", "    time.sleep(0.03)\n    if row")
    small = slow.replace('Pipeline("orders")', 'Pipeline("orders", commit_rows=16)')
    few = small.replace("range(100)", f"range({ROWS})")
    (place_in / "orders.py").write_text("import time\n\n" + few)
    return place_in


def started(run: TreeRun, folder: Path, place: Path) -> subprocess.Popen[bytes]:
    """Start `rotulus pipeline run` beside a tree, in a folder."""
    options = ("--run", "r", "--fleet", "--data-dir", str(run.data_dir))
    return subprocess.Popen(
        [str(COMMAND), "pipeline", "run", "orders:pipeline", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(place)},
        start_new_session=True,
    )


def done(run: TreeRun) -> int:
    """How many rows workers have walked."""
    with reading(run.ledger_path) as ledger:
        sql = "SELECT count(*) FROM outbox JOIN outbox_outcomes USING (request_id) WHERE queue = ?"
        return int(ledger.execute(sql, ("orders",)).fetchone()[0])


@pytest.mark.spec("seed 003, Resume Flow", "K19")
def test_rows_are_walked_by_a_fleet_through_a_killed_worker_and_a_killed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place, folder, here = installed(tmp_path / "plugin"), tmp_path / "out", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    monkeypatch.syspath_prepend(str(place))
    with running(tmp_path / "data", "up", env={"PYTHONPATH": str(place)}) as run:
        run.wait_until_up()
        process = started(run, folder, place)
        wait_for("rows walked", lambda: done(run) >= 3, WAIT_S)
        run.kill("worker")
        wait_for("rows of the next commit walked", lambda: done(run) >= 20, WAIT_S)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        monkeypatch.chdir(folder)
        printed("pipeline", "resume", "r", "--fleet", "--data-dir", str(run.data_dir), "--json")
    monkeypatch.chdir(here)
    sys.modules.pop("orders")
    printed("pipeline", "run", "orders:pipeline", "--run", "r", "--data-dir", "alone", "--json")
    sys.modules.pop("orders")
    assert outcomes_for_each_request(run.ledger_path) == {1}
    assert done(run) == ROWS
    for name in OUTPUTS:
        assert (folder / name).read_bytes() == (here / name).read_bytes()
    on_fleet, alone = came_to(run.ledger_path), came_to(here / "alone" / "ledger.db")
    assert {name for name in alone if alone[name] != on_fleet[name]} == set()
    ends = Counter(row["token_id"] for row in on_fleet["token_outcomes"] if row["is_terminal"])
    assert ends == Counter(row["token_id"] for row in on_fleet["tokens"])
    assert verify_file(run.ledger_path, lambda _done, _total: None).findings == ()


def came_to(path: Path) -> dict[str, list[dict[str, object]]]:
    ledger = Ledger(SqliteStore(path, read_only=True), system_host())
    with ledger.view() as view:
        records = essence(view, "r")
    ledger.close()
    return records
