"""Asks a witness for a cosignature, and decides about one (C2SP tlog-witness); pure.

The checks of `decide_checkpoint` stand in the order in which the specification has them. A witness
cosigns what goes on from the newest checkpoint that it cosigned before, and nothing else; whoever
calls `decide_checkpoint` lets nobody else change that checkpoint until the new one is on the disk.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.equivocation import Equivocation, equivocation_of
from kernel.proof.merkle_tree import EMPTY_ROOT, HASH_BYTES
from kernel.proof.signed_note import NOTE_BYTES_MAX, NoteSignature, SignedNote
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.verification import ProofInvalid, verify_consistency

PATH_MAX = 63
REQUEST_BYTES_MAX = NOTE_BYTES_MAX + 4096
"""A note, an old size and a path."""

SIZE_TYPE = "text/x.tlog.size"
"""The media type of the answer that states the size at which a witness is."""

_OLD = re.compile("old (0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A checkpoint for a witness, and the proof that it goes on from an older one."""

    old_size: int
    path: tuple[bytes, ...]
    checkpoint: SignedCheckpoint

    @classmethod
    def of_bytes(cls, content: bytes) -> Self:
        """Read the body of a request.

        Raises:
            ProofInvalid: it is none.
        """
        head, mark, note = content[: REQUEST_BYTES_MAX + 1].partition(b"\n\n")
        if len(content) > REQUEST_BYTES_MAX or not mark:
            raise ProofInvalid("this is no request for a cosignature")
        try:
            first, *lines = head.decode("ascii").split("\n")
            path = tuple(base64.b64decode(line, validate=True) for line in lines)
        except ValueError:
            raise ProofInvalid("a line of the proof is no hash") from None
        old = _OLD.fullmatch(first)
        if old is None:
            raise ProofInvalid("the first line does not state the old size")
        if len(path) > PATH_MAX or any(len(node) != HASH_BYTES for node in path):
            raise ProofInvalid(f"a proof has at most {PATH_MAX} hashes of {HASH_BYTES} bytes")
        return cls(int(old[1]), path, SignedCheckpoint.of_bytes(note))

    def to_bytes(self) -> bytes:
        """Return what `of_bytes` reads."""
        lines = [f"old {self.old_size}", *(base64.b64encode(node).decode() for node in self.path)]
        return "\n".join([*lines, "", ""]).encode() + self.checkpoint.to_bytes()


class WitnessRefusal(Exception):
    """A checkpoint that a witness does not cosign."""

    def __init__(
        self,
        status: int,
        message: str,
        size: int | None = None,
        equivocation: Equivocation | None = None,
    ) -> None:
        """Refuse with a status of HTTP, as the specification has it.

        With 409, `size` is that of the newest checkpoint that the witness has cosigned;
        `equivocation` is what the request proves against the log, where it proves something.
        """
        super().__init__(message)
        self.status = status
        self.size = size
        self.equivocation = equivocation


def decide_checkpoint(
    request: AddCheckpoint, verifiers: Sequence[NoteVerifier], latest: SignedCheckpoint | None
) -> SignedCheckpoint:
    """Return the checkpoint to be kept and cosigned, with the signatures of its log alone.

    `verifiers` are the keys of the log, none of one that is not known; `latest` is the newest
    checkpoint of the log that was kept.

    Raises:
        WitnessRefusal: it is not to be cosigned.
    """
    new = request.checkpoint.stated
    if not verifiers:
        raise WitnessRefusal(404, f"the log {new.origin!r} is not known here")
    signed = _check_signatures(request.checkpoint, verifiers)
    if request.old_size > new.size:
        raise WitnessRefusal(400, "the old size is larger than that of the checkpoint")
    size, root = (0, EMPTY_ROOT) if latest is None else (latest.stated.size, latest.stated.root)
    if request.old_size != size:
        raise WitnessRefusal(409, f"at {size} rows", size, _equivocation(latest, signed, ()))
    if size == new.size and root != new.root:
        raise WitnessRefusal(409, "another root", size, _equivocation(latest, signed, ()))
    try:
        verify_consistency(size, root, new.size, new.root, request.path)
    except ProofInvalid as error:
        accused = _equivocation(latest, signed, request.path)
        raise WitnessRefusal(422, str(error), equivocation=accused) from None
    return signed


def _check_signatures(
    checkpoint: SignedCheckpoint, verifiers: Iterable[NoteVerifier]
) -> SignedCheckpoint:
    try:
        signed = checkpoint.holding(verifiers)
    except ProofInvalid as error:
        raise WitnessRefusal(403, str(error)) from None
    if not signed:
        raise WitnessRefusal(403, "no key of the log that is known here has signed")
    by_id = {(verifier.name, verifier.key_id) for verifier in signed}
    lines: dict[tuple[str, bytes], NoteSignature] = {}
    for line in checkpoint.note.signatures:
        if (line.name, line.key_id) in by_id:
            lines.setdefault((line.name, line.key_id), line)
    note = SignedNote(checkpoint.note.text, tuple(lines.values()))
    return SignedCheckpoint(note, checkpoint.stated)


def _equivocation(
    latest: SignedCheckpoint | None, signed: SignedCheckpoint, path: Sequence[bytes]
) -> Equivocation | None:
    return None if latest is None else equivocation_of(latest, signed, path)
