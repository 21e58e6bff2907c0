"""Keeps the ledger's tables in one PostgreSQL database, in the first schema of the search path.

- The row of the chain head is locked before anything else (while there is none yet, an advisory
  lock). Behind it writers take turns, so READ COMMITTED is enough: a statement sees what was
  committed before the lock was granted (decision kernel/0054). A transaction that is computed on a
  snapshot locks it when everything is ready to be written (decision kernel/0255): one message opens
  the snapshot and asks what is known to be needed, one locks, compares, writes and commits.
- An error inside a transaction makes PostgreSQL refuse the rest of it, so duplicates must not be
  errors: an insert asks for nothing to be done on a conflict and counts, and what may take the
  unique value of another row runs under a savepoint of its own.
- Text is compared byte by byte (``COLLATE "C"``), as in SQLite. It cannot hold U+0000: writing
  it is refused as `TextNotStorable`, and no row answers to it.
- After a COMMIT without an answer nothing is read before the head's lock is granted again: until
  then the server may still be committing, and a reader would be told the wrong outcome (K25).
- A COMMIT that the server answers with ROLLBACK is an error.
- The URL is a secret; messages name the host and the database only.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy import Table

from kernel.ledger.ad_hoc_query import QueryAnswer, QueryBounds
from kernel.ledger.archived_tables import NEWEST_SEGMENT
from kernel.ledger.head_watch import Ahead, HeadLook
from kernel.ledger.ledger import Head
from kernel.ledger.postgres import catalog as postgres_catalog
from kernel.ledger.postgres import connection as postgres_connection
from kernel.ledger.postgres.ahead import AheadRows, expectations, joined_statement
from kernel.ledger.postgres.column_arrays import column_array
from kernel.ledger.postgres.connection import (
    Connection,
    Silences,
    Statement,
    StatementReply,
    close_on_failure,
    connect,
    place_of,
    wait_for_the_disk,
)
from kernel.ledger.postgres.holders import NamedGateway, bear_name, look_at_holders
from kernel.ledger.postgres.query import run_query
from kernel.ledger.postgres.schema import (
    check_schema,
    column_types,
    create_schema,
    unique_columns,
    version_in,
)
from kernel.ledger.postgres.standbys import look_at_standbys
from kernel.ledger.quarantine import violations_query
from kernel.ledger.replication import Replication
from kernel.ledger.schema import chain_head
from kernel.ledger.schema_version import check_version
from kernel.ledger.store import statements
from kernel.ledger.store.catalog import ContentReport, StorageFault, refuse_differences
from kernel.ledger.store.keys import column_names, values_getter
from kernel.ledger.store.sql_tables import SqlTables
from kernel.ledger.store.tables import (
    NO_QUESTIONS,
    DuplicateKey,
    Expected,
    HeadMoved,
    MissingReference,
    Questions,
    Row,
    TableQuery,
    WriterTurn,
)
from kernel.ledger.went_back import ACCEPTED, WENT_BACK
from kernel.values.errors import (
    CommitOutcomeUnknown,
    LedgerHeld,
    LedgerUnavailable,
    TextNotStorable,
)

CONNECTIONS_DEFAULT = 8
CONNECTIONS_LEAST = 2
"""One that writes and one that reads."""
READER_WAIT_S = 10.0
IDLE_READERS_MAX = 8

_BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_WAIT_FOR_LOCKS = "SET LOCAL lock_timeout = {ms}"

_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_NEWEST_OF_KIND = (
    "(SELECT coalesce(max(receipt_sequence), 0) FROM receipts WHERE receipt_kind = '{}')"
)
_LOOK = (
    f"SELECT {', '.join(Head.__slots__)},"  # noqa: S608 - names of this module alone
    " (SELECT row_hash FROM kernel_event_log WHERE ec_sequence_number = %s),"
    " (SELECT receipt_hash FROM receipts WHERE receipt_sequence = %s),"
    f" {_NEWEST_OF_KIND.format(WENT_BACK)} > {_NEWEST_OF_KIND.format(ACCEPTED)} FROM chain_head"
)
_ASKED_BY_READERS = Questions(others=(NEWEST_SEGMENT, violations_query()))
"""What nearly every question asks first, whatever it is about."""

_HEAD = (
    "SELECT obj_description('chain_head'::regclass, 'pg_class'),"  # noqa: S608 - as above
    f" {', '.join(column_names(chain_head))} FROM chain_head"
)
"""Returns the version of the tables, which may have been migrated meanwhile, and the head's row."""

