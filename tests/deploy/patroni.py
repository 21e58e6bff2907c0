"""Two PostgreSQL servers under Patroni with an etcd, as `deploy/postgresql.md` says to set them."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psycopg

from tests.ports import free_ports
from tests.postgres import OWNER
from tests.system.tree_run import wait_for

PROGRAMS = ("patroni", "etcd")
NAMES = ("one", "two")
STAND_S = 120.0
_AS_OWNER: dict[str, Any] = {"user": OWNER, "group": pwd.getpwnam(OWNER).pw_gid, "extra_groups": []}


def postgres_programs() -> Path | None:
    """Return the folder of a PostgreSQL's programs that its owner may run, None where none is."""
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)


class PatroniServers:
    """Two servers, of which Patroni makes one the primary and the other its synchronous standby."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        etcd, peer, *ports = free_ports(6)
        self._ports = dict(zip(NAMES, zip(ports[::2], ports[1::2], strict=True), strict=True))
        self._etcd = f"127.0.0.1:{etcd}"
        urls = (f"http://{self._etcd}", f"http://127.0.0.1:{peer}")
        client = (f"--listen-client-urls={urls[0]}", f"--advertise-client-urls={urls[0]}")
        peers = (f"--listen-peer-urls={urls[1]}", f"--initial-advertise-peer-urls={urls[1]}")
        cluster = f"--initial-cluster=default={urls[1]}"
        self._start("etcd", f"--data-dir={folder / 'etcd'}", *client, *peers, cluster)
        self._processes = {name: self._start_node(name) for name in NAMES}
        wait_for("a synchronous standby", self.is_in_step, STAND_S)

    def url(self, database: str) -> str:
        """Return the URL of a database at whichever server is the primary."""
        hosts = ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())
        parameters = "target_session_attrs=primary&connect_timeout=2"
        return f"postgresql://rotulus@{hosts}/{database}?{parameters}"

    def new_database(self) -> str:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE ledger TEMPLATE template0 ENCODING 'UTF8'")
        return self.url("ledger")

    def is_in_step(self) -> bool:
        """Tell whether a COMMIT waits for the standby."""
        members = self._cluster().get("members", [])
        return "sync_standby" in {member["role"] for member in members}

    def primary(self) -> str:
        """Return the name of the primary, empty while there is none."""
        members = self._cluster().get("members", [])
        return next((each["name"] for each in members if each["role"] == "leader"), "")

    def kill_primary(self) -> str:
        """Kill the primary with the Patroni that watches over it; return its name."""
        name = self.primary()
        self._processes[name].send_signal(signal.SIGKILL)
        self._processes[name].wait()
        pid = int((self._folder / name / "data" / "postmaster.pid").read_text().split()[0])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return name

    def bring_back(self, name: str) -> None:
        """Start a Patroni again, which lets its server follow the new primary."""
        self._processes[name] = self._start_node(name)
        wait_for("a synchronous standby", self.is_in_step, STAND_S)

    def _cluster(self) -> dict[str, Any]:
        for _, port in self._ports.values():
            with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{port}/cluster") as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        return {}

    def _start_node(self, name: str) -> "subprocess.Popen[bytes]":
        port, api = self._ports[name]
        settings = {
            "scope": "ledger",
            "name": name,
            "restapi": {"listen": f"127.0.0.1:{api}", "connect_address": f"127.0.0.1:{api}"},
            "etcd3": {"host": self._etcd},
            "bootstrap": {
                "dcs": {
                    "ttl": 20,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "synchronous_mode": True,
                    "postgresql": {"use_pg_rewind": True, "parameters": {"wal_log_hints": "on"}},
                },
                "initdb": [{"encoding": "UTF8"}, {"auth": "trust"}, "no-locale"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{port}",
                "connect_address": f"127.0.0.1:{port}",
                "data_dir": str(self._folder / name / "data"),
                "bin_dir": str(postgres_programs()),
                "pgpass": str(self._folder / name / "pgpass"),
                "authentication": {
                    kind: {"username": "rotulus", "password": "unasked"}
                    for kind in ("superuser", "replication", "rewind")
                },
                "parameters": {"unix_socket_directories": str(self._folder / name)},
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
            },
        }
        place = self._folder / name
        if not place.exists():
            place.mkdir()
            shutil.chown(place, OWNER)
        # JSON is YAML.
        (self._folder / f"{name}.yml").write_text(json.dumps(settings))
        return self._start("patroni", str(self._folder / f"{name}.yml"), log=name)

    def _start(self, program: str, *arguments: str, log: str = "") -> "subprocess.Popen[bytes]":
        with (self._folder / f"{log or program}.log").open("ab") as output:
            process = subprocess.Popen(
                [program, *arguments], cwd=self._folder, stdout=output, stderr=output, **_AS_OWNER
            )
        self._stack.callback(_end, process)
        return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STAND_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def patroni_servers() -> Iterator[PatroniServers]:
    """Hold both servers for as long as the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="rotulus-patroni-"))
    shutil.chown(folder, OWNER)
    folder.chmod(0o755)
    try:
        with ExitStack() as stack:
            yield PatroniServers(folder, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
