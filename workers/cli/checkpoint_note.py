"""Reads the signed checkpoint under which something is proved."""

from typing import IO

import click

from kernel.ledger.log_tree import LogTree
from kernel.proof.checkpoint import Checkpoint
from kernel.proof.signed_note import NOTE_BYTES_MAX
from workers.cli.common import command_error, read_settings
from workers.environment.checkpoint_folder import read_checkpoint
from workers.environment.checkpoint_key import check_continued


def newest_note(note_file: IO[bytes] | None) -> bytes:
    """Return the checkpoint that was named, or else the one that was published last."""
    if note_file is not None:
        return note_file.read(NOTE_BYTES_MAX)
    folder = read_settings().published_folder
    try:
        note = read_checkpoint(folder)
    except OSError as error:
        raise click.ClickException(f"input_invalid: {folder}: {error.strerror}") from None
    if note is None:
        message = (
            f"nothing is published in {folder}: set ROTULUS_CHECKPOINT_KEY for the gateway, or"
            " name with --checkpoint what `rotulus checkpoint publish FOLDER --key FILE` wrote"
        )
        raise command_error("checkpoint_not_published", message)
    return note[:NOTE_BYTES_MAX]


def note_and_checkpoint(tree: LogTree, content: bytes) -> tuple[str, Checkpoint]:
    """Return the note of a checkpoint, which the tree has to go on from, and what it states."""
    note = content.decode(errors="replace")
    text, _, _ = note.rpartition("\n\n")
    signed = Checkpoint.of_text(f"{text}\n")
    check_continued(tree, signed)
    return note, signed
