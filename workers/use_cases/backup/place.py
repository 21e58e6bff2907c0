"""Keeps backups in a folder or a bucket: pieces by their content, and a manifest for each backup.

- A piece is stored once, whatever backups have it. All are durable before a manifest names them,
  and a manifest is written last, so a backup is there as a whole or not. A piece that no manifest
  names may be anything after a loss of power, and is stored again.
- The name of a manifest is the moment at which its backup began, in microseconds, and the SHA-256
  of what is stored. So names are in the order of time, and a manifest that was changed is found.
- The form is one for every database (decision workers/0590).
- Nothing that lies there is believed: a piece is held to the hash by which its manifest names it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from kernel.ledger.archive import ArchiveUnavailable, SegmentFiles
from workers.environment.archive_files import FolderFiles
from workers.environment.archive_s3 import ANSWER_S, S3Files
from workers.use_cases.backup.cipher import NO_KEY_ID, Cipher
from workers.use_cases.backup.errors import (
    BackupDamaged,
    BackupInvalid,
    BackupKeyInvalid,
    BackupMissing,
    BackupUnavailable,
)
from workers.use_cases.backup.manifest import PIECE_BYTES, BackupManifest

PIECE_SUFFIX: Final = ".piece"
MANIFEST_SUFFIX: Final = ".manifest"
SHOWN_MAX: Final = 20

_TIME_CHARS: Final = 16
_HEAD: Final = re.compile(rb"rotulus-backup/1 (-|[0-9a-f]{16})\n")
_NAME: Final = re.compile(r"[0-9a-f]{64}")


class BackupPlace:
    """A folder, or a bucket by its URL, and what encrypts the backups in it."""

    def __init__(self, place: str, cipher: Cipher) -> None:
        self.shown = place
        self._cipher = cipher
        self._unsynced: set[str] = set()
        with self._translate_errors():
            self._pieces = _files_at(place, "pieces", PIECE_SUFFIX)
            self._manifests = _files_at(place, "manifests", MANIFEST_SUFFIX)

    @property
    def is_encrypted(self) -> bool:
        """Whether what is written here is encrypted."""
        return self._cipher.key_id != NO_KEY_ID

    def piece_names(self) -> set[str]:
        """Return the names of all pieces that are there."""
        with self._translate_errors():
            return set(self._pieces.names())

    def name_of(self, content_hash: str) -> str:
        """Return the name of the piece whose content has this hash."""
        return self._cipher.name_of(content_hash)

    def put_piece(self, name: str, content: bytes) -> int:
        """Store a piece, durable with the manifest; return how many bytes that took."""
        stored = self._cipher.close(name, content)
        with self._translate_errors():
            if isinstance(self._pieces, FolderFiles):
                self._pieces.put_unsynced(name, stored)
                self._unsynced.add(name)
            else:
                self._pieces.put(name, stored)
        return len(stored)

    def piece(self, content_hash: str, path: str) -> bytes:
        """Return the piece of a file whose content has this hash.

        Raises:
            BackupDamaged: it is not there, or is another one.
        """
        name = self.name_of(content_hash)
        with self._translate_errors():
            stored = self._pieces.get(name)
        where = f"piece {name} of {path!r} in {self.shown}"
        if stored is None:
            raise BackupDamaged(f"{where} is missing")
        try:
            content = self._cipher.open(name, stored)
        except BackupDamaged:
            content = None
        if content is None or len(content) > PIECE_BYTES or _hash(content) != content_hash:
            message = f"{where} is damaged; an undamaged copy of it, or another backup, is needed"
            raise BackupDamaged(message)
        return content

    def remove_pieces(self, names: set[str]) -> None:
        """Remove pieces that no manifest names."""
        with self._translate_errors():
            for name in sorted(names):
                self._pieces.delete(name)

    def put_manifest(self, manifest: BackupManifest) -> str:
        """Store the manifest of a backup whose pieces are there; return its name."""
        header = f"{manifest.format} {self._cipher.key_id}\n"
        # Its own name holds the hash of what is stored, so what is authenticated is the header.
        stored = header.encode() + self._cipher.close(header, manifest.to_bytes())
        name = _manifest_name(manifest.began_at_us, stored)
        with self._translate_errors():
            if isinstance(self._pieces, FolderFiles):
                self._pieces.sync(sorted(self._unsynced))
                self._unsynced.clear()
            self._manifests.put(name, stored)
        return name

    def manifest_names(self) -> list[str]:
        """Return the names of all backups, the oldest first."""
        with self._translate_errors():
            return sorted(self._manifests.names())

    def newest(self) -> tuple[str, BackupManifest] | None:
        """Return the newest backup, None where there is none.

        Raises:
            BackupDamaged, BackupInvalid, BackupKeyInvalid: see `manifest`.
        """
        names = self.manifest_names()
        return (names[-1], self.manifest(names[-1])) if names else None

    def remove_manifest(self, name: str) -> None:
        """Remove the manifest of a backup, whose pieces are then nobody's but others'."""
        with self._translate_errors():
            self._manifests.delete(name)

    def manifest(self, name: str) -> BackupManifest:
        """Return the manifest of a backup.

        Raises:
            BackupMissing: there is none of this name.
            BackupDamaged: it is not what was stored.
            BackupKeyInvalid: it is encrypted under another key, or is not and should be.
            BackupInvalid: it states what no backup has.
        """
        stored = None
        if _NAME.fullmatch(name):
            with self._translate_errors():
                stored = self._manifests.get(name)
        if stored is None:
            known = ", ".join(self.manifest_names()[-SHOWN_MAX:]) or "no backup"
            raise BackupMissing(f"{self.shown} has no backup {name!r}; it has {known}")
        where = f"manifest {name} in {self.shown}"
        header = _HEAD.match(stored)
        if header is None or _manifest_name(int(name[:_TIME_CHARS], 16), stored) != name:
            raise BackupDamaged(f"{where} is damaged; name another backup by --backup")
        self._check_key(where, header[1].decode())
        content = self._cipher.open(header[0].decode(), stored[header.end() :])
        manifest = BackupManifest.of_bytes(name, content)
        if manifest.began_at_us != int(name[:_TIME_CHARS], 16):
            raise BackupInvalid(f"{where} states another moment than its name")
        return manifest

    def _check_key(self, where: str, key_id: str) -> None:
        if key_id == self._cipher.key_id:
            return
        if key_id == NO_KEY_ID:
            raise BackupKeyInvalid(
                f"{where} is not encrypted, and ROTULUS_BACKUP_KEY names a key: anybody may have"
                " written it; unset that, or name another place"
            )
        raise BackupKeyInvalid(
            f"{where} is encrypted under the key {key_id}; name its file by ROTULUS_BACKUP_KEY"
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except ArchiveUnavailable as error:
            raise BackupUnavailable(str(error)) from None


def _files_at(place: str, below: str, suffix: str) -> SegmentFiles:
    if place.startswith("s3:"):
        return S3Files(f"{place.rstrip('/')}/{below}", ANSWER_S, suffix)
    return FolderFiles(Path(place).expanduser().absolute() / below, suffix)


def _manifest_name(began_at_us: int, stored: bytes) -> str:
    moment = f"{began_at_us:0{_TIME_CHARS}x}"
    return moment + _hash(stored)[: 64 - _TIME_CHARS]


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
