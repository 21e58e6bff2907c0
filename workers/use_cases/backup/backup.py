"""Makes a backup of a ledger that is in use, and of what belongs to it.

The order makes it consistent without stopping anything: what is published goes first, so that the
checkpoint in a backup is of rows that the backup has; then the ledger, in one snapshot; then the
archive and the files of effects, which the ledger names and which are only added to. Nothing is
written under a name that has a meaning before the manifest is, so a backup that was cut off leaves
the earlier ones as they are.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

from kernel.ledger.archive import Archive
from kernel.ledger.ledger import LedgerView
from kernel.ledger.schema_version import expected_version
from kernel.ledger.shards import ledger_id_of
from kernel.model.rules_version import RULES_VERSION
from workers.environment.checkpoint_folder import CHECKPOINT
from workers.environment.checkpoint_key import verifiers_in
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import (
    ArchivedPlace,
    archive_of,
    copy_ledger,
    ledger_place,
    open_record,
)
from workers.environment.private_files import FILE_MODE
from workers.environment.settings import ENV_PREFIX, Settings
from workers.environment.system_host import system_host
from workers.use_cases.backup.errors import (
    BackupBusy,
    BackupDamaged,
    BackupInvalid,
    BackupKeyInvalid,
    BackupUnavailable,
)
from workers.use_cases.backup.manifest import (
    ARCHIVE,
    EFFECT_ROOTS,
    LEDGER,
    PIECE_BYTES,
    PUBLISHED,
    BackupFile,
    BackupHead,
    BackupManifest,
    NamedKey,
    is_path,
)
from workers.use_cases.backup.place import BackupPlace

LOCK: Final = "backup.lock"
COPY: Final = "backup-copy.db"
KEY_FILES: Final = ("checkpoint_key", "seal_key", "backup_key")
SECRETS: Final = (
    *("worker_token", "webhook_secret", "model_key"),
    *("user_confirmation_key", "architect_confirmation_key"),
)
_BESIDE: Final = ("", "-wal", "-shm", "-journal")

Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A backup that is there, and what it took."""

    name: str
    manifest: BackupManifest
    bytes_total: int
    bytes_stored: int
    """Of pieces that no earlier backup had."""

    pieces_total: int
    pieces_stored: int
    backups_removed: int
    problem_of_last: str
    """Why the newest backup before this one cannot be read, or nothing."""


def make_backup(
    settings: Settings, place: BackupPlace, progress: Progress, *, keep: int | None = None
) -> BackupReport:
    """Make a backup, durable when this returns; of older ones so many are left with it.

    Raises:
        BackupError: it was not made, and earlier ones are as they were.
        LedgerUnavailable: there is no ledger, or no room for a copy of it in the data folder.
        ArchiveUnavailable: the archive does not answer.
    """
    folder = DataFolder(settings.data_dir)
    folder.make()
    with _lock(folder.path / LOCK):
        last, problem = _last_of(place)
        began_at_us = system_host().now_us()
        if last is not None:
            began_at_us = max(began_at_us, last.began_at_us + 1)
        pieces = _Pieces(place, last, progress)
        pieces.add_published(settings.published_folder)
        ledger_id, head = _add_ledger(settings, folder.path / COPY, pieces)
        pieces.add_archive(archive_of(ledger_place(settings)))
        pieces.add_effects(folder.path)
        manifest = BackupManifest(
            began_at_us=began_at_us,
            database="postgresql" if settings.database_url else "sqlite",
            ledger_id=ledger_id,
            program_version=version("rotulus"),
            schema_version=expected_version(),
            rules_version=RULES_VERSION,
            head=head,
            keys=tuple(_named_keys(settings)),
            files=pieces.files,
        )
        name = place.put_manifest(manifest)
        removed = 0 if keep is None else remove_older(place, keep)
    return BackupReport(
        name=name,
        manifest=manifest,
        bytes_total=sum(file.size_bytes for file in manifest.files),
        bytes_stored=pieces.bytes_stored,
        pieces_total=len(manifest.piece_hashes()),
        pieces_stored=pieces.count_stored,
        backups_removed=removed,
        problem_of_last=problem,
    )


def _last_of(place: BackupPlace) -> tuple[BackupManifest | None, str]:
    """Return the newest backup, or none and why it cannot be read: a new one needs no older one."""
    try:
        newest = place.newest()
    except (BackupDamaged, BackupInvalid, BackupKeyInvalid) as error:
        return None, f"{error.code}: {error}"
    return None if newest is None else newest[1], ""


def remove_older(place: BackupPlace, keep: int) -> int:
    """Remove all backups but the newest ones, and the pieces that only those had.

    Raises:
        BackupError: one that stays cannot be read, so that no piece is removed.
    """
    names = place.manifest_names()
    older, newest = names[:-keep], names[-keep:]
    if not older:
        return 0
    used = {
        place.name_of(piece) for name in newest for piece in place.manifest(name).piece_hashes()
    }
    for name in older:
        place.remove_manifest(name)
    place.remove_pieces(place.piece_names() - used)
    return len(older)


