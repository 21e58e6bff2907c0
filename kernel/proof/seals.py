"""Makes and checks seals: what closes a session and a round, and who signed (seed 002, P4); pure.

A seal is a JSON object that names its format. Its signers sign a text of two lines, the format and
the canonical bytes of the seal without its signatures, as a note is signed (C2SP signed-note): so
the count of leaves, the roots, the session, the round and the time are bound together. A signature
stands beside the public key that made it, which says nothing about whom the key belongs to: whoever
verifies has the keys that count from elsewhere.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kernel.proof.signed_note import NoteSignature
from kernel.proof.signing_keys import KeyKind, NoteVerifier, SigningKey
from kernel.proof.verification import ProofInvalid
from kernel.values.canonical import canonicalize, sha256_hex

SESSION_SEAL = "rotulus/session-seal/v1"
ROUND_SEAL = "rotulus/round-seal/v1"
ROUND_GENESIS = "rotulus/round-genesis/v1"

SEALING_KINDS = frozenset({KeyKind.ED25519})
"""Kinds of key that sign a seal."""

Seal = Mapping[str, Any]


def seal_bytes(seal: Seal) -> bytes:
    """Return the canonical bytes of a seal without its signatures, which are hashed and signed."""
    return canonicalize({name: value for name, value in seal.items() if name != "signatures"})


def seal_hash(seal: Seal) -> str:
    """Return the hash by which whatever follows a seal names it."""
    return sha256_hex(seal_bytes(seal))


def note_text(seal: Seal) -> bytes:
    """Return the text that is signed; its first line is no origin of a checkpoint."""
    return b"%s\n%s\n" % (seal["format"].encode(), seal_bytes(seal))


def signatures_of(seal: Seal, signers: Iterable[SigningKey]) -> list[dict[str, str]]:
    """Return the signatures of a seal: each signer's public key and its line of a note.

    Raises:
        SigningKeyUnavailable: the store of a key does not answer.
    """
    return [_signature(signer, note_text(seal)) for signer in signers]


def check_signatures(
    seal: Seal,
    signatures: Sequence[Mapping[str, str]],
    kinds: Collection[KeyKind] = SEALING_KINDS,
) -> list[NoteVerifier]:
    """Check every signature of a seal, and return its keys.

    Raises:
        ProofInvalid: a signature was not made by the key beside it, or the key signs no texts.
    """
    text = note_text(seal)
    return [_check_signature(text, stated["vkey"], stated["line"], kinds) for stated in signatures]


def _signature(signer: SigningKey, text: bytes) -> dict[str, str]:
    verifier = signer.verifier
    line = NoteSignature(verifier.name, verifier.key_id, signer.signature(text)).line
    return {"vkey": verifier.vkey, "line": line.rstrip("\n")}


def _check_signature(text: bytes, vkey: str, line: str, kinds: Collection[KeyKind]) -> NoteVerifier:
    verifier, stated = NoteVerifier.of_vkey(vkey), NoteSignature.of_line(line)
    if verifier.kind not in kinds:
        raise ProofInvalid(f"{verifier.name} is no key that signs a seal")
    if (stated.name, stated.key_id) != (verifier.name, verifier.key_id):
        raise ProofInvalid(f"the signature is of {stated.name}, not of {verifier.name}")
    verifier.check(stated.signature, text)
    return verifier
