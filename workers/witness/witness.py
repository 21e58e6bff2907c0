"""Decides on checkpoints, remembers what it cosigned, and then cosigns: a witness.

One request at a time reads what was cosigned, decides, and writes the new checkpoint to the disk;
only then is it signed and answered. So a witness that is killed at any moment has cosigned nothing
that it does not remember. A log that was handed over to other keys is followed where it proves that
(decision workers/0263).
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from kernel.proof.add_checkpoint import SIZE_TYPE, AddCheckpoint, WitnessRefusal, decide_checkpoint
from kernel.proof.add_handover import AddHandover, follow_handovers
from kernel.proof.checkpoint import SignedCheckpoint, signature_line
from kernel.proof.equivocation import Equivocation
from kernel.proof.key_handover import KeyHandover, keys_for
from kernel.proof.signing_keys import KeyKind, NoteVerifier, SigningKey
from kernel.proof.verification import ProofInvalid
from kernel.proof.witness_policy import WitnessPolicy
from workers.environment.key_file import check_new, new_keys, write_keys
from workers.witness.cosigned_folder import CosignedFolder

WITNESS_KINDS = (KeyKind.ED25519_COSIGNATURE, KeyKind.ML_DSA_44)
"""The kinds of key under which a witness cosigns, each checkpoint under all of them."""

TEXT_TYPE = "text/plain; charset=utf-8"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WitnessAnswer:
    """What is answered to a request, in the terms of HTTP."""

    status: int
    body: str
    media_type: str = TEXT_TYPE


class Witness:
    """The keys of a witness, the logs that it knows, and what it has cosigned of them."""

    def __init__(
        self,
        keys: Sequence[SigningKey],
        logs: WitnessPolicy,
        cosigned: CosignedFolder,
        clock_s: Callable[[], int],
    ) -> None:
        self._keys = keys
        self._logs = logs
        self._cosigned = cosigned
        self._clock_s = clock_s
        self._deciding = threading.Lock()

    def add(self, body: bytes) -> WitnessAnswer:
        """Answer a request for a cosignature; it may be called on several threads.

        Raises:
            CheckpointKeyUnusable: what is cosigned cannot be kept; nothing was cosigned.
            SigningKeyUnavailable: where a key lies does not answer; the checkpoint is kept, and
                may be sent again.
        """
        try:
            request = AddCheckpoint.of_bytes(body)
        except ProofInvalid as error:
            return WitnessAnswer(400, f"{error}\n")
        return self._answer_request(request, ())

    def add_handover(self, body: bytes) -> WitnessAnswer:
        """Answer a request to follow a hand-over of a log's keys, and cosign under the new ones.

        Raises:
            CheckpointKeyUnusable, SigningKeyUnavailable: as `add`.
        """
        try:
            request = AddHandover.of_bytes(body)
        except ProofInvalid as error:
            return WitnessAnswer(400, f"{error}\n")
        origin = request.request.checkpoint.stated.origin
        if not self._logs.of_log(origin):
            return WitnessAnswer(404, f"the log {origin!r} is not known here\n")
        try:
            handovers = request.handovers()
        except ProofInvalid as error:
            return WitnessAnswer(403, f"{error}\n")
        return self._answer_request(request.request, handovers)

    def _answer_request(
        self, request: AddCheckpoint, handovers: Sequence[KeyHandover]
    ) -> WitnessAnswer:
        origin = request.checkpoint.stated.origin
        try:
            with self._deciding:
                signed = self._decide(request, handovers)
        except WitnessRefusal as refusal:
            return self._refusal_answer(origin, refusal)
        time_s = self._clock_s()
        lines = [
            signature_line(key, signed.note.text, signed.stated, time_s).line for key in self._keys
        ]
        return WitnessAnswer(200, "".join(lines))

    def _decide(self, request: AddCheckpoint, handovers: Sequence[KeyHandover]) -> SignedCheckpoint:
        """Return what is to be cosigned, kept by then with the hand-overs that lead to it."""
        stated = request.checkpoint.stated
        latest, known = (
            self._cosigned.latest(stated.origin),
            self._cosigned.handovers(stated.origin),
        )
        follow = follow_handovers(known, handovers, latest)
        verifiers = keys_for(self._logs.of_log(stated.origin), follow, stated.size)
        signed = decide_checkpoint(request, verifiers, latest)
        if len(follow) > len(known):
            self._cosigned.keep_handovers(signed, follow)
            _log.warning("log_handed_over", origin=stated.origin, tree_size=stated.size)
        else:
            self._cosigned.keep(signed)
        return signed

    def _refusal_answer(self, origin: str, refusal: WitnessRefusal) -> WitnessAnswer:
        if refusal.equivocation is not None:
            self._accuse(origin, refusal.equivocation)
        if refusal.size is not None:
            return WitnessAnswer(refusal.status, f"{refusal.size}\n", SIZE_TYPE)
        return WitnessAnswer(refusal.status, f"{refusal}\n")

    def _accuse(self, origin: str, equivocation: Equivocation) -> None:
        path = self._cosigned.keep_evidence(equivocation)
        if path is not None:
            _log.error("log_equivocates", origin=origin, evidence=str(path))


def create_witness(path: Path, name: str) -> tuple[NoteVerifier, ...]:
    """Make the keys of a witness in a new file, and the folder of what it cosigns.

    Raises:
        CheckpointKeyUnusable: there is a file or a folder, or they cannot be written.
    """
    check_new(path)
    keys = new_keys(name, WITNESS_KINDS)
    CosignedFolder.make(cosigned_path(path))
    write_keys(path, keys)
    return tuple(key.verifier for key in keys)


def cosigned_path(path: Path) -> Path:
    """Return where what a witness has cosigned lies, by the file of its keys."""
    return path.with_name(f"{path.name}.cosigned")
