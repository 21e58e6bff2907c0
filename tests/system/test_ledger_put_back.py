"""An SQLite ledger that is put back from a backup: what was answered since is listed, all of it."""

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from tests import loopback
from tests.installed_plugins import install_programs
from tests.process_environment import process_environment
from tests.system.answered import Answers, Clients, expect_listed, listed_lost
from tests.system.gateways import HYPOTHESES
from tests.system.tree_run import COMMAND, TreeRun, running, wait_for
from workers.environment.ledger_verification import verify_file

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

QUEUE = "resize-images"
IMAGE = {"image_id": "i", "width": 80}
LOAD_S = 0.5
HALT_S = 30.0
READY_S = 60.0


def back_up(ledger: Path, to: Path) -> None:
    """Copy a ledger as it stands, with what its write-ahead log has."""
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
        # A backup by this means is in the journal mode of the original, and stays one file.
        target.execute("PRAGMA journal_mode = WAL")


def copied_over(backup: Path, ledger: Path) -> None:
    # While the write-ahead log has everything since the backup, copying over changes nothing.
    with closing(sqlite3.connect(ledger)) as folding:
        folding.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copyfile(backup, ledger)


def renamed_over(backup: Path, ledger: Path) -> None:
    copy = backup.with_suffix(".copy")
    shutil.copyfile(backup, copy)
    copy.chmod(0o600)
    copy.replace(ledger)


def readiness(url: str) -> dict[str, Any]:
    try:
        body: dict[str, Any] = loopback.get(f"{url}/readyz", timeout=5).json()
    except OSError:
        return {}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not ready
        return {"error": repr(error)}
    return body


def went_back(url: str) -> bool:
    return "ledger_went_back" in readiness(url).get("problems", {})


def finding_stands(url: str) -> bool:
    try:
        return bool(loopback.get(f"{url}/v1/ledger/lost", timeout=5).json()["stands"])
    except (OSError, ValueError, KeyError):
        return False


def is_ready(url: str) -> bool:
    return readiness(url).get("status") == "ready"


