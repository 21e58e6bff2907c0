"""The ledger's tables in one PostgreSQL database, in the first schema of the search path.

- The row of the chain head is locked before anything else (while there is none yet, an advisory
  lock). Behind it writers take turns, so READ COMMITTED is enough: what a statement sees is what
  was committed before the lock was had. SERIALIZABLE takes its snapshot before it waits for the
  lock, and would fail every writer that waited.
- An error inside a transaction makes PostgreSQL refuse the rest of it, so duplicates must not be
  errors: an insert asks for nothing to be done on a conflict and counts, and what may take the
  unique value of another row runs under a savepoint of its own.
- Text is compared byte by byte (``COLLATE "C"``), as in SQLite. It cannot hold U+0000: writing
  it is refused as `TextNotStorable`, and no row answers to it.
- After a COMMIT without an answer nothing is read before the head's lock was had again: until
  then the server may still be committing.
- The URL is a secret; messages name the host and the database only.
"""

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Table

from kernel.errors import CommitOutcomeUnknown, LedgerUnavailable, TextNotStorable
from kernel.ledger import statements
from kernel.ledger.keys import column_names
from kernel.ledger.postgres_schema import check_version, create_schema, unique_columns
from kernel.ledger.tables import DuplicateKey, Row

LOCK_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_S = 10
SILENCE_MAX_MS = 30_000
"""How long a server may leave what was sent to it unacknowledged."""
IDLE_WRITER_MAX_MS = 60_000
"""A writer that stops in the middle holds everybody up; the server ends it after this."""
IDLE_READERS_MAX = 8

_SAVEPOINT = "rotulus"
_BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_LOCK_HEAD = "SELECT 1 FROM chain_head FOR UPDATE"
_LOCK_UNFOUNDED = "SELECT pg_advisory_xact_lock('chain_head'::regclass::oid::bigint)"

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]


