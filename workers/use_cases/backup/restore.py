"""Restores a backup to where nothing lies, and proves that the ledger is the one that was stated.

1. Nothing is written where something lies, and what was written is removed where anything fails.
2. Every piece and every file is held to its hash. Paths are those of the manifest's form, and each
   file is new, so nothing is written outside of the folder or through a link.
3. The ledger has its name once it has verified: until then no gateway finds one. It states the head
   and the root of its manifest, or it is refused.
4. Redis is not restored. It starts empty, and gets what is open from the ledger.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Final

from pydantic import SecretStr

from kernel.ledger.schema_version import expected_version
from kernel.ledger.sqlite.ledger_files import fold
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import (
    ArchivedPlace,
    LedgerPlace,
    archive_of,
    fill_from_copy,
    ledger_place,
    open_record,
    printable_place,
    read_record,
)
from workers.environment.ledger_verification import verify_file
from workers.environment.private_files import FILE_MODE, FOLDER_MODE
from workers.environment.settings import Settings
from workers.use_cases.backup.backup import head_in
from workers.use_cases.backup.errors import (
    BackupDamaged,
    BackupMissing,
    BackupSchemaDiffers,
    BackupUnavailable,
    RestoreRefused,
    RestoreTargetInUse,
)
from workers.use_cases.backup.manifest import (
    ARCHIVE,
    EFFECT_ROOTS,
    LEDGER,
    PUBLISHED,
    BackupFile,
    BackupManifest,
)
from workers.use_cases.backup.place import BackupPlace

DRAFT: Final = "ledger.restore.db"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW

Progress = Callable[[str], object]
Contents = Iterator[bytes]


def backup_named(place: BackupPlace, name: str | None) -> tuple[str, BackupManifest]:
    """Return the backup of a name, the newest where none is named.

    Raises:
        BackupMissing: there is none.
        BackupDamaged, BackupInvalid, BackupKeyInvalid: its manifest cannot be believed.
    """
    if name is not None:
        return name, place.manifest(name)
    newest = place.newest()
    if newest is None:
        raise BackupMissing(
            f"{place.shown} has no backup; `rotulus backup --output PLACE` makes one"
        )
    return newest


def check_backup(place: BackupPlace, manifest: BackupManifest, progress: Progress) -> list[str]:
    """Read every piece of a backup, write nothing, and return what is wrong with each.

    Raises:
        BackupUnavailable: the place does not answer.
    """
    problems: dict[str, None] = {}
    for file in manifest.files:
        progress(file.path)
        whole, is_whole = sha256(), True
        for piece in file.pieces:
            try:
                whole.update(place.piece(piece, file.path))
            except BackupDamaged as error:
                problems[str(error)] = None
                is_whole = False
        if is_whole and whole.hexdigest() != file.sha256:
            problems[str(_is_another(place, file))] = None
    return [*problems]


def restore_backup(
    settings: Settings,
    place: BackupPlace,
    manifest: BackupManifest,
    progress: Progress,
    *,
    accept_findings: bool = False,
) -> list[str]:
    """Restore a backup into the data folder of the settings, and to the places that they name.

    Returns what verification finds in the ledger, which is nothing unless findings are accepted.

    Raises:
        BackupSchemaDiffers: it is of another version of the program.
        RestoreTargetInUse: something lies there.
        BackupDamaged: a piece of it is missing or is another one.
        RestoreRefused: the ledger does not verify, or is not the one of the manifest.
        BackupUnavailable: it cannot be written.
        ArchiveUnavailable: no archive is named and the backup has one, or it does not answer.
    """
    if manifest.schema_version != expected_version():
        raise BackupSchemaDiffers(
            f"the backup has tables of version {manifest.schema_version}, made by rotulus"
            f" {manifest.program_version}; this program reads {expected_version()}: restore it"
            " with that version, then `rotulus migrate` with this one"
        )
    with _empty_folder(DataFolder(settings.data_dir)) as folder, _new(settings.published_folder):
        draft = folder / DRAFT
        writes = _writes(settings, draft)
        for file in manifest.files:
            progress(file.path)
            root, _, below = file.path.partition("/")
            writes[root](below, _contents(place, file))
        url = settings.archive_url
        restored = draft if url is None else ArchivedPlace(draft, url)
        findings = _verify(restored, manifest, progress)
        if findings and not accept_findings:
            raise RestoreRefused(
                f"{len(findings)} findings, the first: {findings[0]}; what was backed up was"
                " damaged before: name an older backup by --backup, or go on by --accept-findings"
            )
        if settings.database_url is not None:
            _fill(settings.database_url, draft, manifest)
            return findings
        fold(draft)
        draft.rename(folder / LEDGER)
        _sync(folder)
    return findings


def _fill(database: SecretStr, draft: Path, manifest: BackupManifest) -> None:
    """Put a verified ledger into a database, which has the same head then."""
    if not fill_from_copy(database, draft):
        raise RestoreTargetInUse(
            f"{printable_place(database)} has a ledger in it; nothing was changed: name an empty"
            " database by ROTULUS_DATABASE_URL"
        )
    head = read_record(database, head_in)
    assert head == manifest.head, "what was written is not what was read"  # noqa: S101 - a defect
    draft.unlink()


def _writes(settings: Settings, draft: Path) -> Mapping[str, Callable[[str, Contents], None]]:
    """Return by the root of a path what writes a file below it.

    What is published elsewhere than in the data folder may have outlived it, and then stays.
    """
    published, archive = settings.published_folder, archive_of(ledger_place(settings))
    stays = published.exists()

    def write_ledger(_: str, contents: Contents) -> None:
        _write(draft, contents)

    def write_archived(name: str, contents: Contents) -> None:
        archive.files.put(name, b"".join(contents))

    def write_published(path: str, contents: Contents) -> None:
        if stays:
            deque(contents, maxlen=0)  # they are held to their hashes all the same
        else:
            _write(published / path, contents)

    def write_effect(root: str, path: str, contents: Contents) -> None:
        _write(draft.parent / root / path, contents)

    return {
        LEDGER: write_ledger,
        ARCHIVE: write_archived,
        PUBLISHED: write_published,
        **{root: partial(write_effect, root) for root in EFFECT_ROOTS},
    }


def _verify(place: LedgerPlace, manifest: BackupManifest, progress: Progress) -> list[str]:
    """Return the findings in a restored ledger, which has the head that its manifest states.

    Raises:
        RestoreRefused: it has another one.
    """
    with open_record(place) as view:
        head = head_in(view)
    if head != manifest.head:
        raise RestoreRefused(
            f"the ledger has {head.ec_sequence_number} rows with the root {head.tree_root}, its"
            f" manifest states {manifest.head.ec_sequence_number} with {manifest.head.tree_root}"
        )

    def show(rows: int, of: int) -> None:
        progress(f"{rows} of {of} rows verified")

    verification = verify_file(place, show)
    return [f"{finding.rule}: {finding.message}" for finding in verification.findings]


def _contents(place: BackupPlace, file: BackupFile) -> Contents:
    """Yield the pieces of a file, each held to its hash, and the whole to its own.

    Raises:
        BackupDamaged: at the first one that is not what the manifest states.
    """
    whole = sha256()
    for piece in file.pieces:
        content = place.piece(piece, file.path)
        whole.update(content)
        yield content
    if whole.hexdigest() != file.sha256:
        raise _is_another(place, file)


def _is_another(place: BackupPlace, file: BackupFile) -> BackupDamaged:
    return BackupDamaged(f"{file.path!r} in {place.shown} is not as its manifest states it")


def _write(path: Path, contents: Contents) -> None:
    try:
        path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, _NEW, FILE_MODE), "wb") as file:
            file.writelines(contents)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BackupUnavailable(f"{path}: {error.strerror}") from error


@contextmanager
def _empty_folder(folder: DataFolder) -> Iterator[Path]:
    """Hold a data folder in which nothing lies; it is empty again where the block fails."""
    with folder.lock():
        entries = [*_entries(folder)]
        if entries:
            raise RestoreTargetInUse(
                f"{folder.path} has {entries[0].name!r} in it; nothing was changed: name a folder"
                " that is empty or is not there, or move what lies there away"
            )
        try:
            yield folder.path
        except BaseException:
            for entry in _entries(folder):
                rmtree(entry) if entry.is_dir() else entry.unlink()
            raise


def _entries(folder: DataFolder) -> Iterator[Path]:
    """Yield what lies in a data folder, but for what its lock makes."""
    for path in sorted(folder.path.iterdir()):
        is_of_lock = path == folder.lock_path or (
            path == folder.redis_dir and not any(path.iterdir())
        )
        if not is_of_lock:
            yield path


@contextmanager
def _new(folder: Path) -> Iterator[None]:
    """Remove a folder that was not there before, where the block fails."""
    was_there = folder.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            rmtree(folder, ignore_errors=True)
        raise


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
