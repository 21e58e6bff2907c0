"""Publishes the log: signs its head, has witnesses cosign it, writes it to a folder with the tiles.

The order is what makes a kill harmless at any step: what is signed is beside its key on the disk
before anybody sees it, the tiles are in the folder before the checkpoint that needs them, and the
next publication goes on from what it finds in both places. Before a process signs for the first
time it asks the witnesses what they have seen, because a backup that was put back may have brought
the file of what was signed with it.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio.to_thread
import orjson
import structlog

from kernel.audit.proofs import handover_documents
from kernel.ledger.ledger import LedgerView
from kernel.proof.add_handover import PROOFS_MAX
from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint
from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.verification import ProofInvalid
from workers.environment.checkpoint_folder import (
    read_checkpoint,
    write_checkpoint,
    write_tiles,
)
from workers.environment.checkpoint_key import (
    CheckpointDiverged,
    CheckpointKey,
    check_continued,
    hold_key,
)
from workers.publication.witnessing import Witnesses, WitnessReply

ORIGIN_BYTES_MAX = 200

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Read(Protocol):
    """Answers a question from a snapshot of a ledger; it may block."""

    def __call__(self, question: Callable[[LedgerView], T], /) -> T:
        """Return the answer."""


class PublicationFolderUnusable(Exception):
    """The folder cannot be read or written, or has the checkpoint of another log."""

    code = "output_unusable"


@dataclass(frozen=True, slots=True)
class PublishedLog:
    """A checkpoint as it was published, and the keys of its log."""

    checkpoint: SignedCheckpoint
    verifiers: tuple[NoteVerifier, ...]

    @property
    def tree_head(self) -> str:
        """The size and the root, as every command names them."""
        stated = self.checkpoint.stated
        return f"{stated.size}:{stated.root.hex()}"


class LogPublisher:
    """A log, the file of its keys, and the folder to which it is published."""

    def __init__(
        self, read: Read, key_file: Path, folder: Path, witnesses: Witnesses | None = None
    ) -> None:
        self._read = read
        self._key_file = key_file
        self._folder = folder
        self._witnesses = witnesses
        self._has_looked = witnesses is None

    async def publish(self) -> PublishedLog:
        """Sign the head of the log and publish it with its cosignatures.

        Raises:
            CheckpointDiverged: the log does not go on from what was signed, published or seen by
                a witness; nothing is published.
            CheckpointKeyBusy: another process publishes.
            CheckpointKeyUnusable: the keys, or what they last signed, cannot be read or written.
            PublicationFolderUnusable: the folder cannot be, or is another log's.
            SigningKeyUnavailable: where a key lies does not answer.
            ProofInvalid: what was last signed is not of these keys.
            LedgerCorrupt: a tile of the tree is not there.
        """
        with ExitStack() as stack:
            held = await _on_thread(stack.enter_context, hold_key(self._key_file))
            await self._look(held)
            signed = await _on_thread(self._signed_head, held)
            cosigned = await self._collect_cosignatures(signed, held.verifiers)
            await _on_thread(self._write_checkpoint_file, cosigned)
            return PublishedLog(cosigned, held.verifiers)

    async def aclose(self) -> None:
        """Close the connections to witnesses."""
        if self._witnesses is not None:
            await self._witnesses.aclose()

    async def _look(self, held: CheckpointKey) -> None:
        """Ask the witnesses whether they have seen more, until each has answered once."""
        if self._has_looked or self._witnesses is None:
            return
        last_signed = await _on_thread(held.last_signed_note)
        replies = await self._witnesses.look(last_signed)
        _check_seen(replies)
        self._has_looked = all(reply.outcome != "unreachable" for reply in replies)

    def _signed_head(self, held: CheckpointKey) -> SignedCheckpoint:
        """Return the signed head, with the cosignatures that it has in the folder."""
        try:
            there = self._in_folder(held)
            checkpoint = self._read(partial(self._prepare_checkpoint, held=held, there=there))
        except OSError as error:
            raise self._unusable(error) from error
        # A KMS may take its time, and no snapshot waits for it.
        signed = held.sign(checkpoint)
        if there is None or there.note.text != signed.note.text:
            return signed
        return there.with_signatures(signed.note.signatures)

    def _prepare_checkpoint(
        self, view: LedgerView, held: CheckpointKey, there: SignedCheckpoint | None
    ) -> Checkpoint:
        """Return what is to be signed, whose tiles are in the folder by then."""
        tree = view.log_tree()
        if there is not None:
            check_continued(tree, there.stated)
        checkpoint = held.next_of(tree)
        write_tiles(self._folder, tree, tree.size, 0 if there is None else there.stated.size)
        return checkpoint

    def _in_folder(self, held: CheckpointKey) -> SignedCheckpoint | None:
        note = read_checkpoint(self._folder)
        if note is None:
            return None
        try:
            return held.open_published(note)
        except ProofInvalid as error:
            message = (
                f"{self._folder} has the checkpoint of another log or key, of"
                f" {_origin_of(note)!r}; this log is {held.verifiers[0].name!r}: {error}; do: name"
                " a folder of its own by ROTULUS_CHECKPOINT_FOLDER"
            )
            raise PublicationFolderUnusable(message) from None

    async def _collect_cosignatures(
        self, signed: SignedCheckpoint, keys: Sequence[NoteVerifier]
    ) -> SignedCheckpoint:
        if self._witnesses is None:
            return signed
        replies = await self._witnesses.ask(
            signed,
            partial(self._path_to, signed.stated.size),
            partial(self._handovers_under, signed, keys),
        )
        _check_seen(replies)
        for reply in replies:
            if reply.outcome != "cosigned":
                _log.warning("witness_has_not_cosigned", url=reply.url, reason=reply.message)
        return signed.with_signatures(line for reply in replies for line in reply.signatures)

    async def _path_to(self, size: int, old_size: int) -> Sequence[bytes]:
        def path(view: LedgerView) -> Sequence[bytes]:
            return view.log_tree().consistency_path(old_size, size)

        return await _on_thread(self._read, path)

    async def _handovers_under(
        self, signed: SignedCheckpoint, keys: Sequence[NoteVerifier]
    ) -> Sequence[bytes]:
        def proofs(view: LedgerView) -> Sequence[bytes]:
            note = signed.to_bytes().decode()
            size = signed.stated.size
            documents = handover_documents(view, size, note, keys, limit=PROOFS_MAX)
            return [*map(orjson.dumps, documents)]

        return await _on_thread(self._read, proofs)

    def _write_checkpoint_file(self, signed: SignedCheckpoint) -> None:
        try:
            write_checkpoint(self._folder, signed.to_bytes())
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> PublicationFolderUnusable:
        return PublicationFolderUnusable(f"{self._folder}: {error.strerror or error}")


def _origin_of(note: bytes) -> str:
    """Return what a note says that it is of, which nobody has signed here."""
    return note[:ORIGIN_BYTES_MAX].partition(b"\n")[0].decode("utf-8", "replace")


def _check_seen(replies: Sequence[WitnessReply]) -> None:
    """Stop where one witness has seen another log, as it says (decision workers/0307)."""
    for reply in replies:
        if reply.outcome == "diverged":
            raise CheckpointDiverged(
                f"the witness at {reply.url} says that it has seen another log under this name:"
                f" {reply.message}; ask for the checkpoint that it has cosigned: where the key of"
                " this log has signed it, go on under another name, else leave that witness out"
                " of the policy"
            )


async def _on_thread(call: Callable[..., T], *arguments: Any) -> T:
    return await anyio.to_thread.run_sync(call, *arguments)