_LOCK_HEAD = f"{_HEAD} FOR UPDATE"

_LOCK_UNFOUNDED = "SELECT pg_advisory_xact_lock('chain_head'::regclass::oid::bigint)"

TURN_WAIT_MS = 1000
"""How long a writer waits for its turn, longer than a batch should take, before it goes without."""

_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE"
_TAKE_TURN = "LOCK TABLE ledger_ids IN SHARE UPDATE EXCLUSIVE MODE"
"""A table that is written once in a ledger's life stands for the turn. To lock it takes no
snapshot, so that the one that follows has what the writer before has committed."""

_KEEP_VERSION = "LOCK TABLE chain_head IN ROW SHARE MODE"
"""Waits for a migration, likewise before there is a snapshot."""

LOOK_EACH_MS = 250
"""After how long a writer that waits for the head looks who holds it."""

_OF_VALUES = frozenset({"22", "54"})
"""Classes of errors that values make: data, and more of it than a row, an index or a statement can
hold (which the driver counts among the failures of a server)."""

_ENGINE = (
    "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'fsync',"
    " 'full_page_writes', 'data_checksums', 'server_encoding', 'max_connections') ORDER BY name"
)
_SERVER_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_FAILED = psycopg.pq.TransactionStatus.INERROR

Cursor = psycopg.Cursor[tuple[Any, ...]]


