"""`rotulus prove`: one file that proves an operation to somebody who has no ledger."""

import base64
from pathlib import Path
from typing import IO, Any

import click
import orjson

from kernel.ledger.ledger import LedgerView
from kernel.proof.checkpoint import Checkpoint
from kernel.proof.proof_file import FORMAT, TLOG_PROOF
from kernel.proof.signed_note import NOTE_BYTES_MAX
from kernel.proof.verification import ProofInvalid
from workers.cli.common import clean_errors, ledger_dir, read_settings
from workers.environment.checkpoint_folder import PUBLIC_MODE, write_whole
from workers.environment.checkpoint_key import check_continued
from workers.environment.ledger_access import ledger_place, open_record


@click.group()
def prove() -> None:
    """Write proof files, which `rotulus verify --proof` verifies without a ledger."""


@prove.command()
@click.argument("operation_id")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option(
    "--checkpoint",
    "note_file",
    type=click.File("rb"),
    required=True,
    help="A checkpoint that `rotulus checkpoint publish` wrote.",
)
@click.option("--with-envelope", is_flag=True, help="Show the envelope; else it is withheld.")
@ledger_dir
def operation(
    data_dir: Path | None,
    operation_id: str,
    output: Path,
    note_file: IO[bytes],
    *,
    with_envelope: bool,
) -> None:
    """Prove that OPERATION_ID is in the log of a signed checkpoint.

    Reads the ledger by itself. The file holds the row, its path and the checkpoint.
    """
    place = ledger_place(read_settings(data_dir))
    with clean_errors(), open_record(place) as view:
        note = note_file.read(NOTE_BYTES_MAX).decode(errors="replace")
        content = orjson.dumps(
            _document(view, operation_id, note, with_envelope=with_envelope),
            option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
        )
        try:
            write_whole(output, content, PUBLIC_MODE)
        except OSError as error:
            raise click.ClickException(f"output_unusable: {output}: {error.strerror}") from None
    click.echo(f"{output}: {len(content)} bytes")


def _document(
    view: LedgerView, operation_id: str, note: str, *, with_envelope: bool
) -> dict[str, Any]:
    row = view.log_row_of(operation_id)
    if row is None:
        raise click.ClickException("operation_not_found: no such operation is on the record")
    text, _, _ = note.rpartition("\n\n")
    signed, tree = Checkpoint.of_text(f"{text}\n"), view.log_tree()
    check_continued(tree, signed)
    sequence = row["ec_sequence_number"]
    if sequence > signed.size:
        raise ProofInvalid(f"the checkpoint has {signed.size} rows, the operation is {sequence}")
    path = tree.inclusion_path(sequence - 1, signed.size)
    lines = [TLOG_PROOF, f"index {sequence - 1}"]
    lines += [base64.b64encode(node).decode() for node in path]
    document = {
        "format": FORMAT,
        "row": row["row_bytes"].decode(),
        "tlog_proof": "\n".join([*lines, "", note]),
    }
    if with_envelope:
        opening = view.blob_opening(row["envelope_payload_blob_ref"])
        if opening is None:
            raise ProofInvalid("the envelope was erased: it can be withheld, not shown")
        salt, content = opening
        document["envelope"] = {"salt": salt.hex(), "content": content.decode()}
    return document
