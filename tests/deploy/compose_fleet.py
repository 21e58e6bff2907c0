"""Runs the fleet of `deploy/compose` without containers, and prints what it met as JSON.

    python -m tests.deploy.compose_fleet FOLDER

`in_own_network` starts it where each service has its name, an address of the loopback, and the
ports that the file says. Each process has the variables of the file, but for the address that it
binds and the folders; Valkey is the machine's Redis. It ends with everything that it started.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.deploy.compose_file import FOLDER, compose_file, processes
from tests.deploy.processes import DEPLOY, Process
from tests.postgres import OwnPostgres, programs_of_postgres
from tests.process_environment import process_environment
from tests.system.tree_run import wait_for

PROGRAMS: Final = ("bwrap", "caddy", "curl", "prometheus", "redis-server")
STAND_S: Final = 120.0

_ADDRESSES: Final = {
    "localhost": "127.0.0.1",
    "postgres": "127.0.0.1",
    "grafana": "127.0.0.1",
    "gateway-1": "127.0.0.11",
    "gateway-2": "127.0.0.12",
    "worker-1": "127.0.0.21",
    "worker-2": "127.0.0.22",
    "valkey": "127.0.0.32",
}
_GATEWAY: Final = "http://gateway-1:8440"
_SITE: Final = "https://localhost/rotulus"
_ROTULUS: Final = str(Path(sys.executable).parent / "rotulus")
_ROOT: Final = DEPLOY.parent


def in_own_network(folder: Path) -> dict[str, Any]:
    """Run this module in a network of its own and return its report."""
    hosts = folder / "hosts"
    hosts.write_text("".join(f"{address} {name}\n" for name, address in _ADDRESSES.items()))
    apart = ("--unshare-net", "--unshare-pid", "--die-with-parent")
    bound = ("--dev-bind", "/", "/", "--ro-bind", str(hosts), "/etc/hosts")
    module = (sys.executable, "-m", __spec__.name, str(folder))
    command = ["bwrap", *bound, *apart, *module]
    run = subprocess.run(command, cwd=_ROOT, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    report: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return report


class _Fleet:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.compose = folder / "deploy" / "compose"
        shutil.copytree(FOLDER, self.compose)
        shutil.copy(DEPLOY / "redis.acl", self.compose.parent)
        subprocess.run([self.compose / "secrets.sh"], check=True, capture_output=True)
        self._secrets = self.compose / "secrets"

    def start(self, name: str, command: Sequence[str], **variables: str) -> subprocess.Popen[bytes]:
        """Start a process that ends at the end."""
        env = {**process_environment(), **variables}
        # A port of a test's own is not wanted here.
        env = {key: text for key, text in env.items() if key in variables or key[:8] != "ROTULUS_"}
        return self._stack.enter_context(_running(self._folder, name, command, env))

    def start_data(self) -> None:
        """Start the database, Redis and the proxy."""
        # Its own user goes through no folder of ours.
        place = Path(tempfile.mkdtemp(prefix="rotulus-pg-"))
        self._stack.callback(shutil.rmtree, place, ignore_errors=True)
        server = OwnPostgres(programs_of_postgres(), place, 5432)
        self._stack.callback(server.stop, signal.SIGINT)
        server.start()
        server.run("CREATE DATABASE rotulus")
        [*_, words] = [compose_file()["services"]["valkey"]["command"]]
        acl, own = str(self._secrets / "valkey_acl"), str(self._folder)
        files = {"/run/secrets/valkey_acl": acl, "/tmp": own}  # noqa: S108 - of the container
        command = [files.get(word, word) for word in words[1:]]
        self.start("redis", ["redis-server", *command, "--bind", _ADDRESSES["valkey"]])
        config = ("--adapter", "caddyfile", "--config", str(self.compose / "Caddyfile"))
        self.start("caddy", ["caddy", "run", *config], XDG_DATA_HOME=str(self._folder))

    def start_process(self, process: Process) -> subprocess.Popen[bytes]:
        """Start a gateway or a worker with the variables that the file gives it."""
        own = {
            "ROTULUS_SECRETS_DIR": str(self._secrets),
            "ROTULUS_HOST": socket.gethostbyname(process.name),
            "ROTULUS_DATA_DIR": str(self._folder / process.kind),
        }
        variables = {**process.variables, **own}
        return self.start(process.name, [_ROTULUS, *process.command], **variables)

    def start_prometheus(self) -> None:
        """Start Prometheus, which asks every second instead of every fifteen."""
        place = self._folder / "prometheus"
        place.mkdir()
        text = (self.compose / "prometheus.yml").read_text()
        text = text.replace("15s", "1s").replace("/run/secrets", str(self._secrets))
        (place / "prometheus.yml").write_text(text)
        shutil.copy(DEPLOY / "prometheus-alerts.yml", place)
        config = (f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data")
        self.start("prometheus", ["prometheus", *config])

    def give_keys(self) -> None:
        """Run the script that gives Prometheus a key, with a `docker` that goes to the gateway."""
        programs = self._folder / "programs"
        programs.mkdir()
        shim = programs / "docker"
        shim.write_text(
            "#!/bin/sh -e\n"
            'test "$1 $2 $3 $4 $6" = "compose exec -T --env gateway-1"\n'
            f'shift 6\nexec "$@" --gateway {_GATEWAY}\n'
        )
        shim.chmod(0o755)
        path = f"{programs}:{Path(_ROTULUS).parent}:{os.environ['PATH']}"
        environment = {**process_environment(), "PATH": path, "ROTULUS_KEY_FILE": str(self._owner)}
        subprocess.run([self.compose / "keys.sh"], env=environment, check=True)

    def ask(self, url: str) -> str:
        """Return what a URL is answered with, empty where that is no success."""
        authority = self._folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        return _output("curl", "-sf", "--cacert", str(authority), url)

    def rotulus(self, *words: str) -> str:
        """Run a command as an operator does, and return what it prints."""
        database = (self._secrets / "ROTULUS_DATABASE_URL").read_text()
        key_file = {"ROTULUS_KEY_FILE": str(self._owner)} if self._owner.exists() else {}
        return _output(_ROTULUS, *words, ROTULUS_DATABASE_URL=database, **key_file)

    @property
    def _owner(self) -> Path:
        return self._folder / "gateway" / "owner.key"


def _output(*command: str, **variables: str) -> str:
    env = {**process_environment(), **variables}
    run = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else ""


@contextmanager
def _running(
    folder: Path, name: str, command: Sequence[str], env: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _up(fleet: _Fleet) -> dict[str, str]:
    answer = fleet.ask("http://127.0.0.1:9090/api/v1/query?query=up")
    series = json.loads(answer)["data"]["result"] if answer else []
    return {each["metric"]["instance"]: each["value"][1] for each in series}


def _report(folder: Path) -> Iterator[tuple[str, Any]]:
    with ExitStack() as stack:
        fleet = _Fleet(folder, stack)
        fleet.start_data()
        started = {
            name: fleet.start_process(process)
            for name, process in processes(compose_file()).items()
        }
        fleet.start_prometheus()
        gateways = [name for name in started if name.startswith("gateway")]
        for name in gateways:
            url = f"http://{name}:8440"
            ready = partial(fleet.rotulus, "health", "--ready", "--gateway", url)
            wait_for(name, ready, STAND_S)
        wait_for("the proxy", lambda: fleet.ask(f"{_SITE}/readyz"), STAND_S)
        yield "page", "<title>" in fleet.ask(f"{_SITE}/login")
        yield "without_key", fleet.ask(f"{_SITE}/metrics")
        sample = str(_ROOT / "workers" / "dockets" / "sample.jsonl")
        yield (
            "ingest",
            fleet.rotulus("ingest", sample, "--gateway", f"{_GATEWAY}/rotulus"),
        )
        fleet.give_keys()
        wait_for("Prometheus", lambda: [*_up(fleet).values()] == ["1"] * len(started), STAND_S)
        yield "up", _up(fleet)
        yield "first_end", _end(started.pop(gateways[0]))
        wait_for("the other gateway", lambda: fleet.ask(f"{_SITE}/readyz"), STAND_S)
        yield "ends", {name: _end(process) for name, process in reversed(started.items())}
        yield "verify", fleet.rotulus("verify")


def _end(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(60)


if __name__ == "__main__":
    os.umask(0o022)
    report = dict(_report(Path(sys.argv[1])))
    sys.stdout.write(f"{json.dumps(report)}\n")
