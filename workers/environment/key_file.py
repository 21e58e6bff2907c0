"""Keeps signing keys in files: made by a command, of mode 0600, a key a line, for one process.

A name has one or more keys, each of another kind. A file that is there is never written over: what
its keys signed has to be continued.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel.proof.signing_keys import SEED_BYTES, KeyKind, SeedKey, is_seed_line
from kernel.proof.verification import ProofInvalid
from workers.environment.checkpoint_folder import write_whole
from workers.environment.command_key import CommandKey
from workers.environment.private_files import FILE_MODE, UnsafePathError, check_file

FILE_BYTES_MAX = 16 << 10

FileKey = SeedKey | CommandKey
"""A key as a line of a file: the private half itself, or the program that signs with it."""


class CheckpointKeyUnusable(Exception):
    """Signing keys, or what they last signed, cannot be read or written."""

    code = "checkpoint_key_unusable"


class CheckpointKeyBusy(CheckpointKeyUnusable):
    """Another process signs with the keys; it takes moments."""


def new_keys(name: str, kinds: Iterable[KeyKind]) -> tuple[SeedKey, ...]:
    """Make keys of these kinds under one name."""
    return tuple(SeedKey(name, kind, os.urandom(SEED_BYTES)) for kind in kinds)


def check_new(path: Path) -> None:
    """Check that there is no file yet.

    Raises:
        CheckpointKeyUnusable: there is one.
    """
    if path.is_symlink() or path.exists():
        raise CheckpointKeyUnusable(f"{path}: there is a file; nothing is written over it")


def write_keys(path: Path, keys: Iterable[FileKey]) -> None:
    """Write keys into a new file.

    Raises:
        CheckpointKeyUnusable: there is a file, or it cannot be written.
    """
    check_new(path)
    write_private(path, "".join(f"{key.line}\n" for key in keys).encode())


@contextmanager
def hold_keys(path: Path) -> Iterator[tuple[FileKey, ...]]:
    """Read the keys of a file and hold them: no other process does meanwhile.

    Raises:
        CheckpointKeyUnusable: it has none, or others may read it.
        CheckpointKeyBusy: another process holds them.
    """
    try:
        check_file(path)
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (OSError, UnsafePathError) as error:
        raise CheckpointKeyUnusable(f"{path}: {error}") from error
    with os.fdopen(handle, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CheckpointKeyBusy(f"{path}: another process signs with it") from None
        yield _keys_of(path, file.read(FILE_BYTES_MAX))


def seal_keys(path: Path | None) -> tuple[SeedKey, ...]:
    """Return the keys under which a gateway signs seals, none where no file is named.

    Raises:
        CheckpointKeyUnusable: the file has none, others may read it, or a program signs with one:
            a seal is signed while writers wait.
    """
    keys = () if path is None else keys_in(path)
    seed_keys = tuple(key for key in keys if isinstance(key, SeedKey))
    if len(seed_keys) < len(keys):
        raise CheckpointKeyUnusable(f"{path}: a program is too slow to sign seals")
    return seed_keys


def keys_in(path: Path) -> tuple[FileKey, ...]:
    """Read the keys of a file without holding them.

    Raises:
        CheckpointKeyUnusable: the file has none, or others may read it.
    """
    return _keys_of(path, read_private(path))


def read_private(path: Path) -> bytes:
    """Read a file that nobody else may.

    Raises:
        CheckpointKeyUnusable: it cannot be read, or others could change it.
    """
    try:
        check_file(path)
        return path.read_bytes()
    except (OSError, UnsafePathError) as error:
        raise CheckpointKeyUnusable(f"{path}: {error}") from error


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read, as a whole, on the disk when this returns.

    Raises:
        CheckpointKeyUnusable: it cannot be written.
    """
    try:
        write_whole(path, content, FILE_MODE)
    except OSError as error:
        raise CheckpointKeyUnusable(f"{path}: {error.strerror}") from error


def _keys_of(path: Path, content: bytes) -> tuple[FileKey, ...]:
    try:
        keys = tuple(_key_of(line) for line in content.decode().splitlines())
    except (ProofInvalid, UnicodeDecodeError):
        raise CheckpointKeyUnusable(f"{path} holds no keys") from None
    if not keys or len({key.verifier.name for key in keys}) > 1:
        raise CheckpointKeyUnusable(f"{path} holds no keys of one name")
    return keys


def _key_of(line: str) -> FileKey:
    return SeedKey.of_line(line) if is_seed_line(line) else CommandKey.of_line(line)
