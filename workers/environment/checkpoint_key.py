"""The keys under which a log's checkpoints are signed, and what was signed last: two files.

They lie where an operator says, outside the ledger and its backups. The second (`.signed`) has the
newest checkpoint. It is on the disk before anybody sees that checkpoint, so that a ledger that was
put back to an earlier state is noticed before it is signed. Without it nothing is signed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel.ledger.log_tree import LogTree
from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint, signed_checkpoint
from kernel.proof.merkle_tree import EMPTY_ROOT
from kernel.proof.signing_keys import KeyKind, NoteVerifier, SigningKey
from workers.environment.key_file import (
    CheckpointKeyUnusable,
    check_new,
    held_keys,
    keys_in,
    new_keys,
    read_private,
    write_keys,
    write_private,
)

LOG_KINDS = (KeyKind.ED25519, KeyKind.ML_DSA_44)
"""The kinds of key under which a log signs, each checkpoint under all of them."""


class CheckpointDiverged(Exception):
    """The log does not go on from what was last signed; nothing is signed."""

    code = "checkpoint_diverged"


class CheckpointKey:
    """The keys of a log, held by one process at a time."""

    def __init__(self, path: Path, keys: tuple[SigningKey, ...]) -> None:
        self._path = path
        self._keys = keys
        self.verifiers: tuple[NoteVerifier, ...] = tuple(key.verifier for key in keys)

    def last_signed(self) -> Checkpoint:
        """Return the newest checkpoint that was signed.

        Raises:
            CheckpointKeyUnusable: it cannot be read.
            ProofInvalid: it is not of these keys.
        """
        return self.opened(self.last_signed_note().to_bytes())

    def last_signed_note(self) -> SignedCheckpoint:
        """Return the note of the newest checkpoint that was signed.

        Raises:
            CheckpointKeyUnusable: it cannot be read.
            ProofInvalid: it is none.
        """
        return SignedCheckpoint.of_bytes(read_private(signed_path(self._path)))

    def opened(self, note: bytes) -> Checkpoint:
        """Return what a note states that every one of these keys has signed.

        Raises:
            ProofInvalid: it is none.
        """
        signed = SignedCheckpoint.of_bytes(note)
        for verifier in self.verifiers:
            signed.check_signed(verifier)
        return signed.stated

    def sign(self, tree: LogTree) -> SignedCheckpoint:
        """Sign the head of a tree that goes on from what was last signed, and return the note.

        Raises:
            CheckpointDiverged: it does not.
            CheckpointKeyUnusable: what was signed cannot be kept.
            SigningKeyUnavailable: where a key lies does not answer.
            LedgerCorrupt: a tile of the tree is not there.
        """
        check_continued(tree, self.last_signed())
        signed = signed_checkpoint(self._head(tree), self._keys)
        write_private(signed_path(self._path), signed.to_bytes())
        return signed

    def _head(self, tree: LogTree) -> Checkpoint:
        return Checkpoint(self.verifiers[0].name, tree.size, tree.root())


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


def create_key(path: Path, name: str) -> tuple[NoteVerifier, ...]:
    """Make the keys of a log in a new file, and note that they have signed the empty log.

    Raises:
        CheckpointKeyUnusable: there is a file, or it cannot be written.
    """
    check_new(path)
    keys = new_keys(name, LOG_KINDS)
    empty = signed_checkpoint(Checkpoint(name, 0, EMPTY_ROOT), keys)
    write_private(signed_path(path), empty.to_bytes())
    write_keys(path, keys)
    return tuple(key.verifier for key in keys)


@contextmanager
def held_key(path: Path) -> Iterator[CheckpointKey]:
    """Read the keys of a log and hold them: nobody else signs with them meanwhile.

    Raises:
        CheckpointKeyUnusable: they are none, others may read them, or another process holds them.
    """
    with held_keys(path) as keys:
        yield CheckpointKey(path, keys)


def verifiers_in(path: Path) -> tuple[NoteVerifier, ...]:
    """Return the public halves of the keys of a log, none where the file cannot be read."""
    try:
        return tuple(key.verifier for key in keys_in(path))
    except CheckpointKeyUnusable:
        return ()


def signed_path(path: Path) -> Path:
    """Return where the newest checkpoint that a key has signed lies."""
    return path.with_name(f"{path.name}.signed")
