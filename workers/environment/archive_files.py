"""Keeps the segments of the archive in a folder, unless a URL names a bucket.

A segment is a file that is written once, under the hash of its content. The folder keeps it in one
of 256 folders by the first digits of its name, for the user who runs the processes alone; it is
there as a whole or not, and durable when the writer goes on (decision workers/0180).
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kernel.ledger.archive import Archive, ArchiveUnavailable
from kernel.ledger.archive_segment import RAW_BYTES_MAX
from workers.environment.archive_s3 import SUFFIX, S3Files
from workers.environment.private_files import (
    FILE_MODE,
    FOLDER_MODE,
    UnsafePathError,
    check_folder,
    draft_of,
)

NO_ARCHIVE: Final = "there is no place for an archive, so rows stay in the database, however old"
NAME_ARCHIVE: Final = "name a folder or a bucket by ROTULUS_ARCHIVE_URL"

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


def archive_at(url: str) -> Archive:
    """Return the archive that a URL of the settings names.

    Raises:
        ArchiveUnavailable: see `S3Files`.
    """
    if url.startswith("s3:"):
        return Archive(S3Files(url))
    return Archive(FolderFiles(Path(unquote(urlsplit(url).path))))


class FolderFiles:
    """Files in a folder, which is made with the first of them; their names end with a suffix."""

    def __init__(self, folder: Path, suffix: str = SUFFIX) -> None:
        self._folder = folder
        self._suffix = suffix

    def put(self, name: str, content: bytes) -> None:
        """Keep a file; durable when this returns."""
        self._put(name, content, synced=True)
        path = self._path(name)
        with _translate_path_errors(self._folder):
            for folder in (path.parent, self._folder, self._folder.parent):
                _sync(folder, os.O_DIRECTORY)

    def put_unsynced(self, name: str, content: bytes) -> None:
        """Keep a file, of which a loss of power may leave anything until it is synced."""
        self._put(name, content, synced=False)

    def sync(self, names: Iterable[str]) -> None:
        """Make files durable that were put unsynced: many at once cost little more than one."""
        paths = [self._path(name) for name in names]
        with _translate_path_errors(self._folder):
            for path in paths:
                _sync(path)
            for folder in {path.parent for path in paths}:
                _sync(folder, os.O_DIRECTORY)
            for folder in (self._folder, self._folder.parent) if paths else ():
                _sync(folder, os.O_DIRECTORY)

    def _put(self, name: str, content: bytes, *, synced: bool) -> None:
        path = self._path(name)
        draft = draft_of(path)
        with _translate_path_errors(self._folder):
            for folder in (self._folder, path.parent):
                folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
                check_folder(folder)
            try:
                with os.fdopen(os.open(draft, _FLAGS, FILE_MODE), "wb") as file:
                    file.write(content)
                    if synced:
                        file.flush()
                        os.fsync(file.fileno())
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)

    def get(self, name: str) -> bytes | None:
        """Return a file, None where there is none of that name."""
        with _translate_path_errors(self._folder), suppress(FileNotFoundError):
            return _whole_file(self._path(name))
        return None

    def delete(self, name: str) -> None:
        """Remove a file, if there is one of that name."""
        path = self._path(name)
        with _translate_path_errors(self._folder), suppress(FileNotFoundError):
            path.unlink()
            _sync(path.parent, os.O_DIRECTORY)

    def names(self) -> Iterator[str]:
        """Yield the names of all files."""
        with _translate_path_errors(self._folder):
            file_names = [path.name for path in self._folder.glob(f"??/*{self._suffix}")]
        yield from (name.removesuffix(self._suffix) for name in file_names)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / f"{name}{self._suffix}"


def _whole_file(path: Path) -> bytes:
    """Return a file, and nothing that only lies where one should: it could be without an end."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        stated = os.fstat(handle)
        if not stat.S_ISREG(stated.st_mode) or stated.st_size > RAW_BYTES_MAX:
            raise ArchiveUnavailable(
                f"{path} is no file of at most {RAW_BYTES_MAX} bytes",
                code="archive_segment_damaged",
            )
        return file.read(stated.st_size)


@contextmanager
def _translate_path_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except UnsafePathError as error:
        raise ArchiveUnavailable(str(error)) from None
    except OSError as error:
        raise ArchiveUnavailable(f"{folder}: {error.strerror}") from error


def _sync(path: Path, kind: int = 0) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | kind)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