def rotulus(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**process_environment(), "ROTULUS_GATEWAY_URL": url}
    return subprocess.run(
        [str(COMMAND), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


def accept(url: str, data_dir: Path) -> None:
    """Accept the ledger that is there, as an operator does it."""
    grounds = ("--reason", "the disk was lost", "--authority", "operations")
    done = rotulus(url, "ledger", "accept-head", *grounds, "--data-dir", str(data_dir))
    assert done.returncode == 0, done.stderr
    assert "operation" in done.stdout


class Load:
    """Producers, eliminations and jobs of a plug-in's queue, until the block ends."""

    def __init__(self, clients: Clients, name: str, session: str) -> None:
        self._clients = clients
        self._name = name
        self._session = session
        self._struck = 0

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._repeat, self._operate)
            tasks.start_soon(self._repeat, self._enqueue)
            tasks.start_soon(self._repeat, self._eliminate)

    async def _repeat(self, work: Callable[[int], Awaitable[None]]) -> None:
        number = 0
        while True:
            await work(number)
            number += 1
            await anyio.lowlevel.checkpoint()

    async def _operate(self, number: int) -> None:
        await self._clients.operate(self._session, f"{self._name}-{number}")

    async def _enqueue(self, number: int) -> None:
        key = f"{self._name}-{number}"
        content = {"image_id": key, "width": 80}
        request_id = await self._clients.enqueue(QUEUE, key, content)
        if request_id is not None:
            await self._clients.outcome(QUEUE, request_id)

    async def _eliminate(self, _: int) -> None:
        if self._struck < 150 and await self._clients.eliminate(self._session, self._struck):
            self._struck += 1


async def under_load(clients: Clients, name: str, session: str, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await Load(clients, name, session).run()


async def off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    return await anyio.to_thread.run_sync(partial(function, *arguments))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(map(str, install_programs(tmp_path)))}


async def until(what: str, ask: Callable[[], Any], timeout_s: float) -> None:
    await off_loop(wait_for, what, ask, timeout_s, 0.1)


async def lose(run: TreeRun, url: str, backup: Path) -> tuple[Answers, Clients, str, str]:
    """Answer clients, back the ledger up in the middle, and answer them again."""
    answers = Answers()
    clients = Clients(answers, url)
    idle, busy = await clients.declare(1), await clients.declare(2)
    for number in range(3):
        assert await clients.eliminate(idle, number)
    await clients.complete(QUEUE, "first", IMAGE)
    await under_load(clients, "before", busy, LOAD_S)
    await off_loop(back_up, run.ledger_path, backup)
    for number in range(3, 6):
        assert await clients.eliminate(idle, number)
    later = await clients.declare(3)
    await under_load(clients, "after", later, LOAD_S)
    await clients.complete(QUEUE, "last", IMAGE)
    return answers, clients, idle, later


async def go_on(run: TreeRun, url: str, answers: Answers, clients: Clients, idle: str) -> None:
    """Accept the ledger, compare every answer with it and the list, and go on from there."""
    await until("the halt", lambda: went_back(url), HALT_S)
    assert await clients.ask("GET", f"/v1/sessions/{idle}") is None
    assert "ledger_went_back" in clients.codes
    said = await off_loop(rotulus, url, "status")
    assert said.returncode == 1
    assert said.stdout.count("! critical  the ledger went back") == 1
    await off_loop(accept, url, run.data_dir)
    await until("the gateway", lambda: is_ready(url), READY_S)

    missing = await off_loop(expect_listed, run.ledger_path, answers)
    kinds = {each.kind for each in missing}
    assert kinds >= {"operation", "request", "outcome", "session"}
    _, document = await off_loop(listed_lost, run.ledger_path)
    assert (document["stands"], document["acceptance"]["reason"]) == (False, "the disk was lost")

    answers.forget(missing)
    answers.events[idle] = 4
    snapshot = await clients.ask("GET", f"/v1/sessions/{idle}")
    assert snapshot is not None
    assert len(HYPOTHESES) - snapshot["n_survivors"] == 3, snapshot
    # Who was answered and asks again gets the work done again.
    for number in range(3, 6):
        assert await clients.eliminate(idle, number)
    await under_load(clients, "after", await clients.declare(3), LOAD_S)
    await clients.complete(QUEUE, "last", IMAGE)
    assert await off_loop(expect_listed, run.ledger_path, answers) == set()
    verification = await off_loop(verify_file, run.ledger_path, lambda _done, _total: None)
    assert verification.findings == ()


@pytest.mark.spec("§17")
async def test_a_file_that_is_put_back_under_a_stopped_gateway(
    tmp_path: Path, env: dict[str, str]
) -> None:
    backup = tmp_path / "backup.db"
    with running(tmp_path / "data", "up", env=env) as run:
        url = (await off_loop(run.wait_until_up))["gateway_url"]
        answers, clients, idle, _ = await lose(run, url, backup)
        run.process.send_signal(signal.SIGTERM)
        assert await off_loop(run.finish) == 0
    copied_over(backup, run.ledger_path)
    port = url.rpartition(":")[2]
    with running(tmp_path / "data", "up", env={**env, "ROTULUS_PORT": port}) as run:
        await off_loop(run.wait_until_up)
        await go_on(run, url, answers, clients, idle)
    await clients.aclose()


@pytest.mark.spec("§17")
@pytest.mark.parametrize("put_back", [copied_over, renamed_over])
async def test_a_file_that_is_put_back_under_a_running_gateway(
    tmp_path: Path, env: dict[str, str], put_back: Callable[[Path, Path], None]
) -> None:
    backup = tmp_path / "backup.db"
    with running(tmp_path / "data", "up", env=env) as run:
        url = (await off_loop(run.wait_until_up))["gateway_url"]
        answers, clients, idle, later = await lose(run, url, backup)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(under_load, clients, "meanwhile", later, HALT_S)
            await off_loop(put_back, backup, run.ledger_path)
            await until("the halt", lambda: went_back(url), HALT_S)
            tasks.cancel_scope.cancel()
        if put_back is renamed_over:
            # What was found is on the record: a gateway that is killed now stands halted again.
            await until("the finding", lambda: finding_stands(url), HALT_S)
            gateway = run.pid_of("gateway")
            await off_loop(run.kill, "gateway")
            await until("another gateway", lambda: run.pid_of("gateway") != gateway, READY_S)
            await until("its halt", lambda: went_back(url), READY_S)
        await go_on(run, url, answers, clients, idle)
    await clients.aclose()
