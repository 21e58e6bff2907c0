"""The key under which checkpoints are signed, and what was signed with it last: two files.

They lie where an operator says, outside the ledger and its backups. The second (`.signed`) has the
newest checkpoint. It is on the disk before anybody sees that checkpoint, so that a ledger that was
put back to an earlier state is noticed before it is signed. Without it nothing is signed.
"""

import base64
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel.ledger.log_tree import LogTree
from kernel.proof.checkpoint import Checkpoint, NoteSigner
from kernel.proof.merkle_tree import EMPTY_ROOT
from workers.environment.checkpoint_folder import write_whole
from workers.environment.private_files import FILE_MODE, UnsafePathError, check_file

KEY_BYTES = 32


class CheckpointKeyUnusable(Exception):
    """The key, or what it last signed, cannot be read or written."""

    code = "checkpoint_key_unusable"


class CheckpointDiverged(Exception):
    """The log does not go on from what was last signed; nothing is signed."""

    code = "checkpoint_diverged"


class CheckpointKey:
    """A key in a file, held by one process at a time."""

    def __init__(self, path: Path, signer: NoteSigner) -> None:
        self.signer = signer
        self._path = path

    @property
    def _signed_path(self) -> Path:
        return signed_path(self._path)

    def last_signed(self) -> Checkpoint:
        """Return the newest checkpoint that was signed.

        Raises:
            CheckpointKeyUnusable: it cannot be read.
            ProofInvalid: it is not of this key.
        """
        try:
            check_file(self._signed_path)
            note = self._signed_path.read_bytes()
        except (OSError, UnsafePathError) as error:
            raise CheckpointKeyUnusable(f"{self._signed_path}: {error}") from error
        return self.signer.verifier.opened(note)

    def sign(self, tree: LogTree) -> bytes:
        """Sign the head of a tree that goes on from what was last signed, and return the note.

        Raises:
            CheckpointDiverged: it does not.
            CheckpointKeyUnusable: what was signed cannot be kept.
            LedgerCorrupt: a tile of the tree is not there.
        """
        check_continued(tree, self.last_signed())
        note = self.signer.sign(tree.size, tree.root())
        try:
            write_whole(self._signed_path, note, FILE_MODE)
        except OSError as error:
            raise CheckpointKeyUnusable(f"{self._signed_path}: {error.strerror}") from error
        return note


def check_continued(tree: LogTree, signed: Checkpoint) -> None:
    """Check that a tree begins with that of a checkpoint.

    Raises:
        CheckpointDiverged: it does not.
    """
    if signed.size > tree.size:
        raise CheckpointDiverged(
            f"{signed.size} rows are signed and the log has {tree.size}: it was put back to an"
            " earlier state; sign a log that goes on from there under another name"
        )
    if tree.root(signed.size) != signed.root:
        raise CheckpointDiverged(
            f"the first {signed.size} rows are not those that were signed: the log was written"
            " anew; sign it under another name"
        )


def create_key(path: Path, name: str) -> NoteSigner:
    """Make a key in a new file of mode 0600, and note that it has signed the empty log.

    Raises:
        CheckpointKeyUnusable: there is a file, or it cannot be written.
    """
    private_key = os.urandom(KEY_BYTES)
    signer = NoteSigner(name, private_key)
    content = f"{name}\n{base64.b64encode(private_key).decode()}\n".encode()
    try:
        # A key that is there is never written over: what it signed has to be continued.
        if path.exists():
            raise CheckpointKeyUnusable(f"{path}: there is a file; nothing is written over it")
        write_whole(signed_path(path), signer.sign(0, EMPTY_ROOT), FILE_MODE)
        write_whole(path, content, FILE_MODE)
    except OSError as error:
        raise CheckpointKeyUnusable(f"{path}: {error.strerror}") from error
    return signer


@contextmanager
def held_key(path: Path) -> Iterator[CheckpointKey]:
    """Read a key and hold it: nobody else signs with it meanwhile.

    Raises:
        CheckpointKeyUnusable: it is none, others may read it, or another process holds it.
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
            raise CheckpointKeyUnusable(f"{path}: another process signs with it") from None
        yield CheckpointKey(path, _signer_in(path, file.read()))


def _signer_in(path: Path, content: bytes) -> NoteSigner:
    try:
        name, encoded, _ = content.decode().split("\n")
        private_key = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise CheckpointKeyUnusable(f"{path} holds no key") from None
    if len(private_key) != KEY_BYTES:
        raise CheckpointKeyUnusable(f"{path} holds no key")
    return NoteSigner(name, private_key)


def signed_path(path: Path) -> Path:
    """Return where the newest checkpoint that a key has signed lies."""
    return path.with_name(f"{path.name}.signed")
