"""Opens the record for the command line, without the right to write."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import structlog
from pydantic import SecretStr

from kernel.ledger.archive import Archive
from kernel.ledger.damage import Damage
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.log_tree import LogTree
from kernel.ledger.migration_plan import RowsLook
from kernel.ledger.sqlite import schema as sqlite_schema
from kernel.ledger.sqlite.ledger_files import fold
from kernel.ledger.sqlite.online_copy import copy_online
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import Store
from kernel.values.errors import LedgerUnavailable
from kernel.values.host import Host
from workers.environment.archive_files import FolderFiles, archive_at
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_clock import LedgerClock
from workers.environment.ledger_founding import create_ledger_file
from workers.environment.settings import DATABASE_CONNECTIONS, Settings
from workers.environment.system_host import system_host

if TYPE_CHECKING:
    from kernel.ledger.migrations import SchemaMigration

T = TypeVar("T")

DAMAGED: Final = frozenset({"chain", "record"})
"""The components of readiness under which damaged records are named."""

_log = structlog.get_logger(__name__)

Database = Path | SecretStr
"""A file, or the URL of a database, which holds a password."""


@dataclass(frozen=True, slots=True)
class ArchivedPlace:
    """A database whose archive lies where a URL says."""

    database: Database
    archive_url: str


LedgerPlace = Database | ArchivedPlace
"""A database; the archive of a file is the folder `archive` beside it, unless another is named."""


def ledger_place(settings: Settings) -> LedgerPlace:
    """Return the database of the settings, else the file in the data folder."""
    database = settings.database_url or DataFolder(settings.data_dir).ledger_path
    if settings.archive_url is None:
        return database
    return ArchivedPlace(database, settings.archive_url)


def _database_of(place: LedgerPlace) -> Database:
    return place.database if isinstance(place, ArchivedPlace) else place


def file_of(place: LedgerPlace) -> Path | None:
    """Return the file in which a ledger is, None where it is in a database server."""
    database = _database_of(place)
    return database if isinstance(database, Path) else None


def archive_of(place: LedgerPlace) -> Archive:
    """Return where the archive of a ledger lies."""
    if isinstance(place, ArchivedPlace):
        return archive_at(place.archive_url)
    folder = _folder_beside(place)
    return Archive(None if folder is None else FolderFiles(folder))


def printable_archive(place: LedgerPlace) -> str | None:
    """Return the folder or the URL of a ledger's archive; None where none is named."""
    if isinstance(place, ArchivedPlace):
        return place.archive_url
    folder = _folder_beside(place)
    return None if folder is None else str(folder)


def _folder_beside(database: Database) -> Path | None:
    """Return the folder of the archive of a file, which nobody has to name."""
    return database.with_name("archive") if isinstance(database, Path) else None


def printable_place(place: LedgerPlace) -> str:
    """Return a place as it may be shown: a URL without its user and password."""
    database = _database_of(place)
    if isinstance(database, Path):
        return str(database)
    from kernel.ledger.postgres.connection import place_of  # noqa: PLC0415 - see `open_store`

    return place_of(database.get_secret_value())


def open_store(
    place: LedgerPlace,
    *,
    read_only: bool = False,
    primary: bool = False,
    connections: int = DATABASE_CONNECTIONS,
) -> Store:
    """Open the store at a place, a database with so many connections at most.

    Who works on what is read there, and does not only show it, asks for the `primary`.

    Raises:
        LedgerUnavailable: when it cannot be opened.
        LedgerSchemaDiffers: when its tables have another version.
    """
    database = _database_of(place)
    if isinstance(database, Path):
        return SqliteStore(database, read_only=read_only)
    # The driver takes a while to load, and who keeps a file does without it.
    from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - the reason above

    url = database.get_secret_value()
    return PostgresStore(url, read_only=read_only, primary=primary, connections=connections)


def open_ledger(
    place: LedgerPlace,
    host: Host | None = None,
    *,
    read_only: bool = False,
    primary: bool = False,
    connections: int = DATABASE_CONNECTIONS,
) -> Ledger:
    """Open the ledger at a place, which was founded, with its archive; see `open_store`.

    Raises:
        LedgerUnavailable: when it cannot be opened.
        LedgerSchemaDiffers: when its tables have another version.
    """
    store = open_store(place, read_only=read_only, primary=primary, connections=connections)
    return _watch_for_damage(Ledger(store, host or system_host(), archive_of(place)))


