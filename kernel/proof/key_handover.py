"""Signs and checks a log's hand-over from its keys to others, which all of them sign; pure.

It states the last checkpoint that the old keys have signed. Of a checkpoint that is larger the old
keys say nothing any more, and the new ones speak from there on. The hand-over stands on the log as
an operation, so whoever holds it against the log also learns that no other was made in secret.
Whoever verifies has a key of the log from elsewhere, and follows from it (decision kernel/0400).

The document is signed as a seal is (`seals.py`): its first line is no origin of a checkpoint, so no
signature over it can pass for one over a checkpoint.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from kernel.proof.checkpoint import Checkpoint
from kernel.proof.seals import check_signatures, signatures_of
from kernel.proof.signing_keys import KeyKind, NoteVerifier, SigningKey
from kernel.proof.verification import ProofInvalid

KEY_HANDOVER = "rotulus/key-handover/v1"
KEYS_MAX = 4
"""Keys of a log at once, each of another kind."""

HANDOVERS_MAX = 64
"""Hand-overs that are followed, one after the other."""

SIGNING_KINDS = frozenset({KeyKind.ED25519, KeyKind.ML_DSA_44})


@dataclass(frozen=True, slots=True)
class KeyHandover:
    """From which keys to which, and behind which checkpoint; every one of the keys has signed."""

    last: Checkpoint
    """The last checkpoint that the old keys have signed."""

    old: tuple[NoteVerifier, ...]
    new: tuple[NoteVerifier, ...]
    document: dict[str, Any]

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> Self:
        """Read a hand-over, and check that every key that it names has signed it.

        Raises:
            ProofInvalid: it is none, or one of the keys has not signed.
        """
        try:
            origin, size = document["origin"], document["tree_size"]
            last = Checkpoint(origin, int(size), bytes.fromhex(document["root_hash"]))
            old, new = (
                tuple(map(NoteVerifier.of_vkey, document[name]))
                for name in ("old_keys", "new_keys")
            )
            is_known = document["format"] == KEY_HANDOVER and size == str(last.size)
            signed = check_signatures(document, document["signatures"], SIGNING_KINDS)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ProofInvalid("this is no hand-over of keys") from None
        Checkpoint.of_text(last.text())
        if not is_known or not old or not new or max(len(old), len(new)) > KEYS_MAX:
            raise ProofInvalid("this is no hand-over of keys")
        if {verifier.name for verifier in (*old, *new)} != {origin} or {*old} & {*new}:
            raise ProofInvalid("a hand-over is from keys of a log to other keys of it")
        if {*signed} != {*old, *new}:
            raise ProofInvalid("not every key of the hand-over has signed it")
        return cls(last, old, new, document)

    def successor_of(self, verifier: NoteVerifier) -> NoteVerifier | None:
        """Return the new key in an old one's place, of its kind; None where it is none of the old.

        Raises:
            ProofInvalid: there is no new key of that kind.
        """
        if verifier not in self.old:
            return None
        for successor in self.new:
            if successor.kind is verifier.kind:
                return successor
        raise ProofInvalid(f"{verifier.name} was handed over to no key of the same kind")


def hand_over(
    last: Checkpoint, old: Sequence[SigningKey], new: Sequence[SigningKey]
) -> KeyHandover:
    """Make a hand-over, signed by all of these keys.

    Raises:
        ProofInvalid: the keys are not those of one log.
        SigningKeyUnavailable: where a key lies does not answer.
    """
    document: dict[str, Any] = {
        "format": KEY_HANDOVER,
        "origin": last.origin,
        "tree_size": str(last.size),
        "root_hash": last.root.hex(),
        "old_keys": [key.verifier.vkey for key in old],
        "new_keys": [key.verifier.vkey for key in new],
    }
    document["signatures"] = signatures_of(document, (*old, *new))
    return KeyHandover.of_document(document)


def keys_for(
    verifiers: Iterable[NoteVerifier], handovers: Iterable[KeyHandover], size: int
) -> tuple[NoteVerifier, ...]:
    """Return the keys that speak for a log at a size, from those that are known.

    One that was handed over to no key of its kind has no successor and is left out.
    """
    followed, speaking = tuple(handovers), []
    for verifier in verifiers:
        with suppress(ProofInvalid):
            speaking.append(key_for(verifier, followed, size))
    return tuple(speaking)


def key_for(verifier: NoteVerifier, handovers: Iterable[KeyHandover], size: int) -> NoteVerifier:
    """Return the key that speaks for a log at a size, from one that is known, by hand-overs.

    Raises:
        ProofInvalid: a hand-over leads to no key of the same kind.
    """
    for handover in sorted(handovers, key=lambda handover: handover.last.size):
        if size > handover.last.size:
            verifier = handover.successor_of(verifier) or verifier
    return verifier