class PostgresTables(SqlTables):
    """The tables as one connection sees them inside its transaction."""

    _connection: Connection

    def __init__(
        self,
        connection: Connection,
        texts: dict[Any, str],
        *,
        head: Row | None = None,
        gathered: list[Statement] | None = None,
    ) -> None:
        super().__init__(connection, texts)
        self._gathers = False
        self.gathered: list[Statement] = [] if gathered is None else gathered
        """What is sent with the next question, or with COMMIT."""

        self._ahead = AheadRows()
        self.ahead: Ahead | None = None
        """The look at the head that came with the snapshot."""

        self.head = head
        """The row of the head as it was read first, until it is written."""

    def use(self, connection: Connection) -> None:
        """Run on this connection from now on."""
        self._connection = connection

    def insert(self, table: Table, row: Row) -> None:
        """Add a row."""
        shape = ("insert", table.name)
        sql = self._texts.get(shape)
        if sql is None:
            sql = self._build(shape, statements.insert_sql(table, " ON CONFLICT DO NOTHING"))
        if self._execute(sql, statements.row_values(table, row)).rowcount == 0:
            raise DuplicateKey(table.name)

    def append(self, table: Table, row: Row) -> None:
        """Add a row that is new by construction."""
        self.insert(table, row)

    def insert_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows with one statement."""
        if rows:
            self._execute_rows(table, rows)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Gather what is written inside (decision kernel/0301).

        The next question or COMMIT sends it, and raises the first error among the replies.
        """
        self._gathers = True
        try:
            yield
        finally:
            self._gathers = False

    def put_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add or replace rows with one statement."""
        if rows:
            self._execute_rows(table, rows, statements.replacing(table))

    def _execute_rows(self, table: Table, rows: Sequence[Row], conflict: str = "") -> None:
        names, types = column_names(table), column_types(table)
        shape = ("rows", table.name, conflict)
        sql = self._texts.get(shape) or self._build(shape, _rows_sql(names, types, table, conflict))
        columns = zip(*map(values_getter(names), rows), strict=True)
        with _translate_driver_errors(self._connection):
            arrays = [*map(column_array, types, columns)]
        self._send(sql, arrays)

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        if table is chain_head and self.head is not None:
            return self.head.copy()
        known = self._ahead.row(table, key)
        return super().get(table, *key) if known is None else _first_row(table, known)

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query, or tuples of values where it names columns."""
        known = self._ahead.scan(query)
        return super().scan(query) if known is None else known

    def put(self, table: Table, row: Row) -> None:
        """Add or replace a row."""
        shape = ("put", table.name)
        sql = self._texts.get(shape) or self._build(shape, statements.upsert_sql(table))
        values = statements.row_values(table, row)
        self._write(sql, values, may_collide=bool(unique_columns(table)))

    def update(self, table: Table, key: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        """Set columns of a row."""
        if table is chain_head:
            self.head = None
        sql = self._with_driver_marks(statements.update_sql(table, tuple(values)))
        may_collide = not unique_columns(table).isdisjoint(values)
        self._write(sql, (*values.values(), *key), may_collide=may_collide)

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove the row of a primary key."""
        self._send(self._with_driver_marks(statements.delete_sql(table)), key)

    def delete_before(self, table: Table, column: str, bound: int) -> int:
        """Remove the rows whose column is below the bound."""
        self._ahead = AheadRows()
        return self._execute(
            self._with_driver_marks(statements.delete_before_sql(table, column)), (bound,)
        ).rowcount

    def server_time_us(self) -> int:
        """Return the time by the server's clock now, not that of the snapshot."""
        [(time_us,)] = self._execute(_SERVER_TIME, ()).fetchall()
        return int(time_us)

    def engine(self) -> dict[str, str]:
        """Return the version of the server and the settings on which a COMMIT rests."""
        stated: dict[str, str] = dict(self._execute(_ENGINE, ()).fetchall())
        return {"version": f"PostgreSQL {stated.pop('server_version')}", **stated}

    def replication(self) -> Replication:
        """Return what the server says of its standbys."""
        with _translate_driver_errors(self._connection):
            return look_at_standbys(self._connection)

    def _write(self, sql: str, values: Sequence[Any], *, may_collide: bool) -> None:
        if not may_collide:
            self._execute(sql, values)
            return
        with self.savepoint():
            self._execute(sql, values)

    def schema_faults(self) -> list[StorageFault]:
        """Return where the database's tables are not those that this program makes."""
        with _translate_driver_errors(self._connection):
            return postgres_catalog.schema_faults(self._connection)

    def content_faults(self) -> ContentReport:
        """Compare indexes with tables, where the server has the extension amcheck."""
        with _translate_driver_errors(self._connection):
            return postgres_catalog.content_faults(self._connection)

    def prefetch(self, questions: Questions) -> None:
        """Ask in one round trip what is going to be asked for in this snapshot."""
        joined, others, counts = questions
        unknown = self._ahead.unknown(joined)
        is_new = [each for each in others if self._statement(each) not in self._ahead.answers]
        counted = [
            query
            for query in counts
            if self._statement(query, is_count=True) not in self._ahead.answers
        ]
        questions = Questions(unknown, is_new, counted)
        gathered: list[Statement] = []
        try:
            with _translate_driver_errors(self._connection):
                asking = self.statements_ahead(questions)
                if not asking:
                    return
                gathered = self._take_gathered()
                replies = self._connection.exchange([*gathered, *asking])
        except TextNotStorable:
            if gathered or self._connection.info.transaction_status is _FAILED:
                raise
            return
        self.learn(questions, replies[len(gathered) :])

    def statements_ahead(self, questions: Questions) -> list[Statement]:
        """Return what asks questions, for `learn` to take the replies."""
        return [*map(joined_statement, questions.joined), *self._whole_statements(questions)]

    def learn(self, questions: Questions, replies: Sequence[StatementReply]) -> None:
        """Keep the replies to `statements_ahead`."""
        joined = questions.joined
        self._ahead.learn(joined, [reply.rows for reply in replies[: len(joined)]])
        statements = self._whole_statements(questions)
        for statement, reply in zip(statements, replies[len(joined) :], strict=True):
            self._ahead.answers[statement] = reply.rows

    def _whole_statements(self, questions: Questions) -> list[tuple[str, tuple[Any, ...]]]:
        counts = (self._statement(query, is_count=True) for query in questions.counts)
        return [*map(self._statement, questions.others), *counts]

    def _statement(
        self, query: TableQuery, *, is_count: bool = False
    ) -> tuple[str, tuple[Any, ...]]:
        [(sql, values)] = self._statements(query, is_count=is_count)
        return sql, values if query.limit is None else (*values, query.limit)

    def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        known = self._ahead.answers.get((sql, tuple(values))) if self._ahead.answers else None
        if known is not None:
            return known
        try:
            return self._execute(sql, values).fetchall()
        except TextNotStorable:
            if self._connection.info.transaction_status is _FAILED:
                raise
            return []

    def _run(self, sql: str) -> None:
        self._execute(sql)

    def _with_driver_marks(self, sql: str) -> str:
        # None of the texts holds another of these signs.
        return sql.replace("?", "%s")

    def _send(self, sql: str, values: Sequence[Any]) -> None:
        self.gathered.append((sql, values))
        if not self._gathers:
            with _translate_driver_errors(self._connection):
                self._connection.exchange(self._take_gathered())

    def _take_gathered(self) -> list[Statement]:
        gathered = [*self.gathered]
        self.gathered.clear()
        return gathered

    def _execute(self, sql: str, values: Sequence[Any] | None = None) -> Cursor:
        with _translate_driver_errors(self._connection):
            if self.gathered:
                self._connection.exchange(self._take_gathered())
            return self._connection.execute(sql, values, binary=True)


class PostgresStore:
    """A ledger in a PostgreSQL database; `read_only` opens it without the right to write (K18)."""

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        primary: bool = False,
        connections: int = CONNECTIONS_DEFAULT,
    ) -> None:
        """Connect, and create the tables when this may write.

        With `primary`, and where it may write, a standby will not do (decision kernel/0590).

        The store has so many `connections` at most, at least `CONNECTIONS_LEAST`; a store that may
        write keeps one of them for that. Who asks for a snapshot while all are in use waits for
        `READER_WAIT_S` at most.

        Raises:
            LedgerUnavailable: when the server cannot be reached, or the database cannot be used.
            LedgerSchemaDiffers: when the tables have another version.
        """
        self._url = url
        self.place = place_of(url)
        self._read_only = read_only
        self._primary = primary or not read_only
        self._texts: dict[Any, str] = {}
        self._silences = Silences()
        self._keeps_sessions = False
        self._readers: queue.LifoQueue[Connection] = queue.LifoQueue(IDLE_READERS_MAX)
        self._readers_max = max(CONNECTIONS_LEAST, connections) - (not read_only)
        self._reading = threading.BoundedSemaphore(self._readers_max)
        self._lock = threading.Lock()
        self._writer: Connection | None = None
        self._unsettled = False
        self._gateway: NamedGateway | None = None
        self._known: Callable[[], Head | None] | None = None
        if read_only:
            self._readers.put_nowait(self._connect_first_reader())
        else:
            self._writer = self._connect_writer(creating=True)

    def share(self, name: str, is_dead: Callable[[str], bool]) -> None:
        """Write under a gateway's name from now on, and end holders of the head that are dead."""
        with self._lock:
            self._gateway = NamedGateway(name, is_dead)
            if self._writer is not None:
                # The next one bears the name.
                self._writer.close()
                self._writer = None

    def look_ahead(self, known: Callable[[], Head | None]) -> None:
        """Give each snapshot from now on its look at the head."""
        self._known = known

    @contextmanager
    def transaction(self) -> Iterator[PostgresTables]:
        """Open the writing transaction; COMMIT is durable when it returns."""
        if self._read_only:
            raise LedgerUnavailable("this handle may only read", code="ledger_read_only")
        with self._lock:
            tables = self._begin_writing()
            with self._undo_on_failure():
                yield tables
                self._commit(tables.gathered)

    @contextmanager
    def turn(self, questions: Questions = NO_QUESTIONS) -> Iterator[WriterTurn]:
        """Open a writing transaction that holds the head only while it is written.

        The turn is a lock that nothing rests on: who does not get it in time computes all the same,
        and the head decides whose transaction counts (decision kernel/0255). What is written goes
        in one message with the lock of the head, the comparison and COMMIT.
        """
        if self._read_only:
            raise LedgerUnavailable("this handle may only read", code="ledger_read_only")
        written: list[Statement] = []

        def hold(expected: Sequence[Expected]) -> PostgresTables:
            written.extend(expectations(expected))
            return PostgresTables(self._expect_writer(), self._texts, gathered=written)

        with self._lock:
            self._settle_now()
            snapshot = self._begin_turn(questions)
            with self._undo_on_failure():
                yield WriterTurn(snapshot, hold)
                try:
                    self._commit(written)
                except psycopg.errors.LockNotAvailable:
                    self._roll_back(self._expect_writer())
                    self._look_at_holders()
                    self._begin_writing()
                    self._commit(written)

    def _expect_writer(self) -> Connection:
        if self._writer is None:
            raise LedgerUnavailable(f"{self.place}: the connection was lost")
        return self._writer

    @contextmanager
    def _undo_on_failure(self) -> Iterator[None]:
        """Roll back what the writer has begun, on whatever connection it is then."""
        try:
            yield
        except BaseException as error:
            writer = self._writer
            if writer is None:
                raise
            self._roll_back(writer)
            if isinstance(error, psycopg.errors.LockNotAvailable) or not isinstance(
                error, psycopg.Error | UnicodeEncodeError
            ):
                raise
            with _translate_driver_errors(writer):
                raise

    @contextmanager
    def view(self) -> Iterator[PostgresTables]:
        """Open a snapshot on a connection that only reads."""
        if not self._reading.acquire(timeout=READER_WAIT_S):
            raise LedgerUnavailable(f"{self.place}: {self._readers_max} snapshots are open")
        try:
            if self._unsettled:
                self._settle()
            with self._snapshot() as tables:
                yield tables
        finally:
            self._reading.release()

    def query(self, sql: str, bounds: QueryBounds, now_s: Callable[[], float]) -> QueryAnswer:
        """Run one SELECT on a connection of its own that may only read; the server has the time."""
        del now_s
        connection = self._connect(read_only=True)
        with closing(connection):
            return run_query(connection, sql, bounds)

    def server_time_us(self) -> int | None:
        """Return the time by the server's clock."""
        with self.view() as tables:
            return tables.server_time_us()

    def engine(self) -> dict[str, str]:
        """Return the version of the server and the settings on which a COMMIT rests."""
        with self.view() as tables:
            return tables.engine()

    def replication(self) -> Replication:
        """Return what the server says of its standbys."""
        with self.view() as tables:
            return tables.replication()

    @contextmanager
    def _snapshot(self) -> Iterator[PostgresTables]:
        reader, tables = self._begin_reading()
        try:
            yield tables
        finally:
            self._end_reading(reader)

    def close(self) -> None:
        """Close every idle connection; the store opens new ones when it is used again."""
        while not self._readers.empty():
            self._readers.get_nowait().close()
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _begin_writing(self) -> PostgresTables:
        self._begin()
        tables = self._hold_head(self._expect_writer())
        self._unsettled = False
        return tables

    def _begin(self, statements: Sequence[Statement] = ()) -> list[StatementReply]:
        """Begin on the writer's connection, or on a new one, and return the replies."""
        begin = statements or _begin_with(_BEGIN_WRITING, _look_each_ms())
        replies = self._begin_on_idle(self._writer, begin)
        if replies is None:
            writer = self._writer = self._connect_writer()
            try:
                replies = writer.exchange(begin)
            except psycopg.Error as error:
                if writer.info.transaction_status is _FAILED:
                    raise
                self._roll_back(writer)
                raise LedgerUnavailable(f"{self.place}: {error}") from error
        return replies

    def _begin_turn(self, questions: Questions) -> PostgresTables:
        holders, look_ms = "", _look_each_ms()
        turn: list[Statement] = [
            *_begin_with(_BEGIN_SNAPSHOT, TURN_WAIT_MS),
            (_TAKE_TURN, ()),
            (_WAIT_FOR_LOCKS.format(ms=look_ms), ()),
        ]
        for _ in range(max(2, postgres_connection.LOCK_TIMEOUT_MS // look_ms)):
            try:
                with self._undo_on_failure():
                    return self._snapshot_of_turn(turn, questions)
            except psycopg.errors.LockNotAvailable:
                holders = self._look_at_holders()
                turn = _begin_with(_BEGIN_SNAPSHOT, look_ms)
        raise LedgerHeld(f"{self.place}: the head is held by {holders}")

    def _snapshot_of_turn(self, begin: list[Statement], questions: Questions) -> PostgresTables:
        """Begin, and read with the snapshot what is going to be asked of it."""
        self._writer = self._writer or self._connect_writer()
        tables = PostgresTables(self._writer, self._texts)
        version = self._ask(tables, [*begin, (_KEEP_VERSION, ())], questions, self._begin)
        if tables.head is not None:
            check_version(version_in(version), self.place)
        tables.use(self._expect_writer())
        return tables

    def _hold_head(self, writer: Connection) -> PostgresTables:
        """Lock the head in a transaction that is begun, or in a new one; return its tables."""
        holders = ""
        for _ in range(max(1, postgres_connection.LOCK_TIMEOUT_MS // _look_each_ms())):
            try:
                head = self._lock_head(writer)
            except psycopg.errors.LockNotAvailable:
                self._roll_back(writer)
                holders = self._look_at_holders()
                self._begin()
                writer = self._expect_writer()
            except psycopg.Error as error:
                self._roll_back(writer)
                raise LedgerUnavailable(f"{self.place}: {error}") from error
            except BaseException:
                self._roll_back(writer)
                raise
            else:
                return PostgresTables(writer, self._texts, head=head)
        self._roll_back(writer)
        raise LedgerHeld(f"{self.place}: the head is held by {holders}")

    def _lock_head(self, writer: Connection) -> Row | None:
        row = writer.execute(_LOCK_HEAD).fetchone()
        if row is None:
            writer.execute(_LOCK_UNFOUNDED)
            # The process that held the lock before may have founded the ledger.
            writer.execute(_LOCK_HEAD)
            check_schema(writer, self.place)
            return None
        return self._head_in(row)

    def _head_in(self, row: tuple[Any, ...]) -> Row:
        version, *head = row
        check_version(version_in(version), self.place)
        return dict(zip(column_names(chain_head), head, strict=True))

    def _look_at_holders(self) -> str:
        if not self._reading.acquire(blocking=False):
            return "whom there was no connection to ask for"
        try:
            reader, _ = self._begin_reading()
            try:
                return look_at_holders(reader, self._gateway)
            finally:
                self._end_reading(reader)
        except (psycopg.Error, LedgerUnavailable) as error:
            return f"whom the server does not name: {error}"
        finally:
            self._reading.release()

    def _begin_reading(self) -> tuple[Connection, PostgresTables]:
        with suppress(queue.Empty):
            while True:
                idle = self._readers.get_nowait()
                if idle.may_be_lost:
                    # Asked on each of them, the next one would wait as long as the last.
                    idle.close()
                    continue
                try:
                    idle.await_rollback()
                    return idle, self._begin_snapshot(idle)
                except psycopg.Error:
                    # It is gone, with which nothing was lost.
                    idle.close()
        reader = self._connect(read_only=True)
        try:
            return reader, self._begin_snapshot(reader)
        except psycopg.Error as error:
            reader.close()
            raise LedgerUnavailable(f"{self.place}: {error}") from error

    def _begin_snapshot(self, reader: Connection) -> PostgresTables:
        tables = PostgresTables(reader, self._texts)
        self._ask(tables, [(_BEGIN_READING, ())], _ASKED_BY_READERS, reader.exchange)
        return tables

    def _ask(
        self,
        tables: PostgresTables,
        begin: list[Statement],
        questions: Questions,
        send: Callable[[list[Statement]], list[StatementReply]],
    ) -> str | None:
        """Begin a snapshot, keep what was asked with it, and return what states its version."""
        known = None if self._known is None else self._known()
        places = (0, 0) if known is None else (known.ec_sequence_number, known.receipt_sequence)
        looks: list[Statement] = [] if self._known is None else [(_LOOK, places)]
        ahead = tables.statements_ahead(questions)
        replies = send([*begin, (_HEAD, ()), *looks, *ahead])[len(begin) :]
        [head, *looked], answers = replies[: 1 + len(looks)], replies[1 + len(looks) :]
        tables.learn(questions, answers)
        version = None
        for row in head.rows:
            version, *values = row
            tables.head = dict(zip(column_names(chain_head), values, strict=True))
        for row in (row for look in looked for row in look.rows):
            *now, row_hash, receipt_hash, stands = row
            look = HeadLook(Head(*now), row_hash, receipt_hash, bool(stands))
            tables.ahead = Ahead(known, look)
        return version

    def _end_reading(self, reader: Connection) -> None:
        try:
            if reader.info.transaction_status is _FAILED:
                # What was asked ahead was refused, and the driver may take it for prepared.
                reader.close()
                return
            reader.send_rollback()
            self._readers.put_nowait(reader)
        except (psycopg.Error, queue.Full):
            reader.close()

    def _begin_on_idle(
        self, idle: Connection | None, begin: Sequence[Statement]
    ) -> list[StatementReply] | None:
        """Begin on an idle connection; None when it is gone, with which nothing was lost."""
        if idle is None:
            return None
        if idle.may_be_lost:
            # Asked on each of them, the next one would wait as long as the last.
            idle.close()
            return None
        try:
            return idle.exchange(begin)
        except psycopg.Error:
            if idle.info.transaction_status is _FAILED:
                raise
            idle.close()
            return None

    def _commit(self, gathered: list[Statement]) -> None:
        """Send what was gathered and COMMIT in one message.

        Raises:
            HeadMoved: an expected row is another.
            CommitOutcomeUnknown: the connection was lost before the server answered to it all.
        """
        writer = self._expect_writer()
        try:
            *_, reply = writer.exchange([*gathered, ("COMMIT", ())])
        except (psycopg.errors.SerializationFailure, psycopg.errors.DivisionByZero) as error:
            raise HeadMoved from error
        except psycopg.Error as error:
            if writer.refused_at is not None and writer.refused_at < len(gathered):
                # The server has passed over COMMIT.
                raise
            self._writer, self._unsettled = None, True
            writer.close()
            raise CommitOutcomeUnknown(f"{self.place}: {error}") from error
        if reply.status != "COMMIT":
            # The server answers so when an error inside the transaction was swallowed.
            raise LedgerUnavailable("the transaction had failed", code="ledger_rolled_back")

    def _roll_back(self, writer: Connection) -> None:
        try:
            writer.execute("ROLLBACK")
        except psycopg.Error:
            # Its transaction ends with the connection; the next one opens another.
            self._writer = None
            writer.close()

    def _settle(self) -> None:
        with self._lock:
            self._settle_now()

    def _settle_now(self) -> None:
        """Have the head's lock once, behind which the outcome of the last COMMIT stands."""
        if self._unsettled:
            self._begin_writing()
            if self._writer is not None:
                self._roll_back(self._writer)

    def _connect(self, *, read_only: bool) -> Connection:
        connection = connect(
            self._url,
            self.place,
            read_only=read_only,
            primary=self._primary,
            silences=self._silences,
            is_next=self._keeps_sessions,
        )
        self._keeps_sessions = True
        return connection

    def _connect_writer(self, *, creating: bool = False) -> Connection:
        writer = self._connect(read_only=False)
        with close_on_failure(writer, self.place):
            wait_for_the_disk(writer)
            if creating:
                create_schema(writer, self.place)
            else:
                check_schema(writer, self.place)
            refuse_differences(postgres_catalog.schema_faults(writer), self.place)
            if self._gateway is not None:
                bear_name(writer, self._gateway)
        return writer

    def _connect_first_reader(self) -> Connection:
        reader = self._connect(read_only=True)
        with close_on_failure(reader, self.place):
            check_schema(reader, self.place)
        return reader


@contextmanager
def _translate_driver_errors(connection: Connection) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        raise TextNotStorable(str(error)) from error
    except psycopg.errors.UniqueViolation as error:
        raise DuplicateKey(error.diag.constraint_name or "") from None
    except psycopg.errors.ForeignKeyViolation as error:
        raise MissingReference(error.diag.message_detail or str(error)) from None
    except psycopg.errors.InsufficientPrivilege as error:
        # Its first line names the table; a worker may be kept from the gateways' key.
        raise LedgerUnavailable(str(error), code="ledger_right_missing") from error
    except psycopg.Error as error:
        state = error.sqlstate
        if connection.closed:
            raise LedgerUnavailable(str(error)) from error
        if isinstance(error, psycopg.DataError) or (state or "")[:2] in _OF_VALUES:
            # Where the driver has refused it, before it sent anything, the transaction goes on.
            raise TextNotStorable(str(error)) from error
        if isinstance(error, psycopg.OperationalError):
            raise LedgerUnavailable(str(error)) from error
        raise


def _begin_with(begin: str, wait_ms: int) -> list[Statement]:
    return [(begin, ()), (_WAIT_FOR_LOCKS.format(ms=wait_ms), ())]


def _first_row(table: Table, rows: Sequence[tuple[Any, ...]]) -> Row | None:
    return dict(zip(column_names(table), rows[0], strict=True)) if rows else None


def _rows_sql(names: Sequence[str], types: Sequence[str], table: Table, conflict: str) -> str:
    """Return the text that adds rows of which each column comes as an array."""
    arrays = ", ".join(f"?::{each}[]" for each in types)
    return (
        f"INSERT INTO {table.name} ({', '.join(names)})"  # noqa: S608 - names of the schema
        f" SELECT * FROM unnest({arrays}){conflict}"
    )


def _look_each_ms() -> int:
    return min(LOOK_EACH_MS, postgres_connection.LOCK_TIMEOUT_MS)
