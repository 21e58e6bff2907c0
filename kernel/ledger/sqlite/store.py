"""Keeps the ledger's tables in one SQLite file.

One connection writes, under ``BEGIN IMMEDIATE``, in WAL mode with ``synchronous=FULL``: what a
COMMIT has answered survives the loss of power. Readers have connections of their own and a
snapshot for as long as a view is open. Table and column names come from the schema alone, values
are always bound.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Table

from kernel.ledger.ad_hoc_query import QueryAnswer, QueryBounds
from kernel.ledger.schema import SCHEMA_VERSION
from kernel.ledger.schema_version import check_version, version_of
from kernel.ledger.sqlite import catalog as sqlite_catalog
from kernel.ledger.sqlite.holder import holder_of
from kernel.ledger.sqlite.ledger_files import checkpoint, fold, is_folded, make_private
from kernel.ledger.sqlite.query import run_query
from kernel.ledger.sqlite.replacement import (
    FileId,
    FoldedHead,
    LogSetAside,
    file_id,
    folded_head,
    goes_on_from,
    log_of,
)
from kernel.ledger.sqlite.schema import (
    BUSY_TIMEOUT_S,
    begin_immediate,
    check_schema,
    create_schema,
    schema_number,
)
from kernel.ledger.store import statements
from kernel.ledger.store.catalog import ContentReport, StorageFault, refuse_differences
from kernel.ledger.store.keys import column_names, values_getter
from kernel.ledger.store.sql_tables import SqlTables
from kernel.ledger.store.tables import DuplicateKey, MissingReference, Row
from kernel.values.errors import (
    CommitOutcomeUnknown,
    LedgerCorrupt,
    LedgerFailed,
    LedgerHeld,
    LedgerUnavailable,
    TextNotStorable,
)

IDLE_READERS_MAX = 8
WAL_ATTEMPTS_MAX = 5
CHECKPOINT_PAGES = 4000
"""Pages of the write-ahead log before it is folded into the file: what many batches touch again
and again is then written there once."""

CACHE_KIB = 32 * 1024

PAGE_BYTES = 8192
"""Of a new file, twice SQLite's own: most of what a COMMIT writes are pages of indexes over hashes,
and each row touches another one. With 15,000 envelopes in the file one took 72 us, not 95."""

# The driver looks for an adapter of every value that is no text and no number, and where it finds
# none it formats the errors of two more searches: a fiftieth of the time of an envelope.
sqlite3.register_adapter(bytes, bytes.__bytes__)
# An empty dictionary gives null for null, without a call of Python.
_null: Callable[[None], None] = dict[None, None]().get
sqlite3.register_adapter(type(None), _null)

_ADD_OR_FAIL = "INSERT OR FAIL"
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OF_WHAT_IS_ASKED = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
    }
)
"""Primary codes of errors that a statement or its values cause; others are the store's."""

_DUPLICATE = frozenset({"SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE"})


