"""Reads keys under which notes are signed: their kinds, their lines of text, and their places.

A kind is a byte (C2SP signed-note). It says which algorithm signs and what is signed
(`checkpoint.py`). A key is known by its name and by an id, the first bytes of a hash over name,
kind and public key; the id tells keys apart and proves nothing.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Protocol, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.mldsa import (
    MLDSA44PrivateKey,
    MLDSA44PublicKey,
)

from kernel.proof.verification import ProofInvalid

KEY_ID_BYTES = 4
KEY_NAME_BYTES_MAX = 255
"""What a message that ML-DSA-44 signs has room for."""

SEED_BYTES = 32

_SEED_MARK = "PRIVATE+KEY+"


class KeyKind(IntEnum):
    """What a key signs, and with which algorithm."""

    ED25519 = 0x01
    """Ed25519 over the text of the note (signed-note)."""

    ED25519_COSIGNATURE = 0x04
    """Ed25519 over the time and the text of the note (tlog-cosignature)."""

    ML_DSA_44 = 0x06
    """ML-DSA-44 over the time, the signer's name and what the checkpoint states
    (tlog-cosignature)."""


@dataclass(frozen=True, slots=True)
class _Algorithm:
    public_key_bytes: int
    signature_bytes: int
    private_key: Callable[[bytes], Ed25519PrivateKey | MLDSA44PrivateKey]
    public_key: Callable[[bytes], Ed25519PublicKey | MLDSA44PublicKey]


_ED25519 = _Algorithm(
    32, 64, Ed25519PrivateKey.from_private_bytes, Ed25519PublicKey.from_public_bytes
)
_ML_DSA_44 = _Algorithm(
    1312, 2420, MLDSA44PrivateKey.from_seed_bytes, MLDSA44PublicKey.from_public_bytes
)
_ALGORITHMS: Mapping[KeyKind, _Algorithm] = MappingProxyType(
    {
        KeyKind.ED25519: _ED25519,
        KeyKind.ED25519_COSIGNATURE: _ED25519,
        KeyKind.ML_DSA_44: _ML_DSA_44,
    }
)


_NO_NAME = re.compile(
    "[\x00-\x20+\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\uf8ff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
"""Listed, because each version of Unicode's tables would let other names pass."""


def is_key_name(name: str) -> bool:
    """Tell whether a key may be called so: without blanks, a plus and what is not seen."""
    return 0 < len(name.encode()) <= KEY_NAME_BYTES_MAX and _NO_NAME.search(name) is None


@dataclass(frozen=True, slots=True)
class NoteVerifier:
    """The name of a key, its kind and its public half."""

    name: str
    kind: KeyKind
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        """The first bytes of the hash of name and key, by which a signature names its key."""
        framed = self.name.encode() + b"\n" + bytes([self.kind]) + self.public_key
        return sha256(framed).digest()[:KEY_ID_BYTES]

    @property
    def vkey(self) -> str:
        """The key as one line of text, to be given to whoever verifies."""
        return _line(self, self.public_key)

    @property
    def signature_bytes(self) -> int:
        """How long a signature of this key is."""
        return _ALGORITHMS[self.kind].signature_bytes

    @classmethod
    def of_vkey(cls, text: str) -> Self:
        """Read a key from its line of text.

        Raises:
            ProofInvalid: it is no key of a kind that is known here.
        """
        name, key_id, kind, public_key = _read_line(text)
        verifier = cls(name, kind, public_key)
        is_whole = len(public_key) == _ALGORITHMS[kind].public_key_bytes
        if not is_whole or verifier.key_id.hex() != key_id:
            raise ProofInvalid("this is no key of a note")
        return verifier

    def check(self, signature: bytes, message: bytes) -> None:
        """Check that this key has signed a message.

        Raises:
            ProofInvalid: it has not.
        """
        try:
            _ALGORITHMS[self.kind].public_key(self.public_key).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise ProofInvalid(f"the signature of {self.name} does not fit the note") from None


class SigningKey(Protocol):
    """A private key that signs where it lies: in a file of this machine, or in a KMS."""

    @property
    def verifier(self) -> NoteVerifier:
        """The public half."""

    def signature(self, message: bytes) -> bytes:
        """Return the signature over a message, as long as `verifier.signature_bytes` says.

        It may block, as long as a KMS takes to answer.

        Raises:
            SigningKeyUnavailable: nothing was signed, or nobody knows.
        """


class SigningKeyUnavailable(Exception):
    """Where a key lies does not answer; a later try may succeed."""

    code = "signing_key_unavailable"


@dataclass(frozen=True, slots=True)
class SeedKey:
    """A private key that is known here: its name, its kind and the seed that it is made of."""

    name: str
    kind: KeyKind
    seed: bytes

    def __repr__(self) -> str:
        return f"SeedKey({self.name!r}, {self.kind!r})"

    @property
    def verifier(self) -> NoteVerifier:
        """The public half."""
        public_key = self._key().public_key().public_bytes_raw()
        return NoteVerifier(self.name, self.kind, public_key)

    def signature(self, message: bytes) -> bytes:
        """Return the signature over a message."""
        return self._key().sign(message)

    @property
    def line(self) -> str:
        """The private key as one line of text, of the form that Go's `note` package reads."""
        return _SEED_MARK + _line(self.verifier, self.seed)

    @classmethod
    def of_line(cls, text: str) -> Self:
        """Read a private key from its line of text.

        Raises:
            ProofInvalid: it is none.
        """
        name, key_id, kind, seed = _read_line(text.removeprefix(_SEED_MARK))
        key = cls(name, kind, seed)
        is_whole = text.startswith(_SEED_MARK) and len(seed) == SEED_BYTES
        if not is_whole or key.verifier.key_id.hex() != key_id:
            raise ProofInvalid("this is no private key")
        return key

    def _key(self) -> Ed25519PrivateKey | MLDSA44PrivateKey:
        return _ALGORITHMS[self.kind].private_key(self.seed)


def is_seed_line(text: str) -> bool:
    """Tell whether a line states a private key itself."""
    return text.startswith(_SEED_MARK)


def public_verifier(name: str, public_key: Ed25519PublicKey | MLDSA44PublicKey) -> NoteVerifier:
    """Return the public half of a log's key under a name."""
    is_ed25519 = isinstance(public_key, Ed25519PublicKey)
    kind = KeyKind.ED25519 if is_ed25519 else KeyKind.ML_DSA_44
    return NoteVerifier(name, kind, public_key.public_bytes_raw())


def _line(verifier: NoteVerifier, key: bytes) -> str:
    encoded = base64.b64encode(bytes([verifier.kind]) + key).decode()
    return f"{verifier.name}+{verifier.key_id.hex()}+{encoded}"


def _read_line(text: str) -> tuple[str, str, KeyKind, bytes]:
    name, key_id, encoded = [*text.strip(" \t\r\n").split("+", 2), "", ""][:3]
    try:
        key = base64.b64decode(encoded, validate=True)
        kind = KeyKind(key[0])
    except (ValueError, IndexError):
        raise ProofInvalid("this is no key of a note") from None
    if not is_key_name(name) or base64.b64encode(key).decode() != encoded:
        raise ProofInvalid("this is no key of a note")
    return name, key_id, kind, key[1:]
