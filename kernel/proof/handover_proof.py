"""Writes and reads proof files of the operations that handed a log over to other keys; pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.key_handover import KeyHandover, key_for
from kernel.proof.proof_file import ProofFileInvalid, verify_proof_file
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.verification import ProofInvalid

HANDOVER_VERB = "checkpoint_key_handover"
HANDOVER_RECEIPT = "checkpoint_key_handed_over"


def verify_handover(content: bytes) -> KeyHandover:
    """Return the hand-over that a proof of an operation shows, of a log that the new keys sign.

    Raises:
        ProofInvalid: it shows none, or the operation is not on that log.
    """
    handover = read_handover(content)
    check_on_log(content, handover.new)
    return handover


def follow_vkeys(
    content: bytes, vkeys: Iterable[str], handovers: Sequence[KeyHandover]
) -> list[str]:
    """Return the keys that speak for a log under the checkpoint of a proof file, from known ones.

    Raises:
        ProofInvalid: the file has no checkpoint, or a key was handed over to none of its kind.
    """
    try:
        document = orjson.loads(content)
        note = document.get("checkpoint") or document["tlog_proof"].partition("\n\n")[2]
        size = SignedCheckpoint.of_bytes(note.encode()).stated.size
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ProofInvalid("the file has no checkpoint") from None
    return [key_for(NoteVerifier.of_vkey(vkey), handovers, size).vkey for vkey in vkeys]


def read_handover(content: bytes) -> KeyHandover:
    """Return the hand-over that a proof of an operation shows; that it is on a log is not checked.

    Raises:
        ProofInvalid: it shows none.
    """
    try:
        envelope = orjson.loads(orjson.loads(content)["envelope"]["content"])
    except (KeyError, TypeError, ValueError):
        raise ProofInvalid("the file proves no hand-over of keys") from None
    return handover_in(envelope)


def handover_in(envelope: Any) -> KeyHandover:
    """Return the hand-over that an envelope states.

    Raises:
        ProofInvalid: it states none.
    """
    try:
        [effect] = envelope["primitive_effects"]
        stated = envelope["semantic_intent"], effect["receipt_subkind"]
        document = effect["payload"]
    except (KeyError, TypeError, ValueError):
        raise ProofInvalid("the operation states no hand-over of keys") from None
    if stated != (HANDOVER_VERB, HANDOVER_RECEIPT):
        raise ProofInvalid("the operation states no hand-over of keys")
    return KeyHandover.of_document(document)


def check_on_log(content: bytes, verifiers: Iterable[NoteVerifier]) -> tuple[str, str]:
    """Check that the operation is on a log that all of these keys sign; return whose, and its head.

    Raises:
        ProofInvalid: it is not.
    """
    try:
        proved = verify_proof_file(content, *(verifier.vkey for verifier in verifiers))
    except ProofFileInvalid as error:
        raise ProofInvalid(f"the hand-over is not proved to be on the log: {error}") from None
    return proved["origin"], proved["tree_head"]
