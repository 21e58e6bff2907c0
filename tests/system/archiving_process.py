"""A process that archives into a bucket and ends itself, unasked and at once, on the way.

It is a process that begins anew: the library that speaks to the bucket does not survive a fork.
"""

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernel.ledger.archive import Archive
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.retention.archival import Retention
from tests.system.killed_at_steps import host_of
from workers.environment.archive_s3 import S3Files
from workers.use_cases.log_archiving import archive_steps

POINTS = ("upload", "commit", "committed")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Files:
    """A bucket; whoever has put something into it dies where that is the point."""

    def __init__(self, files: S3Files, point: str) -> None:
        self._files, self._point = files, point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def put(self, name: str, content: bytes) -> None:
        self._files.put(name, content)
        if self._point == "upload":
            _die()


class _Store:
    def __init__(self, store: SqliteStore, point: str) -> None:
        self._store, self._point = store, point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(self) -> Any:
        with self._store.transaction() as tables:
            yield tables
            if self._point == "commit":
                _die()
        if self._point == "committed":
            _die()


def archive_and_die(path: Path, url: str, before_us: int, point: str) -> None:
    """Archive the rows that are due, and die at a point."""
    retention = Retention(before_us, hot_rows_min=0)
    store: Any = _Store(SqliteStore(path), point)
    files: Any = _Files(S3Files(url), point)
    for _ in archive_steps(Ledger(store, host_of(1), Archive(files)), retention):
        pass
