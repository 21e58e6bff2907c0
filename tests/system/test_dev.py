"""`rotulus dev` as its user has it: a file, a change, a mistake, jobs in hand, and the end."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tests.installed_plugins import named_plugin
from tests.ports import free_port
from tests.workers.api.door import eventually
from workers.client import Rotulus

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.may_block, pytest.mark.timeout(300)]

WITHIN_S = 60
JOBS = """
import anyio

from rotulus import App

app = App()


@app.job()
async def thumbnail(image_id: str, width: int) -> dict[str, str]:
    return {"made": f"{image_id}-{width}.png"}


@app.job()
async def slow(name: str) -> str:
    open(f"{name}.begun", "w").close()
    await anyio.sleep(60)
    return "at last"
"""
ASK = """
import sys

import anyio

from pictures.jobs import slow, thumbnail


async def main() -> None:
    if sys.argv[1:]:
        print((await slow.enqueue(name=sys.argv[1])).request_id)
        return
    job = await thumbnail.enqueue(image_id="i1", width=80)
    print((await job.result(timeout=50)).result)


anyio.run(main)
"""


class Dev:
    """A run of the command in a folder."""

    def __init__(self, folder: Path, file: str) -> None:
        self.folder, self.port = folder, free_port()
        self.file = folder / file
        self.log = folder / "dev.log"
        self.environment = {**os.environ, "ROTULUS_GATEWAY_URL": f"http://127.0.0.1:{self.port}"}
        command = [sys.executable, "-m", "rotulus", "dev", file]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)], cwd=folder, stdout=log, stderr=log
            )

    async def says(self, text: str, times: int = 1) -> None:
        def is_said() -> bool:
            return self.log.read_text().count(text) >= times

        await eventually(is_said, WITHIN_S)

    async def ask(self, *arguments: str) -> str:
        command = [sys.executable, "ask.py", *arguments]
        done = await anyio.run_process(command, cwd=self.folder, env=self.environment, check=False)
        assert done.returncode == 0, done.stderr.decode() + self.log.read_text()
        return done.stdout.decode().strip()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    """A run with a package of jobs below its folder."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "__init__.py").write_text("")
    (tmp_path / "pictures" / "jobs.py").write_text(JOBS)
    (tmp_path / "ask.py").write_text(ASK)
    with ended(Dev(tmp_path, "pictures/jobs.py")) as run:
        yield run


@contextmanager
def ended(run: Dev) -> Iterator[Dev]:
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.end()


async def test_a_file_of_jobs_is_served_changed_mistaken_and_mended(dev: Dev):
    await dev.says("serves thumbnail, slow")
    assert await dev.ask() == "{'made': 'i1-80.png'}"
    dev.file.write_text(JOBS.replace(".png", ".jpg"))
    await dev.says("changed, serves")
    assert await dev.ask() == "{'made': 'i1-80.jpg'}"
    dev.file.write_text(JOBS.replace("app = App()", "app = App("))
    await dev.says("jobs.py:6: '(' was never closed; the jobs of before go on")
    async with Rotulus(dev.environment["ROTULUS_GATEWAY_URL"]) as rotulus:
        job = await rotulus.enqueue({"image_id": "i2", "width": 8}, queue="thumbnail")
        assert (await job.result(WITHIN_S)).result == {"made": "i2-8.jpg"}
    dev.file.write_text(JOBS + "\nnobody\n")
    await dev.says("does not load")
    # A schema that changed reaches the gateway, which has none of the code.
    dev.file.write_text(JOBS.replace("width: int", "width: str"))
    await dev.says("changed, serves", 2)
    (dev.folder / "ask.py").write_text(ASK.replace("width=80", "width='wide'"))
    assert await dev.ask() == "{'made': 'i1-wide.png'}"
    assert "done in" in dev.log.read_text()
    assert dev.end() == 0
    assert "Traceback" not in dev.log.read_text().replace("does not load", "")


async def test_jobs_in_hand_are_given_back_at_a_change_and_done_by_the_new_code(dev: Dev):
    await dev.says("serves thumbnail, slow")
    await dev.ask("first")
    await eventually((dev.folder / "first.begun").exists, WITHIN_S)
    dev.file.write_text(JOBS.replace("anyio.sleep(60)", "anyio.sleep(0)"))
    # No claim has to expire for it, which would take longer than this wait allows.
    await dev.says("slow  done in")
    assert "attempt 2" not in dev.log.read_text(), "a change counts as no attempt"


def test_a_port_that_somebody_has_is_said_with_the_option_for_another(tmp_path: Path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = rotulus(tmp_path, "dev", "jobs.py", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "address_unusable" in done.stderr
    assert "name another port by --port" in done.stderr


def test_what_cannot_be_served_is_said_with_a_code(tmp_path: Path):
    (tmp_path / "a b.py").write_text("")
    for file, code in (("jobs.py", "app_file_unknown"), ("a b.py", "app_file_invalid")):
        done = subprocess.run(
            [sys.executable, "-m", "rotulus", "dev", file],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert code in done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project as the command writes it."""
    done = rotulus(tmp_path, "new", "greetings")
    assert done.returncode == 0, done.stderr
    assert "rotulus dev greetings.py" in done.stdout
    return tmp_path / "greetings"


def rotulus(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rotulus", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_new_project_passes_its_own_tests(project: Path):
    command = [sys.executable, "-m", "pytest", "-q", *named_plugin()]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


# By day it passes its own tests, and another file of jobs is served.
@pytest.mark.nightly
async def test_a_new_project_is_served_and_asked(project: Path):
    with ended(Dev(project, "greetings.py")) as run:
        await run.says("serves greet")
        assert await run.ask() == "{'said': 'hello, hello, world'}"
        assert run.end() == 0
