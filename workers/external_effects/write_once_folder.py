"""Writes files below one folder: whole or not at all, once, and never outside of it.

1. Every folder on the way is opened from the one above it and may not be a link, so no path leads
   out, whatever somebody puts there meanwhile.
2. A file appears under its name with all of its content, by a hard link from a draft, which fails
   where the name exists. Nothing is ever overwritten. On a file system that does not tell upper
   from lower case, names that differ in nothing else are one name, and the second is refused.
3. An answered write survives the loss of power: the file and every folder that changed are synced.

One process writes at a time (the lock of the data folder ensures that). See decision workers/0009.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kernel.model.envelope import MAX_ENVELOPE_BYTES
from workers.external_effects.errors import ExternalEffectError, translate_errors

CONTENT_MAX_BYTES = MAX_ENVELOPE_BYTES
PARTS_MAX = 64
DRAFTS = "external-drafts"

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not waiting for a writer, should the name be a pipe.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Something that exists below the folder."""

    path: str
    sha256: str
    size_bytes: int

    @classmethod
    def of(cls, parts: Sequence[str], content: bytes) -> "WrittenFile":
        """Describe content at a place."""
        return cls("/".join(parts), hashlib.sha256(content).hexdigest(), len(content))


class OutsideFolder:
    """The folder below which effects write."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, parts: Sequence[str], content: bytes) -> WrittenFile:
        """Write a file, durably; one that has this content already is left as it is.

        Raises:
            ExternalEffectError: `external_path_occupied` where there is other content.
        """
        if len(content) > CONTENT_MAX_BYTES:
            message = f"{len(content)} bytes, at most {CONTENT_MAX_BYTES}"
            raise ExternalEffectError("external_content_too_large", message)
        _check(parts)
        draft = hashlib.sha256("/".join(parts).encode()).hexdigest()
        with (
            translate_errors(),
            self.open_folder(parts[:-1]) as folder,
            self.open_folder((DRAFTS,)) as drafts,
        ):
            try:
                _write_draft(drafts, draft, content)
                _link(drafts, draft, folder, parts[-1], content)
            finally:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=drafts)
            os.fsync(folder)
        return WrittenFile.of(parts, content)

    def read(self, parts: Sequence[str]) -> bytes | None:
        """Return a file's content, None where there is none.

        Raises:
            ExternalEffectError: `external_path_occupied` where this is no file of ours.
        """
        _check(parts)
        with translate_errors(), self.open_folder(parts[:-1]) as folder:
            try:
                return _read(folder, parts[-1])
            except FileNotFoundError:
                return None

    @contextmanager
    def open_folder(self, parts: Sequence[str]) -> Iterator[int]:
        """Open a folder, making it and those above it where they are missing (mode 0700)."""
        current = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                with suppress(FileExistsError):
                    os.mkdir(part, _FOLDER_MODE, dir_fd=current)
                # Whoever made it may have been killed before syncing it.
                os.fsync(current)
                below = os.open(part, _OPEN_FOLDER, dir_fd=current)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)


def _check(parts: Sequence[str]) -> None:
    if not 0 < len(parts) <= PARTS_MAX:
        raise ExternalEffectError("external_path_invalid", f"at most {PARTS_MAX} levels")
    for part in parts:
        if part in ("", ".", "..") or any(sign in part for sign in ("/", "\\", "\x00")):
            raise ExternalEffectError("external_path_unsafe", "not the name of a file or folder")


def _write_draft(drafts: int, name: str, content: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=drafts)
    fd = os.open(name, _OPEN_DRAFT, _FILE_MODE, dir_fd=drafts)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(fd)


def _link(drafts: int, draft: str, folder: int, name: str, content: bytes) -> None:
    try:
        os.link(draft, name, src_dir_fd=drafts, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        if _read(folder, name) != content:
            raise ExternalEffectError("external_path_occupied", "there is other content") from None


def _read(folder: int, name: str) -> bytes:
    try:
        fd = os.open(name, _OPEN_FILE, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ExternalEffectError("external_path_occupied", "there is no plain file") from error
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > CONTENT_MAX_BYTES:
            raise ExternalEffectError("external_path_occupied", "there is no file of ours")
        # Whoever wrote it may have been killed before the folder was synced.
        os.fsync(fd)
        return file.read(CONTENT_MAX_BYTES + 1)
