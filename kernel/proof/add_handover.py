"""Asks a witness whose policy has a log's old keys to follow a hand-over; pure.

It is a request for a cosignature on a checkpoint that the new keys have signed, with a proof of
each hand-over that lies between: every key of it has signed it, and it stands on the log of that
very checkpoint. So a witness follows nobody in secret. The request is our own; C2SP has none for it
(decision workers/0263).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import orjson

from kernel.proof.add_checkpoint import AddCheckpoint, WitnessRefusal
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.handover_proof import check_on_log, read_handover
from kernel.proof.key_handover import HANDOVERS_MAX, KeyHandover
from kernel.proof.verification import ProofInvalid

FORMAT = "rotulus-add-handover/v1"
PROOFS_MAX = 8
"""Hand-overs of one request; a proof with both kinds of key has about 30 kB."""

REQUEST_BYTES_MAX = 512 << 10


@dataclass(frozen=True, slots=True)
class AddHandover:
    """A request for a cosignature, and the proof files of the hand-overs before it."""

    request: AddCheckpoint
    proofs: tuple[bytes, ...]

    @classmethod
    def of_bytes(cls, content: bytes) -> Self:
        """Read the body of a request; none of the proofs is verified.

        Raises:
            ProofInvalid: it is none.
        """
        try:
            document = orjson.loads(content if len(content) <= REQUEST_BYTES_MAX else b"")
            proofs = tuple(proof.encode() for proof in document["proofs"])
            is_ours = document["format"] == FORMAT and 0 < len(proofs) <= PROOFS_MAX
            request = AddCheckpoint.of_bytes(document["add_checkpoint"].encode())
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProofInvalid("this is no request to follow a hand-over") from None
        if not is_ours:
            raise ProofInvalid(f"a request of {FORMAT} has 1 to {PROOFS_MAX} proofs")
        return cls(request, proofs)

    def to_bytes(self) -> bytes:
        """Return what `of_bytes` reads."""
        return orjson.dumps(
            {
                "format": FORMAT,
                "add_checkpoint": self.request.to_bytes().decode(),
                "proofs": [proof.decode() for proof in self.proofs],
            }
        )

    def handovers(self) -> tuple[KeyHandover, ...]:
        """Return the hand-overs, each of which is proved to be on the log of the checkpoint.

        Raises:
            ProofInvalid: one is none, or is not.
        """
        handovers = [read_handover(proof) for proof in self.proofs]
        newest = max(handovers, key=lambda handover: handover.last.size)
        stated = self.request.checkpoint.stated
        for proof in self.proofs:
            proved = check_on_log(proof, newest.new)
            if proved != (stated.origin, f"{stated.size}:{stated.root.hex()}"):
                raise ProofInvalid("a hand-over is proved of another checkpoint")
        return tuple(handovers)


def follow_handovers(
    known: Sequence[KeyHandover], stated: Sequence[KeyHandover], latest: SignedCheckpoint | None
) -> tuple[KeyHandover, ...]:
    """Return the hand-overs that a witness follows, those before and those that are new to it.

    `latest` is the newest checkpoint that it has cosigned. Old keys say nothing of what is larger
    than the last checkpoint that they handed over, so a hand-over that goes back behind `latest` is
    refused: keys that were handed over are handed over once.

    Raises:
        WitnessRefusal: a hand-over is not from the log that was cosigned, or there are too many.
    """
    documents = [handover.document for handover in known]
    new = [handover for handover in stated if handover.document not in documents]
    for handover in new:
        last = handover.last
        if latest is not None and last.size < latest.stated.size:
            message = f"{latest.stated.size} rows are cosigned, the hand-over is behind {last.size}"
            raise WitnessRefusal(403, message)
        if latest is not None and last.size == latest.stated.size and last != latest.stated:
            raise WitnessRefusal(403, "the hand-over is from another log than the one cosigned")
    if len(known) + len(new) > HANDOVERS_MAX:
        raise WitnessRefusal(403, f"at most {HANDOVERS_MAX} hand-overs are followed")
    return (*known, *new)
