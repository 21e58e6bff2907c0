"""Runs `rotulus checkpoint verify` and `verify --evidence`: what a checkpoint is worth."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import click

from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint
from kernel.proof.checkpoint_verdict import CheckpointVerdict, JudgedCheckpoint, judge_checkpoint
from kernel.proof.equivocation import (
    EVIDENCE_BYTES_MAX,
    Equivocation,
    equivocation_of,
    full_path,
)
from kernel.proof.handover_proof import verify_handover
from kernel.proof.key_handover import KeyHandover, key_for
from kernel.proof.proof_file import FILE_BYTES_MAX
from kernel.proof.signed_note import NOTE_BYTES_MAX
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.verification import ProofInvalid, roots_of_path
from kernel.proof.witness_policy import POLICY_BYTES_MAX, KnownLog, WitnessPolicy
from workers.cli.common import as_json, clean_errors, print_document
from workers.cli.input_file import InputFile
from workers.environment.checkpoint_folder import PUBLIC_MODE, nodes_in, write_whole

_REFUSED = (CheckpointVerdict.INVALID, CheckpointVerdict.DIVERGED)


@click.command()
@click.argument("file", type=InputFile())
@click.option(
    "--vkey",
    "vkeys",
    multiple=True,
    help="The public half of a key, as `key` printed it; of several, each must have signed.",
)
@click.option(
    "--policy",
    "policy_file",
    type=InputFile(),
    help="A file of tlog-policy: whose cosignatures count, and how many are enough.",
)
@click.option("--kept", type=InputFile(), help="An older checkpoint of the log, to go on from.")
@click.option(
    "--handover",
    "handover_files",
    type=InputFile(),
    multiple=True,
    help="A proof of an operation by which the log was handed over, as `prove operation"
    " --with-envelope` writes it: keys that were handed over are followed to the new ones.",
)
@click.option(
    "--tiles",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="With --kept: a folder with the tiles of the log, as `publish` writes it.",
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --kept: where to write what proves that the log has signed two histories.",
)
@as_json
def verify(
    file: IO[bytes],
    vkeys: tuple[str, ...],
    policy_file: IO[bytes] | None,
    kept: IO[bytes] | None,
    handover_files: tuple[IO[bytes], ...],
    tiles: Path | None,
    evidence: Path | None,
    *,
    as_json: bool,
) -> None:
    """Say what the checkpoint in FILE (- for standard input) is worth, without a ledger.

    It is invalid, diverged, unwitnessed or witnessed. Ends with 0 where it is signed, goes on from
    what was kept, and satisfies the policy where there is one; else with 1.
    """
    if not vkeys and policy_file is None:
        raise click.UsageError("--vkey or --policy is needed: a checkpoint does not prove its key")
    with clean_errors():
        content = file.read(NOTE_BYTES_MAX + 1)
        handovers = [verify_handover(proof.read(FILE_BYTES_MAX + 1)) for proof in handover_files]
        policy = policy_of(policy_file)
        comparison = None if kept is None else _Comparison(kept, content, tiles)
        worst = min(
            (
                _judge_checkpoint(content, known, comparison, handovers)
                for known in _policies_of_keys(policy, vkeys)
            ),
            key=lambda judgement: [*CheckpointVerdict].index(judgement.verdict),
        )
        if evidence is not None and comparison is not None:
            comparison.leave_evidence(evidence)
    print_document(worst.document(), as_json=as_json)
    sys.exit(1 if worst.verdict in _REFUSED or not worst.quorum_met else 0)


def verify_evidence(file: IO[bytes], vkeys: Sequence[str], *, as_json: bool) -> None:
    """Judge a file of evidence, and print what it shows.

    Raises:
        EvidenceInvalid: it shows nothing.
    """
    equivocation = Equivocation.of_bytes(file.read(EVIDENCE_BYTES_MAX + 1))
    equivocation.check([NoteVerifier.of_vkey(vkey) for vkey in vkeys])
    first, second = (side.stated for side in (equivocation.first, equivocation.second))
    document = {
        "proves": True,
        "verdict": str(CheckpointVerdict.DIVERGED),
        "origin": first.origin,
        "tree_heads": [f"{stated.size}:{stated.root.hex()}" for stated in (first, second)],
        "message": "the log has signed two checkpoints that no log can have at once",
    }
    print_document(document, as_json=as_json)


class _Comparison:
    """An older checkpoint that was kept, beside a newer one or an equal one."""

    def __init__(self, kept: IO[bytes], content: bytes, tiles: Path | None) -> None:
        self._kept = SignedCheckpoint.of_bytes(kept.read(NOTE_BYTES_MAX + 1))
        self._content = content
        self._tiles = tiles
        self._equivocation: Equivocation | None = None

    def check_kept(self, policy: WitnessPolicy, handovers: Sequence[KeyHandover]) -> None:
        """Check that the log has signed what was kept as well.

        Raises:
            ProofInvalid: it has not.
        """
        origin = self._kept.stated.origin
        followed = _policy_after_handovers(policy, handovers, self._kept.to_bytes())
        verifiers = [log.verifier for log in followed.logs]
        if not any(verifier.name == origin for verifier in self._kept.holding(verifiers)):
            raise ProofInvalid("the log has not signed the checkpoint that was kept")

    def difference(self, stated: Checkpoint) -> str | None:
        """Return why the checkpoint does not go on from the one that was kept.

        Raises:
            ProofInvalid: the tiles do not tell.
        """
        newer, kept = SignedCheckpoint.of_bytes(self._content), self._kept.stated
        first, second = sorted((kept, stated), key=lambda side: side.size)
        path = [] if first.size in (0, second.size) else self._path(first.size, second)
        self._equivocation = equivocation_of(self._kept, newer, path)
        if self._equivocation is not None:
            return f"the log of {kept.size} rows that was kept has another beginning"
        if kept.size > stated.size:
            return f"{kept.size} rows were kept, the checkpoint has {stated.size}"
        return None

    def leave_evidence(self, path: Path) -> None:
        """Write what proves that the log has signed two histories, where it has."""
        if self._equivocation is None:
            return
        try:
            write_whole(path, self._equivocation.to_bytes(), PUBLIC_MODE)
        except OSError as error:
            raise click.ClickException(f"output_unusable: {path}: {error.strerror}") from None

    def _path(self, old_size: int, larger: Checkpoint) -> list[bytes]:
        if self._tiles is None:
            raise click.UsageError("--tiles is needed: the checkpoints are of different sizes")
        read = nodes_in(self._tiles, larger.size)
        path = full_path(old_size, larger.size, read)
        # What the tiles say counts only where it leads to the root that was signed.
        _, root = roots_of_path(old_size, larger.size, path)
        if root != larger.root:
            raise ProofInvalid(f"the tiles are not those of the checkpoint of {larger.size} rows")
        return path


def policy_of(file: IO[bytes] | None) -> WitnessPolicy:
    """Return the policy of a file, one without witnesses where there is no file.

    Raises:
        PolicyInvalid: it is no policy.
    """
    if file is None:
        return WitnessPolicy()
    return WitnessPolicy.of_bytes(file.read(POLICY_BYTES_MAX + 1))


def _policies_of_keys(policy: WitnessPolicy, vkeys: Sequence[str]) -> Iterator[WitnessPolicy]:
    """Yield the policy for each key that has to have signed; without any, its own logs count."""
    if not vkeys:
        yield policy
    for vkey in vkeys:
        yield replace(policy, logs=(KnownLog(NoteVerifier.of_vkey(vkey), None),))


def _judge_checkpoint(
    content: bytes,
    policy: WitnessPolicy,
    comparison: _Comparison | None,
    handovers: Sequence[KeyHandover],
) -> JudgedCheckpoint:
    followed = _policy_after_handovers(policy, handovers, content)
    if comparison is None:
        return judge_checkpoint(content, followed)
    comparison.check_kept(policy, handovers)
    return judge_checkpoint(content, followed, comparison.difference)


def _policy_after_handovers(
    policy: WitnessPolicy, handovers: Sequence[KeyHandover], note: bytes
) -> WitnessPolicy:
    """Return a policy with the keys that speak for its logs at the size of a checkpoint."""
    if not handovers:
        return policy
    size = SignedCheckpoint.of_bytes(note).stated.size
    logs = [replace(log, verifier=key_for(log.verifier, handovers, size)) for log in policy.logs]
    return replace(policy, logs=tuple(logs))
