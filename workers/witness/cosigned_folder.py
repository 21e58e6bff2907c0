"""Keeps what a witness has cosigned, a file for each log, with hand-overs and evidence.

The folder is made with the keys, by a command. Without it nothing is cosigned: a witness that has
forgotten what it saw would cosign another history. `index.json` names the files that have to be
there and the size up to which each log was cosigned, so that a file that was removed, or put back
from a backup, is missed too (decision workers/0412). It is written behind the file that it names.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import orjson

from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.equivocation import Equivocation
from kernel.proof.key_handover import KeyHandover
from kernel.proof.verification import ProofInvalid
from workers.environment.key_file import (
    CheckpointKeyUnusable,
    read_private,
    write_private,
)
from workers.environment.private_files import FOLDER_MODE, UnsafePathError, check_folder

_CHECKPOINT: Final = "checkpoint"
_HANDOVERS: Final = "handovers.json"
_ENDINGS: Final = (_CHECKPOINT, _HANDOVERS)
_INDEX: Final = "index.json"


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
        path, index = self._file_of(origin, _CHECKPOINT), self._index()
        for ending in (_CHECKPOINT, _HANDOVERS):
            file = self._file_of(origin, ending)
            if file.name in index and not file.exists():
                raise CheckpointKeyUnusable(f"{file} is gone: {origin!r} is not cosigned any more")
        kept = [_checkpoint(path, origin, read_private(path))] if path.exists() else []
        kept += [checkpoint for checkpoint, _ in self._read_handovers(origin)]
        latest = max(kept, key=lambda checkpoint: checkpoint.stated.size, default=None)
        known = max(index.get(self._file_of(origin, each).name, 0) for each in _ENDINGS)
        if latest is not None and latest.stated.size < known:
            message = f"{path} is of {latest.stated.size} rows, and {known} were cosigned"
            raise CheckpointKeyUnusable(f"{message}: {origin!r} is not cosigned any more")
        return latest

    def handovers(self, origin: str) -> tuple[KeyHandover, ...]:
        """Return the hand-overs of a log's keys that are followed.

        Raises:
            CheckpointKeyUnusable: they cannot be read, or are those of another log.
        """
        return tuple(
            handover for _, followed in self._read_handovers(origin) for handover in followed
        )

    def keep_handovers(
        self, checkpoint: SignedCheckpoint, handovers: Sequence[KeyHandover]
    ) -> None:
        """Keep the hand-overs that are followed with the checkpoint under which they were proved.

        They are one file, so neither is ever there without the other.

        Raises:
            CheckpointKeyUnusable: it cannot be written.
        """
        document = {
            "checkpoint": checkpoint.to_bytes().decode(),
            "handovers": [handover.document for handover in handovers],
        }
        path = self._file_of(checkpoint.stated.origin, _HANDOVERS)
        write_private(path, orjson.dumps(document))
        self._note(path, checkpoint)

    def keep(self, checkpoint: SignedCheckpoint) -> None:
        """Keep the checkpoint that is to be cosigned, on the disk when this returns.

        Raises:
            CheckpointKeyUnusable: it cannot be written.
        """
        path = self._file_of(checkpoint.stated.origin, _CHECKPOINT)
        write_private(path, checkpoint.to_bytes())
        self._note(path, checkpoint)

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

    def _read_handovers(self, origin: str) -> list[tuple[SignedCheckpoint, list[KeyHandover]]]:
        """Return what the file of a log's hand-overs has, nothing where there is none."""
        path = self._file_of(origin, _HANDOVERS)
        if not path.exists():
            return []
        try:
            document = orjson.loads(read_private(path))
            checkpoint = _checkpoint(path, origin, document["checkpoint"].encode())
            handovers = [*map(KeyHandover.of_document, document["handovers"])]
        except (ValueError, KeyError, TypeError, AttributeError, ProofInvalid) as error:
            raise CheckpointKeyUnusable(f"{path}: {error}") from error
        if any(handover.last.origin != origin for handover in handovers):
            raise CheckpointKeyUnusable(f"{path} has hand-overs of another log")
        return [(checkpoint, handovers)]

    def _index(self) -> dict[str, int]:
        """Return the size that each file has to have at least; of none where there is no index."""
        path = self._path / _INDEX
        if not path.exists():
            return {}
        try:
            stated = orjson.loads(read_private(path))
            return {str(name): int(size) for name, size in stated.items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise CheckpointKeyUnusable(f"{path}: {error}") from error

    def _note(self, file: Path, checkpoint: SignedCheckpoint) -> None:
        """Note a file that was written; one from before there was an index is noted with it."""
        index = self._index()
        known = {path.name: 0 for ending in _ENDINGS for path in self._path.glob(f"*.{ending}")}
        grown = {**known, **index, file.name: checkpoint.stated.size}
        if grown != index:
            write_private(self._path / _INDEX, orjson.dumps(grown))

    def _file_of(self, origin: str, ending: str) -> Path:
        return self._path / f"{sha256(origin.encode()).hexdigest()}.{ending}"


def _checkpoint(path: Path, origin: str, note: bytes) -> SignedCheckpoint:
    try:
        checkpoint = SignedCheckpoint.of_bytes(note)
    except ProofInvalid as error:
        raise CheckpointKeyUnusable(f"{path}: {error}") from error
    if checkpoint.stated.origin != origin:
        raise CheckpointKeyUnusable(f"{path} is a checkpoint of another log")
    return checkpoint