class PostgresTables:
    """The tables as one connection sees them inside its transaction."""

    def __init__(self, connection: Connection, texts: dict[Any, str]) -> None:
        self._connection = connection
        self._texts = texts

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        shape = ("get", table.name)
        sql = self._texts.get(shape) or self._build(shape, statements.get_sql(table))
        rows = self._read(sql, key)
        columns = column_names(table)
        return dict(zip(columns, rows[0], strict=True)) if rows else None

    def select(
        self,
        table: Table,
        where: Mapping[str, Any] | None = None,
        *,
        order_by: str | None = None,
        after: Any = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that equal `where`, in the order of one column."""
        found_by = statements.Where(where)
        options = (order_by, after is None, descending, limit is None)
        shape = ("select", table.name, found_by.names, found_by.nulls, *options)
        sql = self._texts.get(shape)
        if sql is None:
            sql = self._build(shape, statements.select_sql(table, found_by, *options))
        values = found_by.values
        if after is not None:
            values.append(after)
        if limit is not None:
            values.append(limit)
        columns = column_names(table)
        return [dict(zip(columns, row, strict=True)) for row in self._read(sql, values)]

    def select_any(
        self, table: Table, column: str, values: Sequence[str | int], where: Mapping[str, Any]
    ) -> list[Row]:
        """Return the rows that equal `where` and have any of the values in a column."""
        found_by, names = statements.Where(where), column_names(table)
        rows: list[Row] = []
        for part in statements.parts_of(values):
            shape = ("any", table.name, column, len(part), found_by.names, found_by.nulls)
            sql = self._texts.get(shape)
            if sql is None:
                sql = self._build(shape, statements.any_sql(table, column, len(part), found_by))
            found = self._read(sql, [*found_by.values, *part])
            rows += [dict(zip(names, row, strict=True)) for row in found]
        return rows

    def columns(
        self, table: Table, names: tuple[str, ...], *, after: Any = None, limit: int
    ) -> list[tuple[Any, ...]]:
        """Return some columns of the rows in the order of the primary key's last column."""
        sql = statements.columns_sql(table, names, after is None)
        return self._read(_marked(sql), (limit,) if after is None else (after, limit))

    def count(self, table: Table, where: Mapping[str, Any] | None = None) -> int:
        """Return how many rows equal `where`."""
        found_by = statements.Where(where)
        rows = self._read(_marked(statements.count_sql(table, found_by)), found_by.values)
        return int(rows[0][0]) if rows else 0

    def counts(self, table: Table, *columns: str) -> dict[tuple[Any, ...], int]:
        """Return the number of rows for each combination of the columns' values."""
        rows = self._read(statements.counts_sql(table, columns), ())
        return {tuple(row[:-1]): row[-1] for row in rows}

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
        """Add rows in one go of the driver."""
        sql = _marked(statements.insert_sql(table, " ON CONFLICT DO NOTHING"))
        if self._execute_many(sql, table, rows) != len(rows):
            raise DuplicateKey(table.name)

    def put_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add or replace rows in one go of the driver."""
        try:
            self._execute_many(_marked(statements.upsert_sql(table)), table, rows)
        except psycopg.errors.UniqueViolation as error:
            raise DuplicateKey(error.diag.constraint_name or "") from None

    def put(self, table: Table, row: Row) -> None:
        """Add or replace a row."""
        shape = ("put", table.name)
        sql = self._texts.get(shape) or self._build(shape, statements.upsert_sql(table))
        values = statements.row_values(table, row)
        self._write(sql, values, may_collide=bool(unique_columns(table)))

    def update(self, table: Table, key: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        """Set columns of a row."""
        sql = _marked(statements.update_sql(table, tuple(values)))
        may_collide = not unique_columns(table).isdisjoint(values)
        self._write(sql, (*values.values(), *key), may_collide=may_collide)

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove the row of a primary key."""
        self._execute(_marked(statements.delete_sql(table)), key)

    def delete_before(self, table: Table, column: str, bound: int) -> int:
        """Remove the rows whose column is below the bound."""
        return self._execute(
            _marked(statements.delete_before_sql(table, column)), (bound,)
        ).rowcount

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is written inside when an exception leaves the block."""
        self._execute(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield
        except BaseException:
            self._execute(f"ROLLBACK TO {_SAVEPOINT}")
            self._execute(f"RELEASE {_SAVEPOINT}")
            raise
        self._execute(f"RELEASE {_SAVEPOINT}")

    def _write(self, sql: str, values: Sequence[Any], *, may_collide: bool) -> None:
        if not may_collide:
            self._execute(sql, values)
            return
        try:
            with self.savepoint():
                self._execute(sql, values)
        except psycopg.errors.UniqueViolation as error:
            raise DuplicateKey(error.diag.constraint_name or "") from None

    def _read(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            return self._execute(sql, values).fetchall()
        except TextNotStorable:
            return []

    def _execute(self, sql: str, values: Sequence[Any] | None = None) -> Cursor:
        with self._translated():
            return self._connection.execute(sql, values, binary=True)

    def _execute_many(self, sql: str, table: Table, rows: Sequence[Row]) -> int:
        with self._translated(), self._connection.cursor(binary=True) as cursor:
            cursor.executemany(sql, [statements.row_values(table, row) for row in rows])
            return cursor.rowcount

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError) or self._connection.closed:
                raise LedgerUnavailable(str(error)) from error
            if isinstance(error, psycopg.DataError) and error.sqlstate is None:
                # The driver refused before it sent anything: the transaction goes on.
                raise TextNotStorable(str(error)) from error
            raise

    def _build(self, shape: Any, sql: str) -> str:
        self._texts[shape] = marked = _marked(sql)
        return marked


class PostgresStore:
    """A ledger in a PostgreSQL database; `read_only` opens it without the right to write (K18)."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        """Connect, and create the tables when this may write.

        Raises:
            LedgerUnavailable: when the server cannot be reached, the database cannot be used, or
                the tables have another version.
        """
        self._url = url
        self.place = place_of(url)
        self._read_only = read_only
        self._texts: dict[Any, str] = {}
        self._readers: queue.LifoQueue[Connection] = queue.LifoQueue(IDLE_READERS_MAX)
        self._lock = threading.Lock()
        self._writer: Connection | None = None
        self._unsettled = False
        if read_only:
            self._readers.put_nowait(self._connect_first_reader())
        else:
            self._writer = self._connect_writer(creating=True)

    @contextmanager
    def transaction(self) -> Iterator[PostgresTables]:
        """Open the writing transaction; COMMIT is durable when it returns."""
        if self._read_only:
            raise LedgerUnavailable("this handle may only read", code="ledger_read_only")
        with self._lock:
            writer = self._begin_writing()
            try:
                yield PostgresTables(writer, self._texts)
            except BaseException:
                self._roll_back(writer)
                raise
            self._commit(writer)

    @contextmanager
    def view(self) -> Iterator[PostgresTables]:
        """Open a snapshot on a connection that only reads."""
        if self._unsettled:
            self._settle()
        reader = self._begin_reading()
        try:
            yield PostgresTables(reader, self._texts)
        finally:
            try:
                reader.execute("ROLLBACK")
                self._readers.put_nowait(reader)
            except (psycopg.Error, queue.Full):
                reader.close()

    def close(self) -> None:
        """Close every idle connection; the store opens new ones when it is used again."""
        while not self._readers.empty():
            self._readers.get_nowait().close()
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _begin_writing(self) -> Connection:
        writer = self._begun(self._writer, _BEGIN_WRITING) or self._connect_writer()
        self._writer = writer
        try:
            if writer.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
                writer.execute(_BEGIN_WRITING)
            if writer.execute(_LOCK_HEAD).fetchone() is None:
                writer.execute(_LOCK_UNFOUNDED)
                # Whoever held that lock may have founded the ledger.
                writer.execute(_LOCK_HEAD)
        except psycopg.Error as error:
            self._roll_back(writer)
            raise LedgerUnavailable(f"{self.place}: {error}") from error
        self._unsettled = False
        return writer

    def _begin_reading(self) -> Connection:
        with suppress(queue.Empty):
            while True:
                reader = self._begun(self._readers.get_nowait(), _BEGIN_READING)
                if reader is not None:
                    return reader
        reader = self._connect(read_only=True)
        try:
            reader.execute(_BEGIN_READING)
        except psycopg.Error as error:
            reader.close()
            raise LedgerUnavailable(f"{self.place}: {error}") from error
        return reader

    def _begun(self, idle: Connection | None, begin: str) -> Connection | None:
        """Begin on a connection that was idle, None when it is gone: nothing was lost with it."""
        if idle is None:
            return None
        try:
            idle.execute(begin)
        except psycopg.Error:
            idle.close()
            return None
        return idle

    def _commit(self, writer: Connection) -> None:
        try:
            answer = writer.execute("COMMIT").statusmessage
        except psycopg.Error as error:
            self._writer, self._unsettled = None, True
            writer.close()
            raise CommitOutcomeUnknown(f"{self.place}: {error}") from error
        if answer != "COMMIT":
            # So the server answers COMMIT after an error that somebody inside has swallowed.
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
            self._roll_back(self._begin_writing())

    def _connect(self, *, read_only: bool) -> Connection:
        options = f"-c lock_timeout={LOCK_TIMEOUT_MS} -c client_encoding=UTF8"
        if read_only:
            options += " -c default_transaction_read_only=on"
        else:
            options += f" -c idle_in_transaction_session_timeout={IDLE_WRITER_MAX_MS}"
        try:
            asked = str(conninfo_to_dict(self._url).get("options", ""))
            return psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                tcp_user_timeout=SILENCE_MAX_MS,
                application_name="rotulus",
                options=f"{asked} {options}".strip(),
            )
        except psycopg.Error as error:
            raise LedgerUnavailable(f"{self.place}: {error}") from error

    def _connect_writer(self, *, creating: bool = False) -> Connection:
        writer = self._connect(read_only=False)
        with self._closed_on_failure(writer):
            # What a COMMIT answers must be on disk, whatever the server's default is.
            writer.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )
            if creating:
                create_schema(writer, self.place)
            else:
                check_version(writer, self.place)
        return writer

    def _connect_first_reader(self) -> Connection:
        reader = self._connect(read_only=True)
        with self._closed_on_failure(reader):
            check_version(reader, self.place)
        return reader

    @contextmanager
    def _closed_on_failure(self, connection: Connection) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            connection.close()
            raise LedgerUnavailable(f"{self.place}: {error}") from error
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


def _marked(sql: str) -> str:
    """Mark values as the driver does; none of the texts holds another of these signs."""
    return sql.replace("?", "%s")
