"""Copies an SQLite ledger into another file while others write to it.

The copy is one snapshot: it is read in one step, and a writer goes on beside it. What was answered
before the copy began is in it. Nobody is answered from a copy, so it is not synced.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from kernel.ledger.sqlite.ledger_files import make_private
from kernel.ledger.sqlite.schema import BUSY_TIMEOUT_S, check_schema
from kernel.values.errors import LedgerUnavailable


def copy_online(source: Path, copy: Path) -> None:
    """Copy the ledger in one file into a new one, which only its owner may read.

    Raises:
        LedgerUnavailable: there is no ledger, or the copy cannot be written.
        LedgerSchemaDiffers: the tables are not of this program's version.
    """
    if not source.is_file():
        raise LedgerUnavailable(f"no ledger at {source}")
    make_private(copy)
    try:
        with (
            closing(_open(source, "ro")) as reader,
            closing(_open(copy, "rw")) as writer,
        ):
            check_schema(reader, source, is_whole=True)
            writer.execute("PRAGMA synchronous = OFF")
            reader.backup(writer)
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"{source} cannot be copied to {copy}: {error}") from error


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
    )
