"""Checkpoints: the size and the root of a log's tree, signed (C2SP tlog-checkpoint, signed-note).

A note is a text, an empty line, and lines of signatures. Its text binds the size to the root, which
the root alone does not. Whoever verifies has the key beforehand, as a line of text (`vkey`); lines
of other keys say nothing and are passed over.
"""

import base64
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from kernel.proof.merkle_tree import HASH_BYTES
from kernel.proof.verification import ProofInvalid

ED25519 = b"\x01"
"""The identifier of the kind of signature."""

KEY_ID_BYTES = 4
NOTE_BYTES_MAX = 64 << 10
ORIGIN_CHARS_MAX = 256

_SIGNATURE_MARK = "\u2014 "


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
        stated = checkpoint.text()
        if not origin or len(checkpoint.root) != HASH_BYTES or not text.startswith(stated):
            raise ProofInvalid("the note is no checkpoint")
        return checkpoint


def is_key_name(name: str) -> bool:
    """Tell whether a log may be called so: printable, without a space or a plus."""
    return name.isprintable() and not set(name) & {" ", "+"} and 0 < len(name) <= ORIGIN_CHARS_MAX


@dataclass(frozen=True, slots=True)
class NoteVerifier:
    """The name of a key and its public half."""

    name: str
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        """The first bytes of the hash of name and key, by which a signature names its key."""
        framed = self.name.encode() + b"\n" + ED25519 + self.public_key
        return sha256(framed).digest()[:KEY_ID_BYTES]

    @property
    def vkey(self) -> str:
        """The key as one line of text, to be given to whoever verifies."""
        encoded = base64.b64encode(ED25519 + self.public_key).decode()
        return f"{self.name}+{self.key_id.hex()}+{encoded}"

    @classmethod
    def of_vkey(cls, text: str) -> Self:
        """Read a key from its line of text.

        Raises:
            ProofInvalid: it is no Ed25519 key.
        """
        name, key_id, encoded = [*text.strip().split("+", 2), "", ""][:3]
        try:
            key = base64.b64decode(encoded, validate=True)
        except ValueError:
            key = b""
        verifier = cls(name, key[1:])
        is_ed25519 = key[:1] == ED25519 and len(key) == len(ED25519) + 32
        if not is_key_name(name) or not is_ed25519 or verifier.key_id.hex() != key_id:
            raise ProofInvalid("this is no Ed25519 key of a note")
        return verifier

    def opened(self, note: bytes) -> Checkpoint:
        """Return the checkpoint of a note that this key has signed.

        Raises:
            ProofInvalid: it has not, or the note is none.
        """
        try:
            text, mark, signatures = note[:NOTE_BYTES_MAX].decode().rpartition("\n\n")
        except UnicodeDecodeError:
            raise ProofInvalid("the note is no text") from None
        if not mark:
            raise ProofInvalid("the note is not signed")
        text += "\n"
        for line in signatures.splitlines():
            signature = self._signature_in(line)
            if signature is not None:
                self._check(signature, text)
                return self._of_this_log(Checkpoint.of_text(text))
        raise ProofInvalid(f"the note is not signed by {self.name}")

    def _signature_in(self, line: str) -> bytes | None:
        """Return the signature of a line, None where it is that of another key."""
        prefix = f"{_SIGNATURE_MARK}{self.name} "
        if not line.startswith(prefix):
            return None
        try:
            stated = base64.b64decode(line[len(prefix) :], validate=True)
        except ValueError:
            return None
        return stated[KEY_ID_BYTES:] if stated[:KEY_ID_BYTES] == self.key_id else None

    def _check(self, signature: bytes, text: str) -> None:
        try:
            Ed25519PublicKey.from_public_bytes(self.public_key).verify(signature, text.encode())
        except (InvalidSignature, ValueError):
            raise ProofInvalid(f"the signature of {self.name} does not fit the note") from None

    def _of_this_log(self, checkpoint: Checkpoint) -> Checkpoint:
        if checkpoint.origin != self.name:
            raise ProofInvalid(f"the checkpoint is of {checkpoint.origin!r}, not of {self.name}")
        return checkpoint


@dataclass(frozen=True, slots=True)
class NoteSigner:
    """The name of a log and the private key under which it signs."""

    name: str
    private_key: bytes

    @property
    def verifier(self) -> NoteVerifier:
        """The public half."""
        public_key = self._key().public_key().public_bytes_raw()
        return NoteVerifier(self.name, public_key)

    def sign(self, size: int, root: bytes) -> bytes:
        """Return the signed note of a checkpoint of this log."""
        text = Checkpoint(self.name, size, root).text()
        signature = self.verifier.key_id + self._key().sign(text.encode())
        encoded = base64.b64encode(signature).decode()
        return f"{text}\n{_SIGNATURE_MARK}{self.name} {encoded}\n".encode()

    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.private_key)
