"""What a witness has cosigned, a file for each log, and the evidence that it came by.

The folder is made with the keys, by a command. Without it nothing is cosigned: a witness that has
forgotten what it saw would cosign another history.
"""

from hashlib import sha256
from pathlib import Path

from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.equivocation import Equivocation
from kernel.proof.verification import ProofInvalid
from workers.environment.key_file import (
    CheckpointKeyUnusable,
    read_private,
    write_private,
)
from workers.environment.private_files import FOLDER_MODE, UnsafePathError, check_folder


class CosignedFolder:
    """The newest checkpoint of each log that was cosigned; one caller at a time."""

    def __init__(self, path: Path) -> None:
        """Open a folder.

        Raises:
            CheckpointKeyUnusable: there is none, or others may open it.
        """
        self._path = path
        try:
            check_folder(path)
        except (OSError, UnsafePathError) as error:
            raise CheckpointKeyUnusable(f"{path}: {error}") from error

    @classmethod
    def make(cls, path: Path) -> None:
        """Make a folder, in which nothing was cosigned.

        Raises:
            CheckpointKeyUnusable: there is one with something in it, or it cannot be made.
        """
        try:
            path.mkdir(FOLDER_MODE, exist_ok=True)
            is_used = any(path.iterdir())
        except OSError as error:
            raise CheckpointKeyUnusable(f"{path}: {error.strerror}") from error
        if is_used:
            raise CheckpointKeyUnusable(f"{path}: a witness has cosigned there")

    def latest(self, origin: str) -> SignedCheckpoint | None:
        """Return the newest checkpoint of a log that was cosigned.

        Raises:
            CheckpointKeyUnusable: it cannot be read, or is that of another log.
        """
        path = self._file_of(origin, "checkpoint")
        if not path.exists():
            return None
        try:
            checkpoint = SignedCheckpoint.of_bytes(read_private(path))
        except ProofInvalid as error:
            raise CheckpointKeyUnusable(f"{path}: {error}") from error
        if checkpoint.stated.origin != origin:
            raise CheckpointKeyUnusable(f"{path} is a checkpoint of another log")
        return checkpoint

    def keep(self, checkpoint: SignedCheckpoint) -> None:
        """Keep the checkpoint that is to be cosigned, on the disk when this returns.

        Raises:
            CheckpointKeyUnusable: it cannot be written.
        """
        path = self._file_of(checkpoint.stated.origin, "checkpoint")
        write_private(path, checkpoint.to_bytes())

    def keep_evidence(self, equivocation: Equivocation) -> Path | None:
        """Keep the first evidence against a log, and return where; None where there is some.

        Raises:
            CheckpointKeyUnusable: it cannot be written.
        """
        path = self._file_of(equivocation.first.stated.origin, "evidence.json")
        if path.exists():
            return None
        write_private(path, equivocation.to_bytes())
        return path

    def _file_of(self, origin: str, ending: str) -> Path:
        return self._path / f"{sha256(origin.encode()).hexdigest()}.{ending}"
