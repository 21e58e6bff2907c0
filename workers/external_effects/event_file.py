"""Appends events to a file, one JSON object on a line, durably and once for each request.

Two gateways may take themselves for the owner for a moment. So an event is appended under a lock on
the file, after whoever appends has shown there that it is the owner, and after the lines were read
that others have appended since. A process that was killed may have appended an event whose request
is still open: an owner reads the whole file once, for the requests that are open when it begins. A
line without its end was never finished; it is cut off and written again.

The lock is the kernel's of one machine. Gateways on several machines share the folder on a file
system that carries `flock` (NFS 4 does), or one of them performs effects.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence

import orjson

from workers.external_effects.errors import ExternalEffectError, translate_errors
from workers.external_effects.write_once_folder import OutsideFolder, WrittenFile

LINE_MAX_BYTES = 64 * 1024
LOCK_WAIT_S = 5.0
"""How long an event waits for another process that is appending; then it is tried again later."""

_LOCK_LOOK_EVERY_S = 0.01

_FILE_MODE = 0o600
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class EventFile:
    """The events that consumers of materialized files read."""

    def __init__(
        self, folder: OutsideFolder, parts: Sequence[str], lock_wait_s: float = LOCK_WAIT_S
    ) -> None:
        self._folder = folder
        self._parts = tuple(parts)
        self._lock_wait_s = lock_wait_s
        self._open_requests: frozenset[str] = frozenset()
        """Requests that were open when this owner began."""

        self._appended: set[str] = set()
        """Requests whose event is in the file and whose outcome is not on record yet."""

        self._inode = 0
        self._read_to = 0
        """How many bytes of the file with that inode were read, 0 before the first reading."""

    def expect(self, open_requests: Iterable[str]) -> None:
        """Begin as the owner: an earlier one may have served the requests that are open now."""
        self._open_requests = frozenset(open_requests)
        self._appended.clear()
        self._read_to = 0

    def append(
        self, request_id: str, event: bytes, expect_owner: Callable[[], None]
    ) -> WrittenFile:
        """Append an event, durably, unless the file has it.

        `expect_owner` is called under the lock, and stops the appending by what it raises.

        Raises:
            ExternalEffectError: the event is not there, or not durable; `external_events_locked`
                where another process kept the lock.
        """
        line = event + b"\n"
        if len(line) > LINE_MAX_BYTES:
            raise ExternalEffectError("external_event_too_large", f"{len(line)} bytes")
        with translate_errors(), self._folder.open_folder(self._parts[:-1]) as folder:
            fd = _open(folder, self._parts[-1])
            try:
                _lock(fd, self._lock_wait_s)
                expect_owner()
                end = self._read(fd)
                if request_id not in self._appended:
                    _append(fd, line, end)
                    self._appended.add(request_id)
                    self._read_to = end + len(line)
                os.fsync(folder)
            finally:
                os.close(fd)
        return WrittenFile.of(self._parts, line)

    def forget(self, request_id: str) -> None:
        """Take note that a request has its outcome and will not be performed again."""
        self._appended.discard(request_id)

    def _read(self, fd: int) -> int:
        """Read the lines that are new since the last reading, and return where the last one ends.

        The first reading is linear in the file, and keeps the open requests alone.
        """
        end, inode = _end_of_lines(fd), os.fstat(fd).st_ino
        if inode != self._inode or end < self._read_to:
            self._inode, self._read_to = inode, 0
        if end == self._read_to:
            return end
        is_first = self._read_to == 0
        with os.fdopen(os.dup(fd), "rb") as file:
            file.seek(self._read_to)
            while file.tell() < end:
                request_id = _request_id(file.readline(LINE_MAX_BYTES))
                if not is_first or request_id in self._open_requests:
                    self._appended.add(request_id)
        # What another process left may not have been synced; from here on it counts as done.
        os.fsync(fd)
        self._read_to = end
        return end


def _lock(fd: int, wait_s: float) -> None:
    """Take the file's lock; closing the file, or the end of the process, gives it back."""
    until_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                raise ExternalEffectError(
                    "external_events_locked", "another process is appending"
                ) from None
            time.sleep(_LOCK_LOOK_EVERY_S)
        else:
            return


def _append(fd: int, line: bytes, end: int) -> None:
    try:
        os.ftruncate(fd, end)
        _write(fd, line, end)
        os.fsync(fd)
    except BaseException:
        os.ftruncate(fd, end)
        raise


def _write(fd: int, line: bytes, end: int) -> None:
    if os.pwrite(fd, line, end) != len(line):
        raise OSError(errno.ENOSPC, "no room for an event")


def _open(folder: int, name: str) -> int:
    fd = os.open(name, _OPEN, _FILE_MODE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ExternalEffectError("external_path_occupied", "there is no plain file")
    return fd


def _end_of_lines(fd: int) -> int:
    """Return where the last whole line ends; what follows it was never finished."""
    size = os.fstat(fd).st_size
    start = max(0, size - LINE_MAX_BYTES)
    end = os.pread(fd, size - start, start).rfind(b"\n") + 1
    if end == 0 and start > 0:
        raise ExternalEffectError("external_path_occupied", "there are other lines than events")
    return start + end


def _request_id(line: bytes) -> str:
    try:
        return str(orjson.loads(line)["request_id"])
    except (ValueError, KeyError, TypeError):
        return ""
