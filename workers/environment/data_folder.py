"""Keeps the folder that holds one installation's ledger, embedded Redis and run-time facts.

One process tree uses a folder at a time. The proof is an exclusive flock on the file `lock`:
the kernel gives it up with the process, however that ends, so there is nothing to clean up after
a kill. The lock file is never deleted: whoever had opened the old file would hold a lock on
nothing. The pid inside it is a courtesy to the reader, not the lock.

The folder and what is in it are for the user who runs the processes, see `private_files.py`.
"""

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import orjson

from workers.environment.private_files import (
    FILE_MODE,
    FOLDER_MODE,
    UnsafePathError,
    check_file,
    check_folder,
)

_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

# A reader that asks whether the folder is in use holds the lock for a moment (see `in_use`).
_LOCK_TRIES = 5
_LOCK_RETRY_S = 0.02

ROOM_BYTES = 4 << 20
"""What a tree that starts is sure to write: a new ledger and Redis take a quarter of it."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_held_fds: set[int] = set()


class DataFolderError(Exception):
    """The base of the errors of a data folder."""

    code: ClassVar[str] = "data_folder_error"


class DataFolderBusyError(DataFolderError):
    """Says that another process uses the folder: stop that one, or choose another folder."""

    code = "data_folder_busy"

    def __init__(self, path: Path, pid: int | None) -> None:
        self.pid = pid
        """The holder, or None when it has not written its pid yet."""
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"{self.code}: {path} is in use by {holder}")


class DataFolderUnusableError(DataFolderError):
    """Says that the folder cannot be created or written."""

    code = "data_folder_unusable"


class DataFolderUnsafeError(DataFolderError):
    """Says that others could read or plant what is in the folder, and how to prevent it."""

    code = "data_folder_unsafe"


class DataFolderNotLockedError(DataFolderError):
    """Says that something was written without holding the lock, which is a defect."""

    code = "data_folder_not_locked"


class DataFolder:
    """Names the files of one data folder and guards them; creates nothing until it is locked."""

    def __init__(self, path: Path | str) -> None:
        # Absolute, so that a later change of directory does not move the folder.
        self.path = Path(path).expanduser().absolute()
        self.ledger_path = self.path / "ledger.db"
        self.redis_dir = self.path / "redis"
        self.runtime_path = self.path / "runtime.json"
        self.lock_path = self.path / "lock"
        self._fd: int | None = None

    def make(self) -> None:
        """Creates the folder (mode 0700) when missing, else sees that it is ours alone.

        The ledger in it is made private, should it not be.

        Raises:
            DataFolderUnsafeError: others could read or plant what is in it.
            DataFolderUnusableError: it cannot be created or looked at.
        """
        with _name_errors(self.path):
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            check_folder(self.path)
            for path in (self.lock_path, self.runtime_path, *_files_of(self.ledger_path)):
                check_file(path)

    def has_room(self) -> bool:
        """Creates the folder when missing, and tells whether `ROOM_BYTES` can be written in it.

        Raises:
            DataFolderUnsafeError, DataFolderUnusableError: see `make`.
        """
        try:
            with _name_errors(self.path):
                self.make()
                with tempfile.TemporaryFile(dir=self.path, buffering=0) as file:
                    return file.write(bytes(ROOM_BYTES)) == ROOM_BYTES
        except DataFolderUnusableError as error:
            if getattr(error.__cause__, "errno", None) not in _NO_ROOM:
                raise
            return False

    @contextmanager
    def lock(self) -> Iterator["DataFolder"]:
        """Creates the folder (mode 0700) when missing and holds its lock while the block runs.

        Run-time facts that a killed holder left are removed first, and ours at the end.

        Raises:
            DataFolderBusyError: another process, or another block of this one, holds it.
            DataFolderUnsafeError, DataFolderUnusableError: see `make`; or it cannot be written.
        """
        with _name_errors(self.path):
            self.make()
            self.redis_dir.mkdir(mode=FOLDER_MODE, exist_ok=True)
            check_folder(self.redis_dir)
            fd = os.open(self.lock_path, _LOCK_FLAGS, FILE_MODE)
        try:
            if not _try_exclusive(fd):
                raise DataFolderBusyError(self.path, _read_pid(fd))
            _held_fds.add(fd)
            self._fd = fd
            with _name_errors(self.path):
                _write_pid(fd)
                self.remove_runtime()
            try:
                yield self
            finally:
                self.remove_runtime()
                self._fd = None
                os.ftruncate(fd, 0)
                # Said aloud: closing alone waits for whoever shares the descriptor.
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            _held_fds.discard(fd)
            os.close(fd)

    def in_use(self) -> bool:
        """Tells whether a living process holds the lock.

        Raises:
            DataFolderUnusableError: we may not look into the folder.
        """
        with _name_errors(self.path):
            try:
                fd = os.open(self.lock_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except (FileNotFoundError, NotADirectoryError):
                return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def write_runtime(self, facts: Mapping[str, Any]) -> None:
        """Replaces the run-time facts (ports, urls, pids) as a whole; readers never see half.

        Raises:
            DataFolderNotLockedError: called outside `lock`.
            DataFolderUnusableError: they cannot be written.
        """
        if self._fd is None:
            raise DataFolderNotLockedError(f"{DataFolderNotLockedError.code}: {self.path}")
        draft = self.runtime_path.with_suffix(".json.new")
        with _name_errors(self.path):
            # The lock makes us the only writer: a draft that is there was left by a killed one.
            draft.unlink(missing_ok=True)
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
            with os.fdopen(fd, "wb") as file:
                file.write(orjson.dumps(dict(facts), option=orjson.OPT_INDENT_2))
            draft.replace(self.runtime_path)

    def read_runtime(self) -> dict[str, Any] | None:
        """Returns the facts of the tree that runs now, or None when none does.

        Raises:
            DataFolderUnsafeError: somebody else's tree, which could lead us anywhere.
            DataFolderUnusableError: the facts cannot be read.
        """
        if not self.in_use():
            return None
        with _name_errors(self.path):
            try:
                # An administrator may look at a service's tree.
                if os.geteuid() != 0:
                    check_folder(self.path)
                    check_file(self.runtime_path)
                facts: dict[str, Any] = orjson.loads(self.runtime_path.read_bytes())
            except FileNotFoundError:
                return None
        return facts

    def remove_runtime(self) -> None:
        """Removes the run-time facts, if there are any."""
        self.runtime_path.unlink(missing_ok=True)


def _files_of(ledger_path: Path) -> Iterator[Path]:
    for suffix in ("", "-wal", "-shm", "-journal"):
        yield ledger_path.with_name(ledger_path.name + suffix)


@contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UnsafePathError as error:
        raise DataFolderUnsafeError(f"{DataFolderUnsafeError.code}: {error}") from None
    except (OSError, orjson.JSONDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataFolderUnusableError(
            f"{DataFolderUnusableError.code}: {path}: {reason}"
        ) from error


def _try_exclusive(fd: int) -> bool:
    for attempt in range(_LOCK_TRIES):
        if attempt:
            time.sleep(_LOCK_RETRY_S)
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _write_pid(fd: int) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def _read_pid(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _forget_in_forked_child() -> None:
    # exec closes the descriptor by itself; a bare fork would share the lock with the child.
    for fd in _held_fds:
        with suppress(OSError):
            os.close(fd)
    _held_fds.clear()


os.register_at_fork(after_in_child=_forget_in_forked_child)
