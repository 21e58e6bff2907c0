"""The files of a release, in an empty folder, are all that a fleet by the units needs.

No unit is booted: each process is started as its unit says, with its variables and credentials, at
another port, because the instance of a unit is its port. What the machine has is a PostgreSQL and a
Redis whose user has the rights of the release's `redis.acl`.
"""

import json
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import release
from tests import loopback
from tests.deploy import unit_files
from tests.deploy.processes import Process
from tests.extraction_steps import extraction_step
from tests.package.installation import Installation, install
from tests.ports import free_port
from tests.postgres import running_postgres
from tests.process_environment import process_environment
from tests.system.tree_run import wait_for

READY_S = 120.0
REDIS = shutil.which("redis-server")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(REDIS is None, reason="needs the system's package redis-server"),
]


@dataclass
class Machine:
    """A machine on which a release was unpacked and installed."""

    folder: Path
    installation: Installation
    ports: dict[int, int]
    """The port here of each that the units name."""

    @property
    def deploy(self) -> Path:
        return self.folder / "deploy"

    @property
    def data(self) -> Path:
        return self.folder / "var"

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    def url(self, port: int) -> str:
        return f"http://127.0.0.1:{self.ports[port]}"

    def moved(self, text: str) -> str:
        """A variable of a unit with the ports and folders that it has here."""
        for port, here in self.ports.items():
            text = text.replace(str(port), str(here))
        places = {"/var/lib/rotulus": self.data, "/run/credentials": self.secrets}
        return str(places.get(text, text))

    def rotulus(self, *words: str) -> str:
        """Type a command of the owner's, on the machine of the gateways."""
        database = (self.secrets / "ROTULUS_DATABASE_URL").read_text()
        key = str(self.data / "owner.key")
        url = self.url(8440)
        settings = {"ROTULUS_KEY_FILE": key, "ROTULUS_GATEWAY_URL": url}
        return self.installation.run("rotulus", *words, ROTULUS_DATABASE_URL=database, **settings)

    @contextmanager
    def running(self, process: Process) -> Iterator[subprocess.Popen[bytes]]:
        """Run a process as its unit says."""
        variables = {name: self.moved(text) for name, text in process.variables.items()}
        with (self.folder / f"{process.name}.log").open("wb") as log:
            started = subprocess.Popen(
                [self.installation.bin / "rotulus", *process.command],
                cwd=self.data,
                env=self.installation.environment(**variables),
                stdout=log,
                stderr=log,
            )
        try:
            yield started
        finally:
            started.kill()
            started.wait()


@contextmanager
def redis_of(machine: Machine) -> Iterator[str]:
    """Run a Redis whose only user is that of the release; yield its URL."""
    acl = (machine.deploy / "redis.acl").read_text().replace("replace-this-password", "secret")
    (machine.folder / "users.acl").write_text(f"user default off\n{acl}")
    port = free_port()
    own = ("--aclfile", str(machine.folder / "users.acl"), "--dir", str(machine.folder))
    command = [str(REDIS), "--port", str(port), "--bind", "127.0.0.1", "--save", "", *own]
    server = subprocess.Popen(
        command, env=process_environment(), stdout=subprocess.DEVNULL, cwd=machine.folder
    )
    try:
        yield f"redis://rotulus:secret@127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def status_of(url: str, **headers: str) -> int:
    try:
        return loopback.get(url, headers=headers).status_code
    except httpx.TransportError:
        return 0


def test_a_release_is_all_that_a_fleet_by_the_units_needs(tmp_path: Path):
    archive = tmp_path / "rotulus-deploy.tar.gz"
    release.write_deploy_archive(archive)
    (tmp_path / "wheels").mkdir()
    installation = install(tmp_path / "wheels")
    machine = Machine(tmp_path / "machine", installation, {})
    for folder in (machine.folder, machine.data, machine.secrets):
        folder.mkdir(0o700)
    with tarfile.open(archive) as files:
        files.extractall(machine.folder, filter="data")
    processes = unit_files.processes(machine.deploy / "systemd")
    machine.ports |= {port: free_port() for each in processes.values() for port in each.ports}
    gateways = [
        port for each in processes.values() if each.kind == "gateway" for port in each.ports
    ]
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        stack.callback(server.drop_all)
        texts = {
            "ROTULUS_DATABASE_URL": server.new_database(),
            "ROTULUS_REDIS_URL": stack.enter_context(redis_of(machine)),
            "ROTULUS_WORKER_TOKEN": "a token for these processes",
        }
        for name, text in texts.items():
            (machine.secrets / name).write_text(text)
            (machine.secrets / name).chmod(0o600)
        assert {*texts} == {name for each in processes.values() for name in each.secrets}
        running = {
            name: stack.enter_context(machine.running(each)) for name, each in processes.items()
        }
        for port in gateways:
            ready = f"{machine.url(port)}/rotulus/readyz"
            wait_for(ready, lambda url=ready: status_of(url) == 200, READY_S, 0.2)
        # Who shows no key is nobody; the first owner's lies with the gateways.
        assert status_of(f"{machine.url(8440)}/rotulus/v1/queues") == 401
        assert "person:owner" in machine.rotulus("access", "caller")
        granted = ("keys", "create", "service:prometheus", "--role", "scraper", "--reason", "reads")
        key = json.loads(machine.rotulus(*granted, "--json"))["key"]
        for each in processes.values():
            [port] = each.ports
            base = machine.url(port) + ("/rotulus" if each.kind == "gateway" else "")
            bearer = {"Authorization": f"Bearer {key}"} if each.kind == "gateway" else {}
            metrics = f"{base}/metrics"
            wait_for(metrics, lambda: status_of(metrics, **bearer) == 200, READY_S, 0.2)  # noqa: B023
        (installation.project / "work.jsonl").write_text(
            json.dumps({"request_key": "a", "content": extraction_step("run-1")})
        )
        done = machine.rotulus("enqueue", "extraction-transition", "work.jsonl", "--wait")
        assert '{"completed":1}' in done
        assert len(json.loads(machine.rotulus("status", "--json"))["queues"]["fleet"]) == 2
        for process in reversed(running.values()):
            process.send_signal(signal.SIGTERM)
        assert {name: process.wait(60) for name, process in running.items()} == dict.fromkeys(
            running, 0
        )
        assert "verifies: true" in machine.rotulus("verify")
