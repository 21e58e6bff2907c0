"""Connections to one PostgreSQL database: how long anything may take, and what may be said of it.

The driver is psycopg 3 (decision kernel/0053). What bounds each wait:

- for a connection: `CONNECT_TIMEOUT_S`;
- for a lock: `LOCK_TIMEOUT_MS`, and then the ledger is unavailable, which may be tried again;
- for a process that stopped while it held the head's lock: `IDLE_WRITER_MAX_MS`, after which the
  server ends its transaction and everybody else goes on;
- for a machine that went away: `SILENCE_MAX_MS`, on both sides;
- for each reply: `REPLY_MAX_S`, after which the connection is given up. What lies between may keep
  a connection open whose other end is gone, so that nothing but a clock of our own sees it. The
  others that were open then may be lost in the same way, and are given up without being asked.

There is no `statement_timeout`: it would cut short a COMMIT that waits for a synchronous replica,
and the server then says that it committed; given up here, its outcome is unknown. No bound covers a
process that stops while the server sends it more than the socket holds; an operator has to end it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from kernel.errors import LedgerUnavailable

RV = TypeVar("RV")

WAIT_EACH_S = 0.1
LOCK_TIMEOUT_MS = 3_000
CONNECT_TIMEOUT_S = 5
SILENCE_MAX_MS = 30_000
"""How long the other side may leave sent data, or a probe, unacknowledged."""
PROBE_AFTER_S = 10
PROBE_EACH_S = 5
IDLE_WRITER_MAX_MS = 60_000
"""A writer that stops in the middle holds everybody up; the server ends it after this."""

REPLY_MAX_S = LOCK_TIMEOUT_MS / 1000 + 2
"""Longer than a lock is waited for."""


class Silences:
    """How often a connection of one store was given up because no reply came."""

    def __init__(self) -> None:
        self.count = 0


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is given up when a reply takes longer than `reply_max_s`."""

    reply_max_s: float | None = None
    looks_ahead = False
    """Whether it has the statement that looks at the head with each snapshot."""

    silences: Silences
    silences_before: int
    """How many there were when this one was opened."""

    @property
    def may_be_lost(self) -> bool:
        """Whether another connection of the store fell silent since this one was opened."""
        return self.silences_before < self.silences.count

    def wait(
        self, gen: PQGen[RV], interval: float = WAIT_EACH_S, timeout: float | None = None
    ) -> RV:
        """Wait for a reply; raises `psycopg.OperationalError` when there is none in time."""
        try:
            return super().wait(gen, interval, timeout or self.reply_max_s)
        except psycopg.OperationalError as error:
            # What was sent together has more replies to come when the server refuses some of it.
            is_over = self.pgconn.transaction_status != psycopg.pq.TransactionStatus.ACTIVE
            if is_over or error.sqlstate is not None:
                raise
            # A reply that came later would be taken for that of another statement.
            self.pgconn.finish()
            self.silences.count += 1
            raise psycopg.OperationalError("the server has not replied in time") from error


def connect(
    url: str, place: str, *, read_only: bool, silences: Silences | None = None
) -> Connection:
    """Open a connection that commits by itself what is in no transaction.

    Raises:
        LedgerUnavailable: when the server cannot be reached or refuses.
    """
    probes = SILENCE_MAX_MS // 1000 // PROBE_EACH_S - PROBE_AFTER_S // PROBE_EACH_S
    options = {"lock_timeout": LOCK_TIMEOUT_MS, "client_encoding": "UTF8"}
    if read_only:
        options["default_transaction_read_only"] = "on"
    else:
        options["idle_in_transaction_session_timeout"] = IDLE_WRITER_MAX_MS
        options["tcp_user_timeout"] = SILENCE_MAX_MS
    # The server probes for a client that went away, as the client probes for the server.
    options["tcp_keepalives_idle"] = PROBE_AFTER_S
    options["tcp_keepalives_interval"] = PROBE_EACH_S
    options["tcp_keepalives_count"] = probes
    before = 0 if silences is None else silences.count
    with unavailable(place):
        own_options = str(conninfo_to_dict(url).get("options", ""))
        ours = " ".join(f"-c {name}={value}" for name, value in options.items())
        connection = Connection.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            tcp_user_timeout=SILENCE_MAX_MS,
            keepalives_idle=PROBE_AFTER_S,
            keepalives_interval=PROBE_EACH_S,
            keepalives_count=probes,
            application_name="rotulus",
            options=f"{own_options} {ours}".strip(),
        )
    connection.reply_max_s = REPLY_MAX_S
    connection.silences = silences or Silences()
    connection.silences_before = before
    return connection


@contextmanager
def unbounded(connection: Connection) -> Iterator[None]:
    """Let replies take their time, where a statement goes over whole tables."""
    connection.reply_max_s = None
    try:
        yield
    finally:
        connection.reply_max_s = REPLY_MAX_S


def wait_for_the_disk(writer: Connection) -> None:
    """Make COMMIT wait for the disk, whatever the server's default is."""
    writer.execute(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    )


@contextmanager
def unavailable(place: str) -> Iterator[None]:
    """Raise the driver's errors as `LedgerUnavailable`."""
    try:
        yield
    except psycopg.Error as error:
        raise LedgerUnavailable(f"{place}: {error}") from error


@contextmanager
def closed_on_failure(connection: Connection, place: str) -> Iterator[None]:
    """Close a connection that could not be made ready."""
    try:
        with unavailable(place):
            yield
    except BaseException:
        connection.close()
        raise


def place_of(url: str) -> str:
    """Return what a message may say of a database URL: the host, the port and the name.

    Raises:
        LedgerUnavailable: when it is no such URL.
    """
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        parts = None
    if parts is None:
        # Outside the handler: the driver's message may repeat the URL.
        raise LedgerUnavailable("the database URL cannot be read", code="database_url_invalid")
    host = parts.get("host") or "localhost"
    return f"postgresql://{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"
