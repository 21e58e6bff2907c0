"""`rotulus up` on a disk that is full: it waits, says so, and goes on when there is room."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import orjson
import pytest

from kernel.verify import verify
from tests.ports import free_port
from tests.process_environment import process_environment
from workers.environment.ledger_access import open_record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

ROOT = Path(__file__).parents[2]
MOUNT, UMOUNT = (shutil.which(name) or name for name in ("mount", "umount"))
DISK_BYTES = 24 << 20
LONGER_THAN_RESTARTS_S = 6


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, which can be filled."""
    place = tmp_path / "disk"
    place.mkdir()
    command = [MOUNT, "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run([UMOUNT, "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                if not file.write(bytes(1 << 16)):
                    break
            except OSError:
                break
    return filler


class Up:
    """A tree of `rotulus up` on a folder of the disk."""

    def __init__(self, folder: Path, port: int, log: Path) -> None:
        self.folder, self.log, self.url = folder, log, f"http://127.0.0.1:{port}"
        environment = process_environment()
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers", "up", "--data-dir", str(folder)],
                cwd=ROOT,
                env=environment | {"ROTULUS_PORT": str(port)},
                stdout=output,
                stderr=output,
            )

    def says(self, *words: str) -> int:
        """How many lines of the log hold all of the words."""
        lines = self.log.read_text().splitlines()
        return sum(all(word in line for word in words) for line in lines)

    def until(self, condition, timeout_s: float = 60.0) -> None:
        ends_s = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < ends_s, self.log.read_text()
            time.sleep(0.05)

    def is_ready(self) -> bool:
        """Whether it serves, and has written down which processes do."""
        if not (self.folder / "runtime.json").exists():
            return False
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def child(self, name: str) -> int:
        pids = orjson.loads((self.folder / "runtime.json").read_bytes())["pids"]
        return int(pids[name])


@contextmanager
def up(folder: Path, log: Path) -> Iterator[Up]:
    tree = Up(folder, free_port(), log)
    try:
        yield tree
    finally:
        tree.process.send_signal(signal.SIGTERM)
        try:
            tree.process.wait(20)
        finally:
            tree.process.kill()


def test_a_start_on_a_full_disk_waits_for_room(disk, tmp_path):
    filler = fill(disk)
    with up(disk / "data", tmp_path / "log") as tree:
        tree.until(lambda: tree.says("start_waits"))
        time.sleep(LONGER_THAN_RESTARTS_S)
        assert tree.says("start_waits", "no room for 4 MiB") == 1
        assert tree.says("child_started") == 0
        filler.unlink()
        tree.until(tree.is_ready)
        assert tree.says("start_goes_on") == 1


# By day `workers/process_tree/test_supervisor.py` shows that a child waits until there is room.
@pytest.mark.nightly
def test_what_ends_on_a_full_disk_is_started_when_there_is_room(disk, tmp_path):
    with up(disk / "data", tmp_path / "log") as tree:
        tree.until(tree.is_ready)
        filler = fill(disk)
        for name in ("gateway", "redis"):
            os.kill(tree.child(name), signal.SIGKILL)
        tree.until(lambda: tree.says("start_waits") == 2)
        time.sleep(LONGER_THAN_RESTARTS_S)
        assert tree.says("start_waits") == 2
        assert tree.says("child_restarted") == 0
        filler.unlink()
        tree.until(tree.is_ready)
        assert tree.says("child_dies_alike") == 0
    with open_record(disk / "data" / "ledger.db") as view:
        assert verify(view).findings == ()
