"""Proves in a file that a log has signed two checkpoints that no log can have at once.

Of two checkpoints of one size the roots differ. Of two of different sizes a path shows it: it leads
to the root of the larger tree, and to another root of its first leaves than the smaller checkpoint
states. Whoever has the key of the log is convinced by the file alone.

The path is that of a consistency proof (RFC 6962 §2.1.2) whose first node is always there: the root
of the last complete subtree of the smaller tree, which such a proof leaves out where that subtree
is all of it (decision kernel/0351).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import orjson

from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint
from kernel.proof.merkle_tree import ReadNode, consistency_path, root_of
from kernel.proof.signed_note import NOTE_BYTES_MAX
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.verification import ProofInvalid, roots_of_path

FORMAT = "rotulus-evidence/v1"
EVIDENCE_BYTES_MAX = 4 * NOTE_BYTES_MAX
PATH_MAX = 128


class EvidenceInvalid(ProofInvalid):
    """The file does not show that a log has signed what cannot be reconciled."""

    code = "evidence_invalid"


@dataclass(frozen=True, slots=True)
class Equivocation:
    """Two checkpoints, the smaller one first, and the path where their sizes differ."""

    first: SignedCheckpoint
    second: SignedCheckpoint
    path: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the file."""
        document = {
            "format": FORMAT,
            "checkpoints": [note.to_bytes().decode() for note in (self.first, self.second)],
            "path": [node.hex() for node in self.path],
        }
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def of_bytes(cls, content: bytes) -> Self:
        """Read a file, of which nothing is verified.

        Raises:
            EvidenceInvalid: it is none.
        """
        if len(content) > EVIDENCE_BYTES_MAX:
            raise EvidenceInvalid("the file is too large")
        try:
            document = orjson.loads(content)
            first, second = (
                SignedCheckpoint.of_bytes(note.encode()) for note in document["checkpoints"]
            )
            path = tuple(bytes.fromhex(node) for node in document["path"])
            is_ours = document["format"] == FORMAT and len(path) <= PATH_MAX
        except (ValueError, KeyError, TypeError, AttributeError, ProofInvalid) as error:
            raise EvidenceInvalid(f"this is no evidence: {error}") from error
        if not is_ours:
            raise EvidenceInvalid(f"the format is not {FORMAT}")
        return cls(first, second, path)

    def check(self, verifiers: Iterable[NoteVerifier]) -> None:
        """Check that a log which has these keys signed both, and that they exclude each other.

        Raises:
            EvidenceInvalid: it did not, or they do not.
        """
        known = tuple(verifiers)
        for checkpoint in (self.first, self.second):
            try:
                signed = checkpoint.holding(known)
            except ProofInvalid as error:
                raise EvidenceInvalid(str(error)) from error
            if checkpoint.stated.origin not in {verifier.name for verifier in signed}:
                raise EvidenceInvalid("a checkpoint is not signed by the log")
        problem = _irreconcilable(self.first.stated, self.second.stated, self.path)
        if problem is not None:
            raise EvidenceInvalid(problem)


def _irreconcilable(first: Checkpoint, second: Checkpoint, path: Sequence[bytes]) -> str | None:
    """Return why two checkpoints may be those of one log, None where they cannot."""
    if first.origin != second.origin:
        return "the checkpoints are of two logs"
    if first.size == second.size:
        return "the checkpoints are the same" if first.root == second.root else None
    if not 0 < first.size < second.size:
        return "the first checkpoint is not the smaller one, or is that of the empty log"
    try:
        old_root, root = roots_of_path(first.size, second.size, path)
    except ProofInvalid as error:
        return str(error)
    if root != second.root:
        return "the path does not lead to the root of the larger tree"
    return "the larger log goes on from the smaller one" if old_root == first.root else None


def equivocation_of(
    one_side: SignedCheckpoint, other_side: SignedCheckpoint, path: Sequence[bytes] = ()
) -> Equivocation | None:
    """Return what two checkpoints and a path show; None where they show nothing."""
    ordered = sorted((one_side, other_side), key=lambda checkpoint: checkpoint.stated.size)
    equivocation = Equivocation(ordered[0], ordered[1], tuple(path))
    stated = (equivocation.first.stated, equivocation.second.stated)
    return None if _irreconcilable(*stated, equivocation.path) else equivocation


def full_path(old_size: int, size: int, read: ReadNode) -> list[bytes]:
    """Return the path between two trees with its first node, which a proof may leave out.

    Raises:
        ValueError: there is none between these sizes.
    """
    path = consistency_path(old_size, size, read)
    if old_size & (old_size - 1) == 0:
        return [root_of(old_size, read), *path]
    return path