class _Pieces:
    """The files of a backup that is being made."""

    def __init__(self, place: BackupPlace, last: BackupManifest | None, progress: Progress) -> None:
        self._place = place
        self._progress = progress
        self._last = {} if last is None else {file.path: file for file in last.files}
        hashes = frozenset() if last is None else last.piece_hashes()
        # What a backup that was cut off has stored is in no manifest, and may be anything.
        self._names = {*map(place.name_of, hashes)} & place.piece_names()
        self._files: dict[str, BackupFile] = {}
        self.bytes_stored = 0
        self.count_stored = 0

    def add_published(self, folder: Path) -> None:
        """Add the checkpoint, then the tiles; whatever else lies there is not published."""
        for path in (folder / CHECKPOINT, *_plain_files(folder / "tile")):
            self._add_small(f"{PUBLISHED}/{path.relative_to(folder).as_posix()}", path)

    def add_file(self, path: str, contents: Iterable[bytes]) -> None:
        """Add a file by its pieces, each of `PIECE_BYTES` but the last."""
        whole, size, hashes = sha256(), 0, []
        for content in contents:
            whole.update(content)
            size += len(content)
            hashes.append(sha256(content).hexdigest())
            self._store(hashes[-1], content)
            self._progress(f"{self.count_stored} pieces stored, {path}")
        self._files[path] = BackupFile(
            path=path, size_bytes=size, sha256=whole.hexdigest(), pieces=tuple(hashes)
        )

    def add_archive(self, archive: Archive) -> None:
        """Add the archive; of its files, which never change, those of the last backup unread."""
        for name in sorted(archive.files.names()) if archive.is_configured else ():
            path = f"{ARCHIVE}/{name}"
            last = self._last.get(path)
            if last is not None and {*map(self._place.name_of, last.pieces)} <= self._names:
                self._files[path] = last
            elif (content := archive.files.get(name)) is not None:  # it may have been erased
                self.add_file(path, _in_pieces(content))

    def add_effects(self, data_folder: Path) -> None:
        """Add the files of effects; not tokens of share links, which are secrets."""
        for root in EFFECT_ROOTS:
            for file in _plain_files(data_folder / root):
                self._add_small(file.relative_to(data_folder).as_posix(), file)

    @property
    def files(self) -> tuple[BackupFile, ...]:
        """All files so far."""
        return tuple(self._files.values())

    def _add_small(self, path: str, file: Path) -> None:
        """Add a file of ours that fits into memory, if it is still there."""
        if not is_path(path):
            return
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise BackupUnavailable(f"{file}: {error.strerror}") from error
        self.add_file(path, _in_pieces(content))

    def _store(self, content_hash: str, content: bytes) -> None:
        name = self._place.name_of(content_hash)
        if name not in self._names:
            self.bytes_stored += self._place.put_piece(name, content)
            self.count_stored += 1
            self._names.add(name)


def _add_ledger(settings: Settings, copy: Path, pieces: _Pieces) -> tuple[str | None, BackupHead]:
    """Add a copy of the ledger, and return its id and its head."""
    place, url = ledger_place(settings), settings.archive_url
    _remove(copy)
    try:
        copy_ledger(place, copy)
        with open_record(copy if url is None else ArchivedPlace(copy, url)) as view:
            stated = ledger_id_of(view), head_in(view)
        pieces.add_file(LEDGER, _pieces_of(copy))
    finally:
        _remove(copy)
    return stated


def head_in(view: LedgerView) -> BackupHead:
    """Return the head of a ledger as a manifest states it."""
    head = view.head()
    return BackupHead(
        ec_sequence_number=head.ec_sequence_number,
        row_hash=head.row_hash,
        receipt_sequence=head.receipt_sequence,
        receipt_hash=head.receipt_hash,
        tree_root=view.log_tree().root().hex(),
        committed_at_us=head.committed_at_us,
    )


def _named_keys(settings: Settings) -> Iterator[NamedKey]:
    for field in KEY_FILES:
        path: Path | None = getattr(settings, field)
        if path is not None:
            signs = field != "backup_key"
            vkeys = tuple(key.vkey for key in verifiers_in(path)) if signs else ()
            yield NamedKey(setting=f"{ENV_PREFIX}{field.upper()}", vkeys=vkeys)
    for field in SECRETS:
        if getattr(settings, field) is not None:
            yield NamedKey(setting=f"{ENV_PREFIX}{field.upper()}")


def _in_pieces(content: bytes) -> Iterator[bytes]:
    for begin in range(0, len(content), PIECE_BYTES):
        yield content[begin : begin + PIECE_BYTES]


def _pieces_of(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while content := opened.read(PIECE_BYTES):
            yield content


def _plain_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, in the order of their paths; links are passed over."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


def _remove(copy: Path) -> None:
    for suffix in _BESIDE:
        copy.with_name(copy.name + suffix).unlink(missing_ok=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock of a data folder's backups, which ends with the process."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupBusy(f"{path} is held: another process makes a backup") from None
        yield
    finally:
        os.close(handle)
