"""The wheel `rotulus-client` in an environment that has what it declares and nothing else.

The programs of its README run there against a gateway, which is killed under one of them.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path

import anyio
import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.work.contents import EXTRACTION_QUEUE
from tests.forked import ForkedProgram
from tests.installed_plugins import producers
from tests.ports import free_port
from tests.workers.api.door import rows
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.worker_proof import WorkerProof
from workers.environment.system_host import system_host

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "workers" / "client"
STARTS = 3
START_RATIO_MAX = 4
"""CPU time of a start with the client to one with what it brings."""

TOKEN = "the-token-of-these-tests"  # noqa: S105 - made up here
WAIT_S = 55
NAME = re.compile(r"^[A-Za-z0-9._-]+")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel and what the wheel declares, taken from this one."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=CLIENT, check=True, capture_output=True)
    [wheel] = folder.glob("rotulus_client-*.whl")
    venv.create(folder / "env", symlinks=True)
    [site] = (folder / "env").glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    declared = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]["dependencies"]
    for name in needed(declared, set()):
        for file in distribution(name).files or ():
            top = file.parts[0]
            source = Path(str(distribution(name).locate_file(top)))
            if top != ".." and not (site / top).exists():
                (site / top).symlink_to(source)
    return folder / "env" / "bin" / "python"


def needed(requirements: list[str], seen: set[str]) -> Iterator[str]:
    for requirement in requirements:
        match = NAME.match(requirement)
        if match and "extra ==" not in requirement and match[0] not in seen:
            name = match[0]
            if "python_version" in requirement and name != "typing_extensions":
                continue
            seen.add(name)
            yield name
            yield from needed(distribution(name).requires or [], seen)


def _started(python: Path, code: str) -> tuple[float, list[str]]:
    """Return the CPU time of a process that runs the code, and the modules that it has loaded."""
    code = f"{code}; import sys, time; print(time.process_time(), *sorted(sys.modules))"
    out = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    cpu_s, *modules = out.split()
    return float(cpu_s), modules


def test_the_wheel_starts_at_once_and_brings_nothing_else(python: Path):
    bare = [_started(python, "import httpx, anyio") for _ in range(STARTS)]
    started = [
        _started(python, "import rotulus_client; rotulus_client.Rotulus()") for _ in range(STARTS)
    ]
    _, modules = started[0]
    foreign = {"kernel", "queues", "sqlalchemy", "pydantic", "orjson", "structlog", "rich"}
    assert not foreign & set(modules)
    assert "rotulus_client.rotulus" in modules
    assert min(started)[0] < START_RATIO_MAX * min(bare)[0]
    assert [*python.parents[1].rglob("rotulus_client/py.typed")]


def gateway(folder: Path, port: int, redis_url: str) -> ForkedProgram:
    return ForkedProgram(
        "tests.workers.gateway.gateway_to_be_killed",
        [str(folder), str(port), redis_url],
        os.environ | {"ROTULUS_LOG_LEVEL": "error", "ROTULUS_WORKER_TOKEN": TOKEN},
        folder.with_suffix(".log"),
    )


async def work(url: str, ledger: Ledger) -> None:
    """Do what is open, as a worker does, whatever becomes of the gateway."""
    async with GatewayClient(url, auth=WorkerProof(TOKEN)) as client:
        while True:
            waiting = [row["request_id"] for row in rows(ledger, schema.outbox) if row["open"]]
            reports = [
                {"report_kind": "transition_due", "request_id": name} for name in waiting[:20]
            ]
            if reports:
                body = {"queue": EXTRACTION_QUEUE, "reports": reports}
                await client.post("/internal/work", body)
            await anyio.sleep(0.02)


async def test_programs_run_and_one_of_them_through_a_killed_gateway(
    tmp_path: Path, valkey_url: str, python: Path
):
    folder, port = tmp_path / "data", free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {"ROTULUS_GATEWAY_URL": url, "PATH": ""}
    waiting, bulk = producers()
    lines: list[str] = []
    with anyio.fail_after(WAIT_S):
        with ExitStack() as gateways:
            first = gateways.enter_context(gateway(folder, port, valkey_url))
            async with GatewayClient(url) as client:
                while not await client.answers("/healthz"):
                    await anyio.sleep(0.02)
            ledger = Ledger(SqliteStore(folder / "ledger.db"), system_host())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work, url, ledger)
                done = await anyio.run_process([python, "-c", waiting], env=environment)
                assert done.stdout == b"completed\n"
                command = [python, "-c", bulk]
                async with await anyio.open_process(command, env=environment) as process:
                    assert process.stdout is not None
                    text = b""
                    async for chunk in process.stdout:
                        text += chunk
                        if text.count(b"\n") >= 50 and first.poll() is None:
                            assert text.count(b"\n") < 250, "in the middle"
                            first.kill()
                            first.wait()
                            gateways.enter_context(gateway(folder, port, valkey_url))
                    lines = text.decode().splitlines()
                tasks.cancel_scope.cancel()
            assert first.poll() is not None, "it was killed in the middle"
    assert sorted(lines) == sorted(f"bulk:{number} completed" for number in range(300))
    assert len(rows(ledger, schema.outbox)) == 301
    ledger.close()
