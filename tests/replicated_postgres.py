"""A PostgreSQL with a standby: two servers on the loopback that change their parts at a failover.

The standby streams from the primary, and may be cut off from it. A failover ends the primary
without a word and promotes the standby; the old primary comes back as a standby of the new one
(`rejoin`), or as a second server that may be written (`return_as_it_was`).
"""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.ports import free_ports
from tests.postgres import OwnPostgres, programs_of_postgres
from tests.system.tree_run import wait_for

WAIT_S = 60.0
_NAMES = ("one", "two")
_SETTINGS = (
    "full_page_writes=on",
    "wal_log_hints=on",
    "wal_keep_size=256MB",
    "wal_retrieve_retry_interval=200ms",
)
"""What `pg_rewind` and a standby without a slot need, and that it soon streams again."""

_ARRIVED = (
    "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
    " AND replay_lsn >= pg_current_wal_lsn() AND sync_state = ANY ('{{{}}}')"
)


class ReplicatedPostgres:
    """Two servers, of which one is the other's standby."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2)
        places = [folder / name for name in _NAMES]
        for place in places:
            place.mkdir()
        programs = programs_of_postgres()
        self.primary = OwnPostgres(programs, places[0], ports[0])
        programs = self.primary.programs
        with (self.primary.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{setting}\n" for setting in _SETTINGS)
        self.primary.start()
        try:
            self.standby = OwnPostgres(programs, places[1], ports[1], self._copy_primary)
            self.standby.start()
            self.settle()
        except BaseException:
            self.primary.stop(signal.SIGINT)
            raise

    @property
    def standby_name(self) -> str:
        """The name under which the standby streams."""
        return self.standby.data.parent.name

    def new_database(self) -> str:
        """Make an empty database and return its URL: the primary, and then the standby."""
        name = urlsplit(self.primary.new_database()).path
        ports = (urlsplit(server.url).port for server in (self.primary, self.standby))
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://rotulus@{hosts}{name}?target_session_attrs=read-write"

    def begin_at_first(self, url: str) -> None:
        """Let the first host of a URL be the primary, with the other as its standby."""
        self.settle()
        if (
            urlsplit(self.primary.url).netloc.partition("@")[2]
            != urlsplit(url).netloc.partition("@")[2].partition(",")[0]
        ):
            self.settle(synchronous=True)
            self.fail_over()
            self.rejoin()

    def at_standby(self, url: str) -> str:
        """Return the URL of the same database at the standby alone."""
        return urlunsplit(urlsplit(self.standby.url)._replace(path=urlsplit(url).path))

    def settle(self, *, synchronous: bool = False) -> None:
        """Wait until the standby shows everything, and let a COMMIT wait for it or not."""
        source = f"{self._conninfo(self.primary)} application_name={self.standby_name}"
        self._set(self.standby, f"primary_conninfo = '{source}'")
        names = "*" if synchronous else ""
        self._set(self.primary, f"synchronous_standby_names = '{names}'")
        state = "sync,quorum" if synchronous else "async"
        self._wait_for_standby(_ARRIVED.format(state))

    def cut_off(self) -> None:
        """Let the standby receive nothing more; it takes part in no COMMIT from then on."""
        self._set(self.standby, "primary_conninfo = ''")
        receiving = "SELECT count(*) FROM pg_stat_wal_receiver"
        wait_for("no receiver", lambda: self.standby.run(receiving) == [(0,)], WAIT_S)

    def pause_replay(self) -> None:
        """Let the standby show nothing more of what it receives until it is promoted."""
        self.standby.run("SELECT pg_wal_replay_pause()")

    def fail_over(self) -> None:
        """End the primary without a word, and promote the standby."""
        self.primary.stop(signal.SIGQUIT)
        self._set(self.standby, "synchronous_standby_names = ''")
        assert self.standby.run(f"SELECT pg_promote(true, {WAIT_S:.0f})") == [(True,)]
        self.primary, self.standby = self.standby, self.primary

    def end_clients(self) -> None:
        """End every connection to the primary, as its restart would."""
        self.primary.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

    def rejoin(self) -> None:
        """Let the old primary follow the new one, without what it alone has."""
        self.standby.stop(signal.SIGINT)
        # The programs read from the control file which history the new primary is of.
        self.primary.run("CHECKPOINT")
        source = f"--source-server={self._conninfo(self.primary)}"
        self.standby.call("pg_rewind", source, "--no-sync", "--write-recovery-conf")
        self.standby.start()
        self.settle()

    def return_as_it_was(self) -> None:
        """Start the old primary as a second server that may be written and waits for nobody."""
        with (self.standby.data / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")
        self.standby.start()

    def stop(self) -> None:
        """End both."""
        for server in (self.standby, self.primary):
            server.stop(signal.SIGINT)

    def _copy_primary(self, standby: OwnPostgres) -> None:
        source = f"--dbname={self._conninfo(self.primary)}"
        standby.call("pg_basebackup", source, "--write-recovery-conf", "-c", "fast", "--no-sync")

    def _conninfo(self, server: OwnPostgres) -> str:
        parts = urlsplit(server.url)
        return f"host=127.0.0.1 port={parts.port} user=rotulus dbname=postgres"

    def _set(self, server: OwnPostgres, setting: str) -> None:
        server.run(f"ALTER SYSTEM SET {setting}")
        server.run("SELECT pg_reload_conf()")

    def _wait_for_standby(self, question: str) -> None:
        wait_for("a standby", lambda: self.primary.run(question) == [(1,)], WAIT_S)


@contextmanager
def replicated_postgres() -> Iterator[ReplicatedPostgres]:
    """Hold a primary and its standby for as long as the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="rotulus-pg-"))
    folder.chmod(0o755)
    servers = None
    try:
        servers = ReplicatedPostgres(folder)
        yield servers
    finally:
        if servers is not None:
            servers.stop()
        shutil.rmtree(folder, ignore_errors=True)
