"""Declares the manifest of a backup: every file of it, and the head of the ledger in it.

A manifest is read from a place that others may write, so it is held to this form before anything is
done by it. A path is one of those that a backup has, below one of the roots here, and never leads
out of a folder.
"""

import re
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from workers.use_cases.backup.errors import BackupInvalid

FORMAT: Final = "rotulus-backup/1"
LEDGER: Final = "ledger.db"
ARCHIVE: Final = "archive"
PUBLISHED: Final = "published"
EFFECT_ROOTS: Final = ("artifacts", "events", "materialized")

PIECE_BYTES: Final = 64 << 10
"""Of every piece of a file but its last."""

MANIFEST_BYTES_MAX: Final = 256 << 20
FILES_MAX: Final = 1_000_000
FILE_BYTES_MAX: Final = 1 << 44
PATH_CHARS_MAX: Final = 1024
NAME_BYTES_MAX: Final = 255
KEYS_MAX: Final = 64

_ARCHIVED: Final = re.compile(r"archive/[0-9a-f]{64}")
_PUBLISHED: Final = re.compile(r"published/(?:checkpoint|tile/[0-9]{1,2}/[0-9x/]+(?:\.p/[0-9]+)?)")


def is_path(path: str) -> bool:
    """Tell whether a backup may have a file of this path."""
    parts = path.split("/")
    is_plain = all(
        0 < len(part.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX
        and part not in (".", "..")
        and "\0" not in part
        for part in parts
    )
    is_one = (
        path == LEDGER
        or _ARCHIVED.fullmatch(path)
        or _PUBLISHED.fullmatch(path)
        or (len(parts) > 1 and parts[0] in EFFECT_ROOTS)
    )
    return bool(is_plain and is_one)


def _check_path(path: str) -> str:
    if not is_path(path):
        raise ValueError("no backup has a file of this path")
    return path


Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FilePath = Annotated[str, Field(max_length=PATH_CHARS_MAX), AfterValidator(_check_path)]
Count = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
Line = Annotated[str, Field(max_length=4096)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BackupFile(_Part):
    """A file, and the pieces of which it is made."""

    path: FilePath
    size_bytes: Annotated[int, Field(ge=0, le=FILE_BYTES_MAX)]
    sha256: Hash
    pieces: tuple[Hash, ...]
    """The SHA-256 of each, in their order."""

    @model_validator(mode="after")
    def _has_its_pieces(self) -> Self:
        if len(self.pieces) != -(-self.size_bytes // PIECE_BYTES):
            raise ValueError("a file has other pieces than its size says")
        return self


class BackupHead(_Part):
    """The head of the ledger in a backup."""

    ec_sequence_number: Count
    row_hash: Hash
    receipt_sequence: Count
    receipt_hash: Hash
    tree_root: Hash
    """Of the Merkle tree over its rows, which is as large as its newest row's sequence."""

    committed_at_us: Count


class NamedKey(_Part):
    """A key that the installation had, of which a backup holds nothing but the name."""

    setting: Line
    vkeys: tuple[Line, ...] = Field(default=(), max_length=KEYS_MAX)
    """The public halves, where it signs."""


class BackupManifest(_Part):
    """Everything that a backup states of itself."""

    format: Literal["rotulus-backup/1"] = FORMAT
    began_at_us: Count
    """Before the copy of the ledger was begun: what was answered by then is in it."""

    database: Literal["sqlite", "postgresql"]
    """What the ledger was copied from; the copy is a file of SQLite."""

    ledger_id: Annotated[str, Field(max_length=200)] | None
    program_version: Line
    schema_version: Count
    rules_version: Count
    head: BackupHead
    keys: tuple[NamedKey, ...] = Field(max_length=KEYS_MAX)
    files: tuple[BackupFile, ...] = Field(max_length=FILES_MAX)

    @model_validator(mode="after")
    def _has_one_ledger(self) -> Self:
        paths = {file.path for file in self.files}
        if len(paths) != len(self.files) or LEDGER not in paths:
            raise ValueError("a backup has one ledger, and each file once")
        folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
        if folders & paths:
            raise ValueError("a file is no folder of others")
        return self

    def file(self, path: str) -> BackupFile | None:
        """Return the file of a path."""
        return next((file for file in self.files if file.path == path), None)

    def piece_hashes(self) -> frozenset[str]:
        """Return the hashes of all pieces."""
        return frozenset(piece for file in self.files for piece in file.pieces)

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON."""
        return self.model_dump_json().encode()

    @classmethod
    def of_bytes(cls, name: str, content: bytes) -> Self:
        """Read a manifest.

        Raises:
            BackupInvalid: it has another form.
        """
        if len(content) > MANIFEST_BYTES_MAX:
            raise BackupInvalid(f"manifest {name} has more than {MANIFEST_BYTES_MAX} bytes")
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, problem["loc"])) or "the whole"
            raise BackupInvalid(f"manifest {name}: {place}: {problem['msg']}") from None
