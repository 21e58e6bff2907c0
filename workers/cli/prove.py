"""Runs `rotulus prove`: one file that proves something to somebody who has no ledger.

`operation`, `thought` and `consistency` take options of their own; the kinds of
`kernel.audit.proofs.SUBJECTS` are commands that need only an id. A run is proved by the operation
that states its digest.
"""

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click
import orjson

from kernel.audit.proofs import (
    SUBJECTS,
    ProofSubject,
    consistency_document,
    operation,
    proof_document,
    run_seal,
    thought,
)
from kernel.ledger.ledger import Document, LedgerView
from kernel.proof.proof_file import FILE_BYTES_MAX
from kernel.proof.signed_note import NOTE_BYTES_MAX
from kernel.proof.verification import ProofInvalid
from workers.cli.checkpoint_note import newest_note, note_and_checkpoint
from workers.cli.input_file import InputFile
from workers.cli.reading import read_view
from workers.environment.checkpoint_folder import PUBLIC_MODE, write_whole
from workers.environment.output import echo

_HELP = {
    "elimination": "Prove that ID, the audit event of an elimination, is in the log.\n\nShows the"
    " event, those behind it that its transaction anchored, and the ids of the sessions that were"
    " anchored with it.",
    "manifest": "Prove that the manifest ID of an evaluation cycle is in the log.\n\nShows the"
    " manifest; `rotulus audit manifest SOURCE_EVENT_ID` lists those of a source event.",
    "request": "Prove that the outcome of the request ID is in the log.\n\nShows the receipt of the"
    " outcome, its path among the receipts of its range, and the operation that seals the range.",
}

_output = click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Where to write the proof.",
)
_checkpoint = click.option(
    "--checkpoint",
    "note_file",
    type=InputFile(),
    help="A signed checkpoint of the log.  [default: the one that was published last]",
)


@click.group()
def prove() -> None:
    """Write proof files, which `rotulus verify --proof` verifies without a ledger."""


@prove.command("operation")
@click.argument("operation_id", metavar="ID")
@_output
@_checkpoint
@click.option("--with-envelope", is_flag=True, help="Show the envelope; else it is withheld.")
def _operation(
    operation_id: str,
    output: Path,
    note_file: IO[bytes] | None,
    *,
    with_envelope: bool,
) -> None:
    """Prove that the operation ID is in the log of a signed checkpoint.

    Reads the ledger by itself. The file holds the row, its path and the checkpoint.
    """

    def subject(view: LedgerView) -> ProofSubject:
        return operation(view, operation_id, with_envelope=with_envelope)

    _write_subject("operation", subject, output, note_file)


@prove.command("thought")
@click.argument("thought_id", metavar="SESSION_ID:THOUGHT_ID")
@_output
@_checkpoint
@click.option("--with-content", is_flag=True, help="Show its content; else it is withheld.")
def _thought(
    thought_id: str,
    output: Path,
    note_file: IO[bytes] | None,
    *,
    with_content: bool,
) -> None:
    """Prove that a thought is in its session, and that the session's seal is in the log.

    Reads the ledger by itself. The file holds the thought's record, its path in both trees of the
    session, and the operation that states the seal. What else was thought is not in it.
    """

    def subject(view: LedgerView) -> ProofSubject:
        return thought(view, thought_id, with_content=with_content)

    _write_subject("thought", subject, output, note_file)


@prove.command("run")
@click.argument("run_id", metavar="RUN_ID")
@_output
@_checkpoint
def _run(run_id: str, output: Path, note_file: IO[bytes] | None) -> None:
    """Prove that the digest of RUN_ID is in the log of a signed checkpoint.

    The file proves the operation that states the digest of the run and of each of its tables; the
    last line of `rotulus landscape export RUN_ID` states them as well.
    """
    _write_subject("operation", lambda view: run_seal(view, run_id), output, note_file)


def _add(kind: str, find: Callable[[LedgerView, str], ProofSubject]) -> None:
    """Add the command of a kind of proof that an id alone names."""

    @prove.command(kind, help=_HELP[kind])
    @click.argument("subject_id", metavar="ID")
    @_output
    @_checkpoint
    def _(subject_id: str, output: Path, note_file: IO[bytes] | None) -> None:
        _write_subject(kind, lambda view: find(view, subject_id), output, note_file)


for _kind, _find in SUBJECTS.items():
    _add(_kind, _find)


@prove.command("consistency")
@click.argument("old_note_file", metavar="OLD", type=InputFile())
@_output
@_checkpoint
def _consistency(old_note_file: IO[bytes], output: Path, note_file: IO[bytes] | None) -> None:
    """Prove that the log of a checkpoint goes on from that of OLD, a checkpoint that was kept.

    The file holds both checkpoints and the path between them, and nothing of any row.
    """
    with read_view() as view:
        tree = view.log_tree()
        old_note, old = note_and_checkpoint(tree, old_note_file.read(NOTE_BYTES_MAX))
        note, signed = note_and_checkpoint(tree, newest_note(note_file))
        document = consistency_document(tree, old.size, old_note, signed.size, note)
        _write(output, document)


def _write_subject(
    kind: str,
    subject: Callable[[LedgerView], ProofSubject],
    output: Path,
    note_file: IO[bytes] | None,
) -> None:
    with read_view() as view:
        tree = view.log_tree()
        note, signed = note_and_checkpoint(tree, newest_note(note_file))
        _write(output, proof_document(kind, subject(view), tree, signed.size, note))


def _write(output: Path, document: Document) -> None:
    options: Any = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    content = orjson.dumps(document, option=options)
    if len(content) > FILE_BYTES_MAX:
        raise ProofInvalid(f"the proof has {len(content)} bytes, verifiers take {FILE_BYTES_MAX}")
    try:
        write_whole(output, content, PUBLIC_MODE)
    except OSError as error:
        raise click.ClickException(f"output_unusable: {output}: {error.strerror}") from None
    echo(f"{output}: {len(content)} bytes")
