"""A ledger that is backed up under load is destroyed, restored, verified and gone on with."""

import copy
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.installed_plugins import install_programs
from tests.process_environment import process_environment
from tests.system.answered import Answers, Clients
from tests.system.test_ledger_put_back import (
    IMAGE,
    LOAD_S,
    QUEUE,
    READY_S,
    is_ready,
    off_loop,
    under_load,
    until,
)
from tests.system.tree_run import COMMAND, running
from workers.environment.ledger_access import read_record
from workers.environment.ledger_verification import verify_file

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240), pytest.mark.nightly]

BACKUPS = 3
LOADED_S_MAX = 60.0


def start(*arguments: str, key: Path) -> subprocess.Popen[str]:
    environment = {**process_environment(), "ROTULUS_BACKUP_KEY": str(key)}
    return subprocess.Popen(
        [str(COMMAND), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def document_of(*arguments: str, key: Path) -> dict[str, Any]:
    process = start(*arguments, "--json", key=key)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


def kill_in_the_middle(place: Path, data: Path, key: Path) -> None:
    """Begin a backup and kill it once it has stored a piece that was not there."""
    before = set(place.rglob("*.piece"))
    process = start("backup", "--output", str(place), "--data-dir", str(data), key=key)
    while process.poll() is None and set(place.rglob("*.piece")) <= before:
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


async def test_what_was_answered_before_the_backup_is_there_after_the_restore(
    tmp_path: Path,
) -> None:
    env = {"PYTHONPATH": os.pathsep.join(map(str, install_programs(tmp_path)))}
    data, place, key = tmp_path / "data", tmp_path / "place", tmp_path / "backup.key"
    key.write_text("5e" * 32)
    key.chmod(0o600)
    backup = ("backup", "--output", str(place), "--data-dir", str(data))
    answers, answered_before = Answers(), Answers()
    made: dict[str, Any] = {}
    with running(data, "up", env=env) as run:
        url = (await off_loop(run.wait_until_up))["gateway_url"]
        clients = Clients(answers, url)
        busy = await clients.declare(1)
        await clients.complete(QUEUE, "first", IMAGE)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(under_load, clients, "load", busy, LOADED_S_MAX)
            for _ in range(BACKUPS):
                await anyio.sleep(LOAD_S)
                answered_before = copy.deepcopy(answers)
                made = await off_loop(lambda: document_of(*backup, key=key))
            await off_loop(kill_in_the_middle, place, data, key)
            tasks.cancel_scope.cancel()
        await clients.aclose()
        run.process.send_signal(signal.SIGKILL)
    assert answered_before.count > BACKUPS
    await off_loop(shutil.rmtree, data)

    checked = await off_loop(lambda: document_of("restore", str(place), "--check", key=key))
    assert checked["verifies"]
    restore = ("restore", str(place), "--to", str(data))
    restored = await off_loop(lambda: document_of(*restore, key=key))
    assert (restored["backup"], restored["head"]) == (made["backup"], made["head"])
    assert await off_loop(read_record, data / "ledger.db", answered_before.missing) == set()

    with running(data, "up", env=env) as run:
        url = (await off_loop(run.wait_until_up))["gateway_url"]
        await until("the gateway", lambda: is_ready(url), READY_S)
        clients = Clients(answered_before, url)
        await under_load(clients, "after", await clients.declare(2), LOAD_S)
        await clients.complete(QUEUE, "last", IMAGE)
        await clients.aclose()
    assert await off_loop(read_record, data / "ledger.db", answered_before.missing) == set()
    verification = await off_loop(verify_file, data / "ledger.db", lambda _done, _total: None)
    assert verification.findings == ()
