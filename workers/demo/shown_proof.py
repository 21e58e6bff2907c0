"""Ends the main job with a checkpoint to keep, and one proof that a stranger can verify.

The proof is verified by the single file that ships for it, copied into a folder of its own and run
by an interpreter of its own that sees nothing of Rotulus. The key lies in the data folder, so that
it goes where the ledger goes; a log that is meant to last has a key elsewhere.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread
import orjson

from kernel.audit.proofs import ProofSubject, elimination, operation, proof_document
from kernel.belief.events import BeliefEvent
from kernel.ledger.ledger import LedgerView
from kernel.proof import proof_file
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.proof_file import ELIMINATE_VERB
from workers.environment.checkpoint_folder import CHECKPOINT
from workers.environment.checkpoint_key import create_key
from workers.environment.key_file import CheckpointKeyBusy, write_private
from workers.environment.ledger_access import LedgerPlace, open_record, read_record
from workers.publication.log_publication import LogPublisher, PublishedLog

ORIGIN = "rotulus.example/demo"
EVENTS_READ = 256

_BUSY_S = 0.2
_VERIFIED_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class ShownProof:
    """What was published, what was proved under it, and what the verifier said of that."""

    tree_head: str
    checkpoint_path: Path
    vkey: str
    proof_path: Path
    kind: str
    verifies: bool
    verifier_says: str

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "tree_head": self.tree_head,
            "checkpoint": str(self.checkpoint_path),
            "vkey": self.vkey,
            "proof": str(self.proof_path),
            "proof_kind": self.kind,
            "proof_verifies": self.verifies,
            "verifier_says": self.verifier_says,
        }


async def show_proof(
    place: LedgerPlace, key_file: Path, folder: Path, path: Path, session_ids: Sequence[str]
) -> ShownProof:
    """Publish the log, prove an elimination of one of these sessions, and have that verified.

    Without an elimination the newest operation is proved. The proof is written to `path`, which is
    not in the folder that everybody may read: it shows an envelope.

    Raises:
        CheckpointDiverged: the log does not go on from what was last signed.
        CheckpointKeyUnusable: there are keys that cannot be used.
        PublicationFolderUnusable: the folder cannot be written.
    """
    published = await _publish_when_free(
        LogPublisher(partial(read_record, place), key_file, folder)
    )
    kind = await anyio.to_thread.run_sync(
        _write_proof, place, path, published.checkpoint, session_ids
    )
    vkey = published.verifiers[0].vkey
    verifies, says = await anyio.to_thread.run_sync(verify_elsewhere, path, vkey)
    return ShownProof(published.tree_head, folder / CHECKPOINT, vkey, path, kind, verifies, says)


def make_key(path: Path) -> None:
    """Make the keys of the log in a file, unless there are some.

    Raises:
        CheckpointKeyUnusable: it cannot be written.
    """
    if not path.exists():
        create_key(path, ORIGIN)


async def _publish_when_free(publisher: LogPublisher) -> PublishedLog:
    """Publish as soon as the gateway does not."""
    while True:
        with suppress(CheckpointKeyBusy):
            return await publisher.publish()
        await anyio.sleep(_BUSY_S)


def verify_elsewhere(proof_path: Path, vkey: str) -> tuple[bool, str]:
    """Verify a proof file where nothing of Rotulus is; return what the verifier says of it."""
    with TemporaryDirectory() as folder:
        verifier = copy(proof_file.__file__, folder)
        # -I: neither the folder of a program nor the environment leads to modules of ours.
        command = [sys.executable, "-I", verifier, str(proof_path.absolute()), "--vkey", vkey]
        try:
            ended = subprocess.run(
                command, cwd=folder, capture_output=True, timeout=_VERIFIED_S_MAX, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return False, str(error)
    said = (ended.stdout if ended.returncode == 0 else ended.stderr).decode(errors="replace")
    return ended.returncode == 0, said.strip()


def _write_proof(
    place: LedgerPlace, path: Path, signed: SignedCheckpoint, session_ids: Sequence[str]
) -> str:
    with open_record(place) as view:
        kind, subject = _subject(view, session_ids, signed.stated.size)
        note = signed.to_bytes().decode()
        document = proof_document(kind, subject, view.log_tree(), signed.stated.size, note)
    write_private(path, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return kind


def _subject(view: LedgerView, session_ids: Sequence[str], size: int) -> tuple[str, ProofSubject]:
    for session_id in session_ids:
        for stored in view.belief_events(session_id, first=0, limit=EVENTS_READ):
            event = BeliefEvent.from_bytes(stored)
            if event.verb == ELIMINATE_VERB:
                return "elimination", elimination(view, event.event_id)
    row = view.log_row_at(size)
    operation_id = "" if row is None else row["operation_id"]
    return "operation", operation(view, operation_id, with_envelope=True)
