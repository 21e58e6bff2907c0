"""Notices files that somebody else has put in the place of an SQLite ledger's that are open.

A write-ahead log belongs to the file beside which it was written, and nothing in it says to which
that is: SQLite would apply it to a backup that was put there. So what is open is compared with what
lies at the path, and a log that lost its file is set aside (decision kernel/0581). It still holds
what was committed last.
"""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from kernel.ledger.sqlite.ledger_files import FILE_MODE, WAL_SUFFIX

_SHARED_SUFFIX = "-shm"
_ASIDE = "{}.of-replaced-file-{}"
_FOLDED_HEAD = (
    "SELECT committed_at_us, ec_sequence_number, row_hash, receipt_sequence, receipt_hash"
    " FROM chain_head"
)

_HEAD = "SELECT committed_at_us, ec_sequence_number, receipt_sequence FROM chain_head"
_ROWS_AFTER = "SELECT count(*) FROM kernel_event_log WHERE ec_sequence_number > ?"
_RECEIPTS_AFTER = "SELECT count(*) FROM receipts WHERE receipt_sequence > ?"
_HASHES = (
    "SELECT (SELECT row_hash FROM kernel_event_log WHERE ec_sequence_number = ?),"
    " (SELECT receipt_hash FROM receipts WHERE receipt_sequence = ?)"
)

FileId = tuple[int, int]


class FoldedHead(NamedTuple):
    """The head that a file states without its write-ahead log."""

    committed_at_us: int
    ec_sequence_number: int
    row_hash: str
    receipt_sequence: int
    receipt_hash: str


def file_id(path: str | Path) -> FileId | None:
    """Return which file lies at a path, None where there is none."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - asked before every transaction
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def log_of(path: Path) -> Path:
    """Return where the write-ahead log of a file lies."""
    return path.with_name(path.name + WAL_SUFFIX)


def folded_head(path: Path) -> FoldedHead | None:
    """Return the head in a file alone; None where it cannot be read, or is just being folded."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as connection:
        row = connection.execute(_FOLDED_HEAD).fetchone()
        return None if row is None else FoldedHead(*row)
    return None


def goes_on_from(fresh: sqlite3.Connection, folded: FoldedHead, known_at_us: int) -> bool:
    """Tell whether a ledger goes on from what its file states alone, and up to what is known.

    The rows since then lie in the file, in its write-ahead log, or in both. A file that was written
    over lacks those that the log has no longer. One that cannot be read is for others to tell.
    """
    try:
        fresh.execute("BEGIN")
        head, rows, receipts, hashes = (
            fresh.execute(sql, values).fetchone()
            for sql, values in (
                (_HEAD, ()),
                (_ROWS_AFTER, (folded.ec_sequence_number,)),
                (_RECEIPTS_AFTER, (folded.receipt_sequence,)),
                (_HASHES, (folded.ec_sequence_number, folded.receipt_sequence)),
            )
        )
    except sqlite3.Error:
        return True
    at_us, row_number, receipt_number = head
    return bool(
        at_us >= max(known_at_us, folded.committed_at_us)
        and rows[0] == row_number - folded.ec_sequence_number
        and receipts[0] == receipt_number - folded.receipt_sequence
        and hashes[0] in (None, folded.row_hash)
        and hashes[1] in (None, folded.receipt_hash)
    )


class LogSetAside:
    """Keeps the write-ahead log that is open from being folded while connections are closed.

    The last connection that closes would fold it into the file that it has open, and would remove
    whatever log lies at the path.
    """

    def __init__(self, path: Path, log_id: FileId | None) -> None:
        self._log, self._shared = log_of(path), path.with_name(path.name + _SHARED_SUFFIX)
        self._log_id = log_id
        self._moved: Path | None = None

    def _place(self, number: int) -> Path:
        return Path(_ASIDE.format(self._log, number))

    def __enter__(self) -> None:
        at_path = file_id(self._log)
        if at_path is None:
            return
        aside = next(path for path in map(self._place, count()) if not path.exists())
        if at_path != self._log_id:
            # It came with the file that was put there.
            self._log.rename(aside)
            self._moved = aside
            return
        with self._log.open("rb") as log, open(aside, "xb", opener=_private) as copy:
            shutil.copyfileobj(log, copy)
        os.truncate(self._log, 0)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._moved is not None:
            self._moved.rename(self._log)
        elif file_id(self._log) == self._log_id:
            self._log.unlink(missing_ok=True)
            self._shared.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
