"""A file of events, one JSON object on a line, appended durably and once for each request.

A process that was killed may have appended an event whose request is still open. So the file is
read once at the start for the requests that are open then; from there on what was appended is
known. A line without its end was never finished: it is cut off and written again.
"""

import errno
import os
import stat
from collections.abc import Iterable, Sequence

import orjson

from workers.external_effects.errors import ExternalEffectError, translated
from workers.external_effects.write_once_folder import OutsideFolder, WrittenFile

LINE_MAX_BYTES = 64 * 1024

_FILE_MODE = 0o600
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class EventFile:
    """The events that consumers of materialized files read."""

    def __init__(self, folder: OutsideFolder, parts: Sequence[str]) -> None:
        self._folder = folder
        self._parts = tuple(parts)
        self._unread: frozenset[str] = frozenset()
        """Requests that were open at the start, until the file was read for them."""

        self._appended: set[str] = set()
        """Requests whose event is in the file and whose outcome is not on record yet."""

    def expect(self, open_requests: Iterable[str]) -> None:
        """Say which requests are open at the start; an earlier process may have served them."""
        self._unread = frozenset(open_requests)

    def append(self, request_id: str, event: bytes) -> WrittenFile:
        """Append an event, durably, unless the file has it.

        Raises:
            ExternalEffectError: the event is not there, or not durable.
        """
        line = event + b"\n"
        if len(line) > LINE_MAX_BYTES:
            raise ExternalEffectError("external_event_too_large", f"{len(line)} bytes")
        with translated(), self._folder.opened(self._parts[:-1]) as folder:
            fd = _open(folder, self._parts[-1])
            try:
                if self._unread:
                    self._read(fd)
                if request_id not in self._appended:
                    _append(fd, line)
                os.fsync(folder)
            finally:
                os.close(fd)
        self._appended.add(request_id)
        return WrittenFile.of(self._parts, line)

    def forget(self, request_id: str) -> None:
        """Take note that a request has its outcome and will not be performed again."""
        self._appended.discard(request_id)

    def _read(self, fd: int) -> None:
        """Find out which open requests have their event; linear in the file, once."""
        end = _end_of_lines(fd)
        with os.fdopen(os.dup(fd), "rb") as file:
            file.seek(0)
            while file.tell() < end:
                request_id = _request_id(file.readline(LINE_MAX_BYTES))
                if request_id in self._unread:
                    self._appended.add(request_id)
        # What an earlier process left may not have been synced; from here on it counts as done.
        os.fsync(fd)
        self._unread = frozenset()


def _append(fd: int, line: bytes) -> None:
    end = _end_of_lines(fd)
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
