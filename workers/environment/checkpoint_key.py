"""Keeps the keys under which a log's checkpoints are signed, and what was signed last: two files.

They lie where an operator says, outside the ledger and its backups. The second (`.signed`) has the
newest checkpoint. It is on the disk before anybody sees that checkpoint, so that a ledger that was
put back to an earlier state is noticed before it is signed. Without it nothing is signed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from kernel.ledger.log_tree import LogTree
from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint, sign_checkpoint
from kernel.proof.key_handover import KeyHandover, hand_over
from kernel.proof.merkle_tree import EMPTY_ROOT
from kernel.proof.signing_keys import KeyKind, NoteVerifier, SigningKey
from kernel.proof.verification import ProofInvalid
from workers.environment.key_file import (
    CheckpointKeyUnusable,
    FileKey,
    check_new,
    hold_keys,
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
        self.path = path
        self.keys = keys
        self.verifiers: tuple[NoteVerifier, ...] = tuple(key.verifier for key in keys)

    def newest_checkpoint(self) -> Checkpoint:
        """Return the newest checkpoint that was signed.

        Raises:
            CheckpointKeyUnusable: it cannot be read.
            ProofInvalid: it is not of these keys.
        """
        return self.open_note(self.last_signed_note().to_bytes())

    def last_signed_note(self) -> SignedCheckpoint:
        """Return the note of the newest checkpoint that was signed.

        Raises:
            CheckpointKeyUnusable: it cannot be read.
            ProofInvalid: it is none.
        """
        return SignedCheckpoint.of_bytes(read_private(signed_path(self.path)))

    def open_note(self, note: bytes) -> Checkpoint:
        """Return what a note states that every one of these keys has signed.

        Raises:
            ProofInvalid: it is none.
        """
        signed = SignedCheckpoint.of_bytes(note)
        for verifier in self.verifiers:
            signed.check_signed(verifier)
        return signed.stated

    def open_published(self, note: bytes) -> SignedCheckpoint:
        """Read a published note of the log, which the keys before these may have signed.

        Raises:
            ProofInvalid: it is of another log or other keys.
            CheckpointKeyUnusable: the hand-over to these keys cannot be read.
        """
        try:
            self.open_note(note)
        except ProofInvalid:
            handover = _handover_at(_taken_over_path(self.path))
            if handover is None or {*handover.new} != {*self.verifiers}:
                raise
            signed = SignedCheckpoint.of_bytes(note)
            for verifier in handover.old:
                signed.check_signed(verifier)
        return SignedCheckpoint.of_bytes(note)

    def hand_over(self, successor: "CheckpointKey") -> KeyHandover:
        """Sign the hand-over to other keys of the log; from then on these sign nothing more.

        Killed at any step, the same call goes on, also where these keys have signed more meanwhile;
        what they have handed over stays so. The new keys go on from the last checkpoint of these.
        At no step can both sign: the new ones are told of the hand-over, then these end, and only
        then the new ones begin (decision workers/0306).

        Raises:
            CheckpointKeyUnusable: the new keys have signed a log, or are those of another one.
            SigningKeyUnavailable: where a key lies does not answer.
        """
        last = self.newest_checkpoint()
        handover = _handover_at(_handed_over_path(self.path))
        if handover is None:
            if successor.verifiers[0].name != last.origin:
                raise CheckpointKeyUnusable(f"{successor.path} is of another log")
            if successor.has_signed_more_than(last):
                raise CheckpointKeyUnusable(f"{successor.path} has signed a log already")
            handover = hand_over(last, self.keys, successor.keys)
        elif {*handover.new} != {*successor.verifiers}:
            raise CheckpointKeyUnusable(f"{self.path} was handed over to other keys")
        content = orjson.dumps(handover.document)
        write_private(_taken_over_path(successor.path), content)
        write_private(_handed_over_path(self.path), content)
        if successor.newest_checkpoint().size < handover.last.size:
            signed = sign_checkpoint(handover.last, successor.keys)
            write_private(signed_path(successor.path), signed.to_bytes())
        return handover

    def has_signed_more_than(self, last: Checkpoint) -> bool:
        """Tell whether these keys have signed a log beyond what a hand-over has them begin with.

        Raises:
            CheckpointKeyUnusable: what they have signed, or taken over, cannot be read.
            ProofInvalid: it is not of these keys.
        """
        signed, taken = self.newest_checkpoint(), _handover_at(_taken_over_path(self.path))
        return signed.size > 0 and signed != last and (taken is None or signed != taken.last)

    def next_of(self, tree: LogTree) -> Checkpoint:
        """Return the head of a tree that goes on from what was last signed.

        Raises:
            CheckpointDiverged: it does not.
            CheckpointKeyUnusable: what was signed cannot be read, the log was handed over, or the
                hand-over to these keys has not ended.
            LedgerCorrupt: a tile of the tree is not there.
        """
        if is_handed_over(self.path):
            raise CheckpointKeyUnusable(
                f"{self.path} has handed the log over: sign with the keys that it was handed to"
            )
        last, taken = self.newest_checkpoint(), _handover_at(_taken_over_path(self.path))
        if taken is not None and last.size < taken.last.size:
            raise CheckpointKeyUnusable(
                f"the hand-over to {self.path} was cut off: hand over again, as before"
            )
        check_continued(tree, last)
        return Checkpoint(self.verifiers[0].name, tree.size, tree.root())

    def sign(self, checkpoint: Checkpoint) -> SignedCheckpoint:
        """Sign what `next_of` returned, and return the note.

        Raises:
            CheckpointKeyUnusable: what was signed cannot be kept.
            SigningKeyUnavailable: where a key lies does not answer.
        """
        signed = sign_checkpoint(checkpoint, self.keys)
        write_private(signed_path(self.path), signed.to_bytes())
        return signed


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


def create_key(path: Path, name: str, keys: Sequence[FileKey] = ()) -> tuple[NoteVerifier, ...]:
    """Make the keys of a log in a new file, and note that they have signed the empty log.

    `keys` are those that are made already, elsewhere.

    Raises:
        CheckpointKeyUnusable: there is a file, or it cannot be written.
        SigningKeyUnavailable: a key that lies elsewhere does not sign.
    """
    check_new(path)
    keys = tuple(keys) or new_keys(name, LOG_KINDS)
    empty = sign_checkpoint(Checkpoint(name, 0, EMPTY_ROOT), keys)
    write_private(signed_path(path), empty.to_bytes())
    write_keys(path, keys)
    return tuple(key.verifier for key in keys)


@contextmanager
def hold_key(path: Path) -> Iterator[CheckpointKey]:
    """Read the keys of a log and hold them: nobody else signs with them meanwhile.

    Raises:
        CheckpointKeyUnusable: they are none, others may read them, or another process holds them.
    """
    with hold_keys(path) as keys:
        yield CheckpointKey(path, keys)


def verifiers_in(path: Path) -> tuple[NoteVerifier, ...]:
    """Return the public halves of the keys of a log, none where the file cannot be read."""
    try:
        return tuple(key.verifier for key in keys_in(path))
    except CheckpointKeyUnusable:
        return ()


def is_handed_over(path: Path) -> bool:
    """Tell whether the keys of a file have handed the log over, and sign nothing any more."""
    return _handed_over_path(path).exists()


def last_signed_size(path: Path) -> int:
    """Return how many rows the keys of a file have signed.

    Raises:
        CheckpointKeyUnusable: that cannot be read.
        ProofInvalid: it is no checkpoint.
    """
    return SignedCheckpoint.of_bytes(read_private(signed_path(path))).stated.size


def _handover_at(path: Path) -> KeyHandover | None:
    if not path.exists():
        return None
    try:
        return KeyHandover.of_document(orjson.loads(read_private(path)))
    except (ValueError, ProofInvalid) as error:
        raise CheckpointKeyUnusable(f"{path}: {error}") from error


def _handed_over_path(path: Path) -> Path:
    """Return where the hand-over from the keys of a file lies, with which they end."""
    return path.with_name(f"{path.name}.handed-over")


def _taken_over_path(path: Path) -> Path:
    """Return where the hand-over to the keys of a file lies."""
    return path.with_name(f"{path.name}.taken-over")


def signed_path(path: Path) -> Path:
    """Return where the newest checkpoint that a key has signed lies."""
    return path.with_name(f"{path.name}.signed")
