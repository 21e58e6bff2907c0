"""Connects to one PostgreSQL database: how long anything may take, and what may be said of it.

The driver is psycopg 3 (decision kernel/0053). What bounds each wait:

- for a connection: `CONNECT_TIMEOUT_S`;
- for a lock: `LOCK_TIMEOUT_MS`, and then the ledger is unavailable, which may be tried again;
- for a process that stopped while it held the head's lock: `IDLE_WRITER_MAX_MS`, after which the
  server ends its transaction and everybody else goes on;
- for a machine that went away: `SILENCE_MAX_MS`, on both sides;
- for each reply: `REPLY_MAX_S`, after which the connection is given up. A proxy between may keep a
  connection open whose other end is gone, so that nothing but a clock of our own sees it. The
  others that were open then may be lost in the same way, and are given up without being asked.

Several hosts may be named, of which one is written to at a time. A store that writes reads there as
well: a standby may lag behind what was just answered. That a session only reads is set when it is
open; before, libpq would take the server for a standby (decision kernel/0590).

There is no `statement_timeout`, and one of the role or the database does not count: it would cut
short a COMMIT that waits for a synchronous replica, and the server then says that it committed;
given up here, its outcome is unknown. No bound covers a process that stops while the server sends
it more than the socket holds; an operator has to end it.

A pooler in between may pass over what is set when a connection is made: it is set again then
(`pooler.py`).
"""

import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.conninfo import conninfo_to_dict
from psycopg.generators import fetch_many, send
from psycopg.pq import Format

from kernel.ledger.postgres.column_arrays import ColumnArray
from kernel.ledger.postgres.pooler import (
    is_pooled,
    refuse_options_refused,
    refuse_shared_sessions,
    set_for_session,
)
from kernel.values.errors import LedgerUnavailable

RV = TypeVar("RV")

WAIT_EACH_S = 0.1
LOCK_TIMEOUT_MS = 3_000
CONNECT_TIMEOUT_S = 5
"""At each host that is named; the URL may name less by `connect_timeout`."""
SILENCE_MAX_MS = 30_000
"""How long the other side may leave sent data, or a probe, unacknowledged."""
PROBE_AFTER_S = 10
PROBE_EACH_S = 5
_PROBES = SILENCE_MAX_MS // 1000 // PROBE_EACH_S - PROBE_AFTER_S // PROBE_EACH_S
IDLE_WRITER_MAX_MS = 60_000
"""A writer that stops in the middle holds everybody up; the server ends it after this."""

REPLY_MAX_S = LOCK_TIMEOUT_MS / 1000 + 2
"""Longer than a lock is waited for."""

_PORT = "5432"
_OF_PRIMARIES = ("primary", "read-write")
"""What a URL may ask for of a server that is written to."""


Statement = tuple[str, Sequence[Any]]
"""A text with the driver's marks, and its values."""


class StatementReply(NamedTuple):
    """What the server answered to a statement."""

    rows: list[tuple[Any, ...]]
    status: str
    """What it calls what it did, such as ``COMMIT``."""


_DONE = frozenset({psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK})