class SqliteTables(SqlTables):
    """The tables as one connection sees them inside its transaction."""

    _connection: sqlite3.Connection

    def insert(self, table: Table, row: Row) -> None:
        """Add a row."""
        shape = ("insert", table.name)
        sql = self._texts.get(shape) or self._build(shape, statements.insert_sql(table))
        self._write(sql, statements.row_values(table, row))

    def append(self, table: Table, row: Row) -> None:
        """Add a row that is new by construction."""
        self.insert(table, row)

    def put(self, table: Table, row: Row) -> None:
        """Add or replace a row."""
        shape = ("put", table.name)
        sql = self._texts.get(shape) or self._build(shape, statements.upsert_sql(table))
        self._write(sql, statements.row_values(table, row))

    def update(self, table: Table, key: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        """Set columns of a row."""
        sql = statements.update_sql(table, tuple(values))
        self._write(sql, (*values.values(), *key))

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove the row of a primary key."""
        with _translate_driver_errors():
            self._connection.execute(statements.delete_sql(table), key)

    def delete_before(self, table: Table, column: str, bound: int) -> int:
        """Remove the rows whose column is below the bound."""
        with _translate_driver_errors():
            sql = statements.delete_before_sql(table, column)
            return self._connection.execute(sql, (bound,)).rowcount

    def engine(self) -> dict[str, str]:
        """Return the version of SQLite and how the file is written."""
        with _translate_driver_errors():
            [(mode,)] = self._connection.execute("PRAGMA journal_mode").fetchall()
        return {"version": f"SQLite {sqlite3.sqlite_version}", "journal_mode": str(mode)}

    def insert_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows, several with one statement.

        Where such a statement is refused its first rows stay: to be able to take them back, SQLite
        would keep a copy of every page that it changes.
        """
        groups, singles = statements.in_groups(table, rows)
        if groups:
            sql = statements.insert_sql(table, verb=_ADD_OR_FAIL, rows=statements.GROUP_ROWS)
            self._write_many(sql, groups)
        self._write_many(statements.insert_sql(table), singles)

    def put_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add or replace rows in one call of the driver."""
        values = map(values_getter(column_names(table)), rows)
        self._write_many(statements.upsert_sql(table), values)

    def schema_faults(self) -> list[StorageFault]:
        """Return where the file's tables are not those that this program makes."""
        return sqlite_catalog.schema_faults(self._connection)

    def content_faults(self) -> ContentReport:
        """Compare indexes with tables and look at every page."""
        return sqlite_catalog.content_faults(self._connection)

    def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except UnicodeEncodeError:
            return []
        except sqlite3.Error as error:
            raise _of_the_store(error) from error

    def _run(self, sql: str) -> None:
        self._connection.execute(sql)

    def _write(self, sql: str, values: tuple[Any, ...]) -> None:
        with _translate_driver_errors():
            self._connection.execute(sql, values)

    def _write_many(self, sql: str, values: Iterable[tuple[Any, ...]]) -> None:
        with _translate_driver_errors():
            self._connection.executemany(sql, values)


class SqliteStore:
    """A ledger in one file; `read_only` opens it without the right to write (K18)."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file, and create it with its schema when this may write.

        Raises:
            LedgerUnavailable: when the file cannot be opened.
            LedgerSchemaDiffers: when its tables have another version.
        """
        self._path = path
        self._read_only = read_only
        self._leaves_one_file = read_only and is_folded(path)
        self._texts: dict[Any, str] = {}
        self._readers: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue(IDLE_READERS_MAX)
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._holder, self._held_s = "", 0.0
        """Who held the file when it was not granted last, and for how long at least."""

        self._refusals = 0
        """How often the file was not granted."""

        self._open: set[sqlite3.Connection] = set()
        self._file, self._log = str(path), str(log_of(path))
        self._file_id: FileId | None = None
        self._log_id: FileId | None = None
        """Which file and which write-ahead log are open; of the log None while nobody writes."""

        self._folded: FoldedHead | None = None
        """The head that the file stated without its write-ahead log when it was looked at last."""

        if not read_only:
            self._writer = self._connect_writer()
        elif path.exists():
            self._readers.put_nowait(self._connect_first_reader())
        else:
            raise LedgerUnavailable(f"no ledger at {path}")
        self._file_id = file_id(self._file)

    def is_replaced(self) -> bool:
        """Tell whether the file or the write-ahead log at the path is not the one that is open."""
        if file_id(self._file) != self._file_id:
            return True
        log_id = self._log_id
        return log_id is not None and file_id(self._log) != log_id

    def is_overwritten(self, known_at_us: int) -> bool:
        """Tell whether somebody else has written over the file that is open.

        `known_at_us` is the clock of a head that was known before.
        """
        before, folded = self._folded, folded_head(self._path)
        if folded is None:
            return False
        self._folded = folded
        if before is not None and folded.committed_at_us < before.committed_at_us:
            return True
        # What a connection has read it does not read again while the log says nothing else.
        with closing(self._connect("ro")) as fresh:
            return not goes_on_from(fresh, folded, known_at_us)

    def abandon(self) -> None:
        """Close everything without folding the write-ahead log, which is kept aside."""
        with self._lock, LogSetAside(self._path, self._log_id):
            self._writer = self._log_id = None
            with suppress(queue.Empty):
                while True:
                    self._readers.get_nowait()
            while self._open:
                with suppress(sqlite3.Error):
                    self._open.pop().close()

    @contextmanager
    def transaction(self) -> Iterator[SqliteTables]:
        """Open the writing transaction; COMMIT is durable when it returns.

        Raises:
            LedgerHeld: another process keeps the file; who asked while another thread waited for it
                is refused together with that thread, and waits no second time.
        """
        if self._read_only:
            raise LedgerUnavailable("this handle may only read", code="ledger_read_only")
        refusals = self._refusals
        with self._lock:
            if self._refusals != refusals:
                raise LedgerHeld(self._held_message())
            writer = self._writer or self._connect_writer()
            self._writer = writer
            self._begin_immediate(writer)
            try:
                # Somebody may have migrated the file meanwhile.
                if (number := schema_number(writer)) != SCHEMA_VERSION:
                    check_version(version_of(number), str(self._path))
                yield SqliteTables(writer, self._texts)
            except BaseException:
                # Some errors make SQLite roll back by itself.
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise
            try:
                writer.execute("COMMIT")
            except sqlite3.Error as error:
                # The connection is not trusted again; the next transaction opens another.
                self._writer = self._log_id = None
                self._open.discard(writer)
                with suppress(sqlite3.Error):
                    writer.close()
                raise CommitOutcomeUnknown(str(error)) from error

    @contextmanager
    def view(self) -> Iterator[SqliteTables]:
        """Open a snapshot on a connection that only reads."""
        try:
            reader = self._readers.get_nowait()
        except queue.Empty:
            reader = self._connect("ro")
            self._open.add(reader)
        reader.execute("BEGIN")
        try:
            yield SqliteTables(reader, self._texts)
        finally:
            reader.execute("ROLLBACK")
            try:
                self._readers.put_nowait(reader)
            except queue.Full:
                self._open.discard(reader)
                reader.close()

    def query(self, sql: str, bounds: QueryBounds, now_s: Callable[[], float]) -> QueryAnswer:
        """Run one SELECT on a connection of its own that may only read."""
        with closing(self._connect("ro")) as connection:
            return run_query(connection, sql, bounds, now_s)

    def server_time_us(self) -> int | None:
        """Return None: this machine's clock counts."""
        return None

    def engine(self) -> dict[str, str]:
        """Return the version of SQLite and how the file is written."""
        with self.view() as tables:
            return tables.engine()

    def give_space_back(self, pages_max: int) -> int:
        """Cut free pages off the file, which becomes shorter when the log is folded into it.

        SQLite moves pages from the end of the file into free ones in front of it.
        """
        with self._lock:
            writer = self._writer or self._connect_writer()
            self._writer = writer
            with _translate_driver_errors():
                # Each step of this frees a page, and `execute` takes one step of what has no rows.
                writer.executescript(f"PRAGMA incremental_vacuum({int(pages_max)})")
                [(left,)] = writer.execute("PRAGMA freelist_count").fetchall()
        return int(left)

    def close(self) -> None:
        """Close every idle connection and fold the write-ahead log into the file.

        A handle that only reads leaves one file where it opened one; what a killed writer left
        beside the file it leaves there.
        """
        while not self._readers.empty():
            reader = self._readers.get_nowait()
            self._open.discard(reader)
            reader.close()
        with self._lock:
            if self._writer is not None:
                self._open.discard(self._writer)
                # SQLite folds when the last connection closes, and another process may have one.
                checkpoint(self._writer)
                self._log_id = None
                self._writer.close()
                self._writer = None
        if self._leaves_one_file:
            fold(self._path)

    def _begin_immediate(self, writer: sqlite3.Connection) -> None:
        try:
            begin_immediate(writer)
        except LedgerUnavailable as error:
            holder = holder_of(self._path)
            if holder != self._holder:
                self._holder, self._held_s = holder, 0.0
            self._held_s += BUSY_TIMEOUT_S
            self._refusals += 1
            raise LedgerHeld(f"{self._held_message()}: {error}") from error
        self._holder, self._held_s = "", 0.0

    def _held_message(self) -> str:
        return f"{self._path} is held by {self._holder} for {self._held_s:.1f} s or more"

    def _connect(self, mode: str) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise LedgerUnavailable(f"{self._path}: {error}") from error
        return connection

    def _connect_writer(self) -> sqlite3.Connection:
        make_private(self._path)
        writer = self._connect("rwc")
        with _close_on_failure(writer, self._path):
            writer.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            if writer.execute("PRAGMA page_count").fetchone() == (0,):
                # A file that is there would be written to: a new one's free pages can be cut off
                # (decision kernel/0381).
                writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _use_write_ahead_log(writer)
            writer.execute("PRAGMA synchronous = FULL")
            writer.execute("PRAGMA foreign_keys = ON")
            # An erased payload is then neither in its page nor in the file's free pages, which
            # `FAST` leaves. It costs nothing measurable, because an envelope frees no page.
            writer.execute("PRAGMA secure_delete = ON")
            writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            writer.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            create_schema(writer, self._path)
            refuse_differences(sqlite_catalog.schema_faults(writer), str(self._path))
        self._log_id = file_id(self._log)
        self._open.add(writer)
        return writer

    def _connect_first_reader(self) -> sqlite3.Connection:
        reader = self._connect("ro")
        with _close_on_failure(reader, self._path):
            check_schema(reader, self._path)
        self._open.add(reader)
        return reader


@contextmanager
def _translate_driver_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorname in _DUPLICATE:
            raise DuplicateKey(str(error)) from None
        if error.sqlite_errorname == "SQLITE_CONSTRAINT_FOREIGNKEY":
            raise MissingReference(str(error)) from None
        raise
    except (UnicodeEncodeError, OverflowError, sqlite3.DataError) as error:
        raise TextNotStorable(str(error)) from error
    except sqlite3.Error as error:
        raise _of_the_store(error) from error


def _of_the_store(error: sqlite3.Error) -> Exception:
    """Return a failure of the file or the disk as `LedgerFailed`, and any other error as it is."""
    code = getattr(error, "sqlite_errorcode", None)
    is_asked = code is None or code & 0xFF in _OF_WHAT_IS_ASKED
    return error if is_asked else LedgerFailed(f"{error} ({error.sqlite_errorname})")


@contextmanager
def _close_on_failure(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise LedgerCorrupt(f"{path}: {error}", code="ledger_file_damaged") from error
        raise LedgerUnavailable(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        # The driver fails on an error message that quotes damaged text.
        connection.close()
        raise LedgerCorrupt(f"{path}: {error}", code="ledger_file_damaged") from error
    except BaseException:
        connection.close()
        raise


def _use_write_ahead_log(writer: sqlite3.Connection) -> None:
    for attempt in range(1, WAL_ATTEMPTS_MAX + 1):
        try:
            writer.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # Where two processes change the mode at once, SQLite refuses one without waiting.
            if attempt == WAL_ATTEMPTS_MAX:
                raise
            begin_immediate(writer)
            writer.execute("ROLLBACK")
        else:
            return
