"""Names the ledger that owns a folder, in a file of it; another ledger's gateway is refused.

Two ledgers that archive into one folder, or let their effects appear in one, mix what nobody can
tell apart afterwards (decision workers/0371). A folder in which nothing lies yet is nobody's. A
bucket that is an archive has the same mark as an object (decision workers/0440).
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import unquote, urlsplit

from kernel.ledger.archive import ArchiveUnavailable
from queues.redis.watch import LedgerMark
from workers.environment.archive_s3 import S3Files
from workers.environment.data_folder import DataFolder
from workers.environment.private_files import FILE_MODE, FOLDER_MODE
from workers.environment.settings import Settings

ARCHIVE_OWNER: Final = "ledger-of-this-archive"
EFFECTS_OWNER: Final = "ledger-of-these-effects"
EFFECT_FOLDERS: Final = ("artifacts", "events", "materialized", "share-links")
BYTES_MAX: Final = 4096
ANSWER_S: Final = 5.0
"""For a store to say whose a bucket is; one that is away holds no start up for longer."""

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class FolderOfAnotherLedgerError(Exception):
    """Says that what lies in a folder, or below the prefix of a bucket, is another ledger's."""

    code: ClassVar[str] = "folder_of_another_ledger"

    def __init__(self, place: str, file: str, owner: str, mine: LedgerMark, setting: str) -> None:
        super().__init__(
            f"{self.code}: {place} is the folder of another ledger: {owner}; this one is"
            f" {mine}; do: name a folder of its own by {setting}; if that ledger is gone for good"
            f" and nobody needs what lies there, delete {place}/{file}"
        )


def claim_folders(settings: Settings, mark: LedgerMark) -> None:
    """Leave the mark of a ledger in its folders, as far as there is something in them.

    A folder that the settings name for an archive is made; a bucket has the mark at once.

    Raises:
        FolderOfAnotherLedgerError: another ledger has left its mark in one of them.
    """
    for file, setting in _folders_of(settings):
        # Whoever uses a folder that cannot be written says what is wrong with it.
        with suppress(OSError):
            claim_file(file, mark, setting)
    url = settings.archive_url or ""
    if url.startswith("s3:"):
        with suppress(ArchiveUnavailable):
            there = S3Files(url, ANSWER_S).claim(ARCHIVE_OWNER, _content(mark))
            _refuse_another(there, mark, url.rstrip("/"), ARCHIVE_OWNER, "ROTULUS_ARCHIVE_URL")


def claim_effects(folder: Path, mark: LedgerMark) -> None:
    """Leave the mark of a ledger where its effects appear.

    Raises:
        FolderOfAnotherLedgerError: another ledger has left its mark there.
        OSError: it cannot be written.
    """
    claim_file(folder / EFFECTS_OWNER, mark, "ROTULUS_DATA_DIR")


def _folders_of(settings: Settings) -> Iterator[tuple[Path, str]]:
    data = DataFolder(settings.data_dir).path
    if any((data / name).exists() for name in EFFECT_FOLDERS):
        yield data / EFFECTS_OWNER, "ROTULUS_DATA_DIR"
    if settings.archive_url is None:
        archive = data / "archive"
        if settings.database_url is None and archive.exists():
            yield archive / ARCHIVE_OWNER, "ROTULUS_ARCHIVE_URL"
    elif settings.archive_url.startswith("file:"):
        archive = Path(unquote(urlsplit(settings.archive_url).path))
        with suppress(OSError):
            archive.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        yield archive / ARCHIVE_OWNER, "ROTULUS_ARCHIVE_URL"


def claim_file(file: Path, mark: LedgerMark, setting: str) -> None:
    """Write the mark where there is none; of two at once one writes it.

    Raises:
        FolderOfAnotherLedgerError: it has the mark of another ledger.
        OSError: it cannot be written or read.
    """
    owner = _read(file)
    if owner is None:
        _write(file, _content(mark))
        owner = _read(file) or b""
    _refuse_another(owner, mark, str(file.parent), file.name, setting)


def _content(mark: LedgerMark) -> bytes:
    return f"{mark.id} {' '.join(mark.name.split())}\n".encode()


def _refuse_another(owner: bytes, mark: LedgerMark, place: str, file: str, setting: str) -> None:
    owner_id, _, name = owner.decode("utf-8", "replace").strip().partition(" ")
    if owner_id != mark.id:
        stated = f"{owner_id[:12]} ({name})"
        raise FolderOfAnotherLedgerError(place, file, stated, mark, setting)


def _read(file: Path) -> bytes | None:
    try:
        handle = os.open(file, _READ)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as there:
        return there.read(BYTES_MAX)


def _write(file: Path, content: bytes) -> None:
    """Let a whole file appear under its name, or leave what another has written there."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, _NEW, FILE_MODE), "wb") as new:
        new.write(content)
        new.flush()
        os.fsync(new.fileno())
    try:
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
