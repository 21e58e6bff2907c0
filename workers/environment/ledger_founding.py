"""Founds a ledger: it is there with all of its genesis rows, or it is not there.

The file is made under another name and gets its own in one step, so a process that is killed in the
middle leaves no ledger that lacks something. It leaves the draft, which the next one that founds
takes over: a lock on the draft says that somebody is at it, and ends with that process.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.ledger_files import is_folded
from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.errors import LedgerUnavailable
from kernel.values.host import Host
from workers.environment.private_files import FILE_MODE

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_BESIDE = ("-wal", "-shm", "-journal")


def draft_of(path: Path) -> Path:
    """Return where the ledger of a path is made."""
    return path.with_name(f"{path.name}.founding")


def create_ledger_file(path: Path, host: Host) -> None:
    """Found a ledger at a path where there is no file; where there is one, change nothing.

    Raises:
        LedgerUnavailable: when it cannot be made.
    """
    if path.exists():
        return
    draft = draft_of(path)
    try:
        with _lock_of(draft):
            # Whoever held the lock before may have founded it.
            if path.exists():
                draft.unlink(missing_ok=True)
                return
            _make(draft, host)
            draft.rename(path)
            _sync(path.parent)
    except OSError as error:
        raise LedgerUnavailable(f"{path}: {error.strerror}") from error


def _make(draft: Path, host: Host) -> None:
    """Make a whole ledger of a draft, of which a killed process may have made a part."""
    os.truncate(draft, 0)
    for suffix in _BESIDE:
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)
    Ledger.create(SqliteStore(draft), host).close()
    if not is_folded(draft):
        raise LedgerUnavailable(f"{draft}: a part of it is still beside it")


@contextmanager
def _lock_of(draft: Path) -> Iterator[None]:
    lock = os.open(draft, _FLAGS, FILE_MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
