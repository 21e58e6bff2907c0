"""Runs `rotulus exhibit`: one page that states a decision with its grounds and verifies itself."""

from pathlib import Path
from typing import IO

import click

from kernel.proof.signing_keys import NoteVerifier
from kernel.proof.verification import ProofInvalid
from workers.cli.checkpoint_note import newest_note
from workers.cli.common import command_error, read_settings
from workers.cli.input_file import InputFile
from workers.cli.reading import read_view
from workers.environment.checkpoint_folder import PUBLIC_MODE, write_whole
from workers.environment.checkpoint_key import verifiers_in
from workers.environment.output import echo
from workers.publication.exhibit.exhibit import gather
from workers.publication.exhibit.page import page, page_fingerprint


@click.command()
@click.argument("record_id", metavar="ID")
@click.argument("hypothesis", required=False)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Where to write the page.",
)
@click.option(
    "--checkpoint",
    "note_file",
    type=InputFile(),
    help="A signed checkpoint of the log.  [default: the one that was published last]",
)
@click.option(
    "--vkey",
    "vkeys",
    multiple=True,
    help="A key of the log, each of which must have signed.  [default: those of"
    " ROTULUS_CHECKPOINT_KEY]",
)
@click.option(
    "--withhold",
    "withheld",
    multiple=True,
    metavar="OPERATION_ID",
    help="Show nothing of what this operation wrote; its commitment stays in its proof.",
)
def exhibit(
    record_id: str,
    hypothesis: str | None,
    output: Path,
    note_file: IO[bytes] | None,
    vkeys: tuple[str, ...],
    withheld: tuple[str, ...],
) -> None:
    """Write a page about ID that verifies itself in any browser, offline, and prints on A4.

    ID is what `rotulus explain` takes: a belief session with a HYPOTHESIS, an operation, a request,
    an elimination, a source, an authority. The page states the decision, its rule, the words of
    the sources at their place, who did what and when, and what was undone, with a proof of each
    under one signed checkpoint. Whoever has the file needs nothing else to check it but the key of
    the log from somewhere else. It shows the sources' text: withhold what the reader may not see.
    """
    known = tuple(map(_key, vkeys)) or _own_keys()
    with read_view() as view:
        gathered = gather(
            view,
            record_id,
            hypothesis,
            note=newest_note(note_file),
            keys=known,
            withheld=withheld,
        )
        content = page(gathered)
    write_whole(output, content, PUBLIC_MODE)
    echo(
        f"{output}: {len(gathered.proofs)} proofs, {len(content)} bytes,"
        f" fingerprint {page_fingerprint(content)}"
    )


def _own_keys() -> tuple[NoteVerifier, ...]:
    key_file = read_settings().checkpoint_key
    keys = () if key_file is None else verifiers_in(key_file)
    if not keys:
        message = "name the key of the log with --vkey; it was printed when the key was made"
        raise command_error("checkpoint_key_unusable", message)
    return keys


def _key(vkey: str) -> NoteVerifier:
    try:
        return NoteVerifier.of_vkey(vkey)
    except ProofInvalid as error:
        raise command_error("proof_invalid", f"--vkey {vkey!r}: {error}") from None
