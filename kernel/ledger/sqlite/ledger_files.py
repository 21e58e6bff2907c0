"""Keeps the files of an SQLite ledger its owner's alone, and one file when nobody has it open."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

FILE_MODE = 0o600
WAL_SUFFIX = "-wal"


def make_private(path: Path) -> None:
    """Make an empty file that its owner alone can read, where there is none.

    SQLite gives what it writes beside a file the file's own mode. A file that is there is not
    opened: closing it again would give up the locks that this process holds on it.
    """
    # Opening the ledger reports what is wrong with the place.
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def is_folded(path: Path) -> bool:
    """Tell whether there is no write-ahead log beside the file."""
    return not path.with_name(path.name + WAL_SUFFIX).exists()


def fold(path: Path) -> None:
    """Fold the write-ahead log into the file, and remove it if nobody else has the ledger open.

    It does not wait: where another process writes, or this one may not, nothing changes.
    """
    if is_folded(path):
        return
    with suppress(sqlite3.Error), closing(_open_read_write(path)) as connection:
        checkpoint(connection)


def checkpoint(connection: sqlite3.Connection) -> None:
    """Fold what no reader needs any more into the file; if that is all, the log is emptied."""
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _open_read_write(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None
    )