def open_or_create_ledger(
    place: LedgerPlace,
    host: Host,
    *,
    connections: int = DATABASE_CONNECTIONS,
    clock: LedgerClock | None = None,
) -> Ledger:
    """Open the ledger at a place to write, founded where there is none, all of it or nothing.

    `clock` takes its server's time before anything is written.

    Raises:
        LedgerUnavailable: when it cannot be opened.
        LedgerSchemaDiffers: when its tables have another version.
    """
    file = file_of(place)
    if file is not None:
        create_ledger_file(file, host)
    store = open_store(place, connections=connections)
    try:
        if clock is not None:
            clock.measure(store.server_time_us)
        return _watch_for_damage(Ledger.create(store, host, archive_of(place)))
    except BaseException:
        store.close()
        raise


def _watch_for_damage(ledger: Ledger) -> Ledger:
    """Return a ledger by which a damaged record is logged when it is met (L3)."""
    ledger.damage.told = _log_damage
    return ledger


def _log_damage(damage: Damage) -> None:
    _log.critical(
        "record_damaged",
        code=damage.code,
        table=damage.table,
        key=damage.key,
        error=damage.message,
    )


def migrate_ledger(place: LedgerPlace, *, dry_run: bool = False) -> "SchemaMigration":
    """Bring the tables at a place to the newest version; a dry run only says how.

    Raises:
        LedgerUnavailable: when there is no ledger there, or it cannot be locked.
        LedgerSchemaDiffers: when no migration leads on from what was found.
    """
    database = _database_of(place)
    if isinstance(database, Path):
        return sqlite_schema.migrate(database, dry_run=dry_run)
    from kernel.ledger.postgres import schema as postgres_schema  # noqa: PLC0415 - see `open_store`

    return postgres_schema.migrate(database.get_secret_value(), dry_run=dry_run)


def look_at_rows(place: LedgerPlace, tables: Iterable[str]) -> dict[str, RowsLook]:
    """Count the rows of those tables of a ledger that there are, and time the reading of some.

    Raises:
        LedgerUnavailable: when there is no ledger there, or it does not answer.
    """
    database = _database_of(place)
    if isinstance(database, Path):
        return sqlite_schema.look_at_rows(database, tables, time.monotonic)
    from kernel.ledger.postgres import schema as postgres_schema  # noqa: PLC0415 - see `open_store`

    return postgres_schema.look_at_rows(database.get_secret_value(), tables, time.monotonic)


def copy_ledger(place: LedgerPlace, copy: Path) -> None:
    """Copy a ledger into a new file of SQLite, from one snapshot, while others write to it.

    Raises:
        LedgerUnavailable: there is no ledger, or the copy cannot be written.
        LedgerSchemaDiffers: a database has tables of another version.
    """
    database = _database_of(place)
    if isinstance(database, Path):
        copy_online(database, copy)
        return
    from kernel.ledger.postgres.file_copy import copy_database  # noqa: PLC0415 - see `open_store`

    copy_database(database.get_secret_value(), copy)


def fill_from_copy(database: SecretStr, copy: Path) -> bool:
    """Put a copy of a ledger into a database; tell whether it was empty, else nothing is changed.

    Raises:
        LedgerUnavailable: the server does not answer.
        LedgerSchemaDiffers: its tables have another version.
    """
    from kernel.ledger.postgres.file_copy import fill_database  # noqa: PLC0415 - see `open_store`

    return fill_database(database.get_secret_value(), copy)


def rebuild_tree(place: LedgerPlace) -> LogTree:
    """Build the tree over the log at a place anew from its rows, and return it.

    Raises:
        LedgerUnavailable: when there is no ledger there, or it cannot be written.
        LedgerCorrupt: when rows of the log are missing.
    """
    with open_record(place):
        pass
    with closing(open_ledger(place)) as ledger:
        return ledger.rebuild_tree()


def fold_ledger(place: LedgerPlace) -> None:
    """Leave a file alone where a ledger was, whatever of it was killed; a database is as it is."""
    file = file_of(place)
    if file is not None:
        fold(file)


@contextmanager
def open_record(place: LedgerPlace) -> Iterator[LedgerView]:
    """Open a snapshot of a ledger.

    Raises:
        LedgerUnavailable: when there is no ledger there.
    """
    ledger = open_ledger(place, read_only=True)
    try:
        with ledger.view() as view:
            if _is_unfounded(view):
                raise LedgerUnavailable(
                    f"no ledger at {printable_place(place)}: it was never founded"
                )
            yield view
    finally:
        ledger.close()


def read_record(place: LedgerPlace, question: Callable[[LedgerView], T]) -> T:
    """Answer a question from a snapshot of a ledger.

    Raises:
        LedgerUnavailable: when there is no ledger there.
    """
    with open_record(place) as view:
        return question(view)


def _is_unfounded(view: LedgerView) -> bool:
    """Tell whether there are tables with nothing in them: who made them was killed there."""
    try:
        return view.is_empty()
    except Exception:  # noqa: BLE001 - what is damaged is for whoever reads on to name
        return False