class Silences:
    """How often a connection of one store was given up because no reply came."""

    def __init__(self) -> None:
        self.count = 0


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is given up when a reply takes longer than `reply_max_s`."""

    reply_max_s: float | None = None
    silences: Silences
    silences_before: int
    """How many there were when this one was opened."""

    _rollback_sent = False

    def __init__(self, pgconn: psycopg.pq.abc.PGconn, *arguments: Any, **options: Any) -> None:
        super().__init__(pgconn, *arguments, **options)
        self._names: dict[str, bytes] = {}
        """The names that the server has for statements that `exchange` has sent."""

        self._named = 0
        self.refused_at: int | None = None
        """Which of the last statements the server refused, -1 where nothing was sent; None where it
        refused none, or that is not known."""

    def exchange(self, statements: Sequence[Statement]) -> list[StatementReply]:
        """Send statements in one message and return their replies.

        Nothing is sent where the server is known to have ended the session. Behind a statement that
        the server refuses it passes over the rest.

        Raises:
            psycopg.Error: that of the first statement that was refused.
            UnicodeEncodeError: a text has half of a surrogate pair; nothing was sent.
        """
        self.refused_at = -1
        values = [[*map(_encode, values)] for _, values in statements]
        said = select.poll()
        said.register(self.pgconn.socket, select.POLLIN)
        while said.poll(0):
            # Unasked the server says why it ends a session, and nothing has to be sent then.
            self.pgconn.consume_input()
        self.refused_at = None
        pgconn, new = self.pgconn, dict[str, bytes]()
        sent: list[str] = []
        """Of each reply that comes the text that it prepares, empty where it answers."""

        pgconn.enter_pipeline_mode()
        for (text, _), encoded in zip(statements, values, strict=True):
            name = self._names.get(text) or new.get(text)
            if name is None:
                self._named += 1
                name = new[text] = b"rotulus_%d" % self._named
                pgconn.send_prepare(name, _with_numbers(text))
                sent.append(text)
            contents, formats = [each for each, _ in encoded], [each for _, each in encoded]
            pgconn.send_query_prepared(name, contents, formats, Format.BINARY)
            sent.append("")
        pgconn.pipeline_sync()
        results = self.wait(_results(pgconn, len(sent)))
        loading = Transformer(self)
        replies: list[StatementReply] = []
        for text, result in zip(sent, results, strict=False):
            if result.status not in _DONE:
                self.refused_at = len(replies)
                raise psycopg.errors.error_from_result(result)
            if text:
                self._names[text] = new[text]
                continue
            loading.set_pgresult(result)
            rows = loading.load_rows(0, result.ntuples, tuple)
            replies.append(StatementReply(rows, (result.command_status or b"").decode()))
        return replies

    def send_rollback(self) -> None:
        """End a transaction that has only read; the next to use the connection awaits the reply."""
        self.pgconn.send_query(b"ROLLBACK")
        self._rollback_sent = True
        while self.pgconn.flush():
            self.wait(send(self.pgconn))

    def await_rollback(self) -> None:
        """Wait for the reply to the last `send_rollback`."""
        if self._rollback_sent:
            self._rollback_sent = False
            self.wait(fetch_many(self.pgconn))

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


def _results(pgconn: psycopg.pq.abc.PGconn, count: int) -> PQGen[list[psycopg.pq.abc.PGresult]]:
    """Return the results of so many statements of a pipeline, which ends here.

    Where the server ends the session, the last of them is why.
    """
    results: list[psycopg.pq.abc.PGresult] = []
    try:
        yield from send(pgconn)
        for _ in range(count):
            results += yield from fetch_many(pgconn)
        # The mark behind them.
        yield from fetch_many(pgconn)
    except psycopg.OperationalError:
        if not results or results[-1].status in _DONE:
            raise
    else:
        pgconn.exit_pipeline_mode()
    return results


def _encode(value: Any) -> tuple[bytes | None, Format]:
    """Return a value as it is sent: of a text and of a number the server knows the type."""
    if value is None or isinstance(value, bytes):
        return value, Format.BINARY
    if isinstance(value, ColumnArray):
        return value.encoded, Format.BINARY
    content = str(value).encode()
    if 0 in content:
        raise psycopg.DataError("a text holds U+0000")
    return content, Format.TEXT


@cache
def _with_numbers(text: str) -> bytes:
    """Return a text with the marks that the server reads."""
    parts = text.split("%s")
    numbered = (f"${place}{part}" for place, part in enumerate(parts[1:], start=1))
    return "".join((parts[0], *numbered)).encode()


def connect(
    url: str,
    place: str,
    *,
    read_only: bool,
    primary: bool,
    silences: Silences | None = None,
    is_next: bool = False,
) -> Connection:
    """Open a connection that commits by itself what is in no transaction.

    With `primary` a standby will not do, whatever the URL says. Only of a URL's first connection,
    not of the next ones, it is asked whether a pooler in between keeps sessions.

    Raises:
        LedgerUnavailable: when the server cannot be reached or refuses; `ledger_pooler_refuses` or
            `ledger_sessions_shared` where a pooler in between will not do.
    """
    settings = _session_settings(read_only=read_only)
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    open_one = partial(_open, url, place, options, primary=primary, silences=silences or Silences())
    connection = open_one()
    with close_on_failure(connection, place):
        if is_pooled(connection):
            if not is_next:
                refuse_shared_sessions(connection, open_one, place)
            set_for_session(connection, settings)
        if read_only:
            connection.execute("SET default_transaction_read_only = on")
    return connection


def _session_settings(*, read_only: bool) -> dict[str, str | int]:
    """Return what is set for a session, whatever its role or its database has."""
    settings: dict[str, str | int] = {
        "lock_timeout": LOCK_TIMEOUT_MS,
        "statement_timeout": 0,
        "client_encoding": "UTF8",
        # An export may take its time between its statements.
        "idle_in_transaction_session_timeout": 0 if read_only else IDLE_WRITER_MAX_MS,
    }
    if not read_only:
        settings["tcp_user_timeout"] = SILENCE_MAX_MS
    # The server probes for a client that went away, as the client probes for the server.
    return settings | {
        "tcp_keepalives_idle": PROBE_AFTER_S,
        "tcp_keepalives_interval": PROBE_EACH_S,
        "tcp_keepalives_count": _PROBES,
    }


def _open(url: str, place: str, options: str, *, primary: bool, silences: Silences) -> Connection:
    before = silences.count
    with unavailable(place):
        parts = conninfo_to_dict(url)
        try:
            connection = Connection.connect(
                url,
                autocommit=True,
                connect_timeout=connect_timeout_s(parts),
                target_session_attrs=_session_attrs(parts, primary=primary),
                tcp_user_timeout=SILENCE_MAX_MS,
                keepalives_idle=PROBE_AFTER_S,
                keepalives_interval=PROBE_EACH_S,
                keepalives_count=_PROBES,
                application_name="rotulus",
                options=f"{parts.get('options', '')} {options}".strip(),
            )
        except psycopg.OperationalError as error:
            refuse_options_refused(error, place)
            raise
    # The driver would drop all prepared statements after a ROLLBACK, those of `exchange` as well.
    connection.prepare_threshold = None
    connection.reply_max_s = REPLY_MAX_S
    connection.silences = silences
    connection.silences_before = before
    return connection


def _session_attrs(parts: Mapping[str, Any], *, primary: bool) -> str | None:
    """Return which servers of those that are named will do, None where any will."""
    stated: str | None = parts.get("target_session_attrs")
    if primary and stated not in _OF_PRIMARIES:
        return "primary"
    return stated or ("primary" if len(_hosts(parts)) > 1 else None)


def connect_timeout_s(parts: Mapping[str, Any]) -> int:
    """Return how long one host is waited for, by what the URL says and at most the bound."""
    stated = str(parts.get("connect_timeout") or "")
    return min(int(stated), CONNECT_TIMEOUT_S) if stated.isdecimal() else CONNECT_TIMEOUT_S


@contextmanager
def without_reply_limit(connection: Connection) -> Iterator[None]:
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
def close_on_failure(connection: Connection, place: str) -> Iterator[None]:
    """Close a connection that could not be made ready."""
    try:
        with unavailable(place):
            yield
    except BaseException:
        connection.close()
        raise


def place_of(url: str) -> str:
    """Return what a message may say of a database URL: the hosts, their ports and the name.

    Raises:
        LedgerUnavailable: when it is no such URL.
    """
    try:
        parts = None if _is_ambiguous(url) else conninfo_to_dict(url)
    except psycopg.Error:
        parts = None
    if parts is None or not all(port.isdecimal() for _, port in _hosts(parts)):
        # Outside the handler: the driver's message may repeat the URL.
        raise LedgerUnavailable(
            "the database URL cannot be read; ':', '/', '?' and '@' of a name or a password are"
            " written %3A, %2F, %3F and %40",
            code="database_url_invalid",
        )
    hosts = ",".join(f"{host}:{port}" for host, port in _hosts(parts))
    return f"postgresql://{hosts}/{parts.get('dbname') or ''}"


def _is_ambiguous(url: str) -> bool:
    """Tell whether libpq would read a part of a password as a host or as the database's name."""
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    return authority.count("@") > 1 or "@" in path


def _hosts(parts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each host that is named, in brackets where it is an IPv6 address, and its port."""
    hosts = str(parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = str(parts.get("port") or _PORT).split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    return [
        (f"[{host}]" if ":" in host else host or "localhost", port or _PORT)
        for host, port in zip_longest(hosts, ports, fillvalue="")
    ]
