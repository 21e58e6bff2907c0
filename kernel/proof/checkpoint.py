"""Writes and reads checkpoints: size and root of a log's tree, signed (C2SP tlog-checkpoint).

A checkpoint is the text of a signed note. It binds the size to the root, which the root alone does
not. The kind of a key decides what exactly it signs (`_MESSAGES`): the text itself, or for the
kinds of tlog-cosignature a message that begins with a label of its own, so that no signature can
pass for one of another kind. Whoever verifies has the keys beforehand; lines of other keys say
nothing and are passed over.

The log signs the text with Ed25519 and beside it with ML-DSA-44, under a time of zero: it says that
the checkpoint is its own, and not that it was the newest at some time (decision kernel/0350).
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

from kernel.proof.merkle_tree import EMPTY_ROOT, HASH_BYTES
from kernel.proof.signed_note import NoteSignature, SignedNote
from kernel.proof.signing_keys import KeyKind, NoteVerifier, SigningKey
from kernel.proof.verification import ProofInvalid

ORIGIN_BYTES_MAX = 255
SIZE_MAX = (1 << 63) - 1
TIME_MAX_S = (1 << 63) - 1

LABEL = b"subtree/v1\n\x00"
_TIME_BYTES = 8


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is signed: whose log it is, how many rows it has, the root over them."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """Return the text of the note."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read the text of a note; lines behind the third are passed over.

        Raises:
            ProofInvalid: it is none of a checkpoint.
        """
        origin, size, root = [*text.split("\n"), "", ""][:3]
        try:
            checkpoint = cls(origin, int(size), base64.b64decode(root, validate=True))
        except ValueError:
            raise ProofInvalid("the note is no checkpoint") from None
        if (
            not text.startswith(checkpoint.text())
            or not 0 < len(origin.encode()) <= ORIGIN_BYTES_MAX
            or not 0 <= checkpoint.size <= SIZE_MAX
            or len(checkpoint.root) != HASH_BYTES
            or (checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT)
        ):
            raise ProofInvalid("the note is no checkpoint")
        return checkpoint


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """The note of a checkpoint; which of its signatures hold is for `holding` to say."""

    note: SignedNote
    stated: Checkpoint

    @classmethod
    def of_bytes(cls, content: bytes) -> Self:
        """Read the note of a checkpoint.

        Raises:
            ProofInvalid: it is none.
        """
        note = SignedNote.of_bytes(content)
        return cls(note, Checkpoint.of_text(note.text))

    def to_bytes(self) -> bytes:
        """Return what `of_bytes` reads."""
        return self.note.to_bytes()

    def holding(self, verifiers: Iterable[NoteVerifier]) -> dict[NoteVerifier, int]:
        """Return those of the keys that have signed, each with the time that it states, or 0.

        Raises:
            ProofInvalid: a signature that names one of the keys does not hold.
        """
        by_id = {(verifier.name, verifier.key_id): verifier for verifier in verifiers}
        signed: dict[NoteVerifier, int] = {}
        for line in self.note.signatures:
            verifier = by_id.get((line.name, line.key_id))
            if verifier is not None and verifier not in signed:
                signed[verifier] = self._check(verifier, line.signature)
        return signed

    def check_signed(self, verifier: NoteVerifier) -> Checkpoint:
        """Return what the note states, where this key of its log has signed it.

        Raises:
            ProofInvalid: it has not, or the checkpoint is of another log.
        """
        if not self.holding([verifier]):
            raise ProofInvalid(f"the note is not signed by {verifier.name}")
        if self.stated.origin != verifier.name:
            origin = self.stated.origin
            raise ProofInvalid(f"the checkpoint is of {origin!r}, not of {verifier.name}")
        return self.stated

    def sign(self, key: SigningKey, time_s: int = 0) -> "SignedCheckpoint":
        """Return the note with a further signature.

        Raises:
            SigningKeyUnavailable: where the key lies does not answer.
        """
        line = signature_line(key, self.note.text, self.stated, time_s)
        return self.with_signatures([line])

    def with_signatures(self, lines: Iterable[NoteSignature]) -> "SignedCheckpoint":
        """Return the note with further lines, each key's newest in place of its older one."""
        newest = {(line.name, line.key_id): line for line in (*self.note.signatures, *lines)}
        return replace(self, note=SignedNote(self.note.text, tuple(newest.values())))

    def _check(self, verifier: NoteVerifier, signature: bytes) -> int:
        time_s = 0
        if verifier.kind in _TIMED:
            time_s = int.from_bytes(signature[:_TIME_BYTES], "big")
            signature = signature[_TIME_BYTES:]
        if len(signature) != verifier.signature_bytes or time_s > TIME_MAX_S:
            raise ProofInvalid(f"the signature of {verifier.name} has another form")
        verifier.check(signature, _message(verifier, self.note.text, self.stated, time_s))
        return time_s


def sign_checkpoint(checkpoint: Checkpoint, keys: Iterable[SigningKey]) -> SignedCheckpoint:
    """Return the note of a checkpoint that every one of these keys has signed.

    Raises:
        SigningKeyUnavailable: where a key lies does not answer.
    """
    text = checkpoint.text()
    lines = tuple(signature_line(key, text, checkpoint, 0) for key in keys)
    return SignedCheckpoint(SignedNote(text, lines), checkpoint)


def signature_line(key: SigningKey, text: str, stated: Checkpoint, time_s: int) -> NoteSignature:
    """Return the line by which a key signs a checkpoint, at a time where its kind has one.

    Raises:
        SigningKeyUnavailable: where the key lies does not answer.
    """
    verifier = key.verifier
    signature = key.signature(_message(verifier, text, stated, time_s))
    if verifier.kind in _TIMED:
        signature = time_s.to_bytes(_TIME_BYTES, "big") + signature
    return NoteSignature(verifier.name, verifier.key_id, signature)


def _text_alone(_verifier: NoteVerifier, text: str, _stated: Checkpoint, _time_s: int) -> bytes:
    return text.encode()


def _time_and_text(_verifier: NoteVerifier, text: str, _stated: Checkpoint, time_s: int) -> bytes:
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def _time_and_tree(verifier: NoteVerifier, _text: str, stated: Checkpoint, time_s: int) -> bytes:
    name, origin = verifier.name.encode(), stated.origin.encode()
    return b"".join(
        (
            LABEL,
            len(name).to_bytes(1, "big"),
            name,
            time_s.to_bytes(8, "big"),
            len(origin).to_bytes(1, "big"),
            origin,
            bytes(8),
            stated.size.to_bytes(8, "big"),
            stated.root,
        )
    )


_MESSAGES: Mapping[KeyKind, Callable[[NoteVerifier, str, Checkpoint, int], bytes]] = (
    MappingProxyType(
        {
            KeyKind.ED25519: _text_alone,
            KeyKind.ED25519_COSIGNATURE: _time_and_text,
            KeyKind.ML_DSA_44: _time_and_tree,
        }
    )
)
_TIMED = frozenset({KeyKind.ED25519_COSIGNATURE, KeyKind.ML_DSA_44})


def _message(verifier: NoteVerifier, text: str, stated: Checkpoint, time_s: int) -> bytes:
    return _MESSAGES[verifier.kind](verifier, text, stated, time_s)
