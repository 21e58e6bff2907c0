"""Runs `rotulus checkpoint stamp` and `verify-stamp`: when a checkpoint was there (RFC 3161)."""

from pathlib import Path
from typing import IO

import click

from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.signed_note import NOTE_BYTES_MAX
from workers.cli.common import as_json, clean_errors, print_document, run
from workers.cli.input_file import InputFile
from workers.environment.checkpoint_folder import PUBLIC_MODE, write_whole
from workers.publication.time_stamps import (
    STAMP_BYTES_MAX,
    TimeStamp,
    roots_of,
    time_stamp,
    verify_time_stamp,
)

PEM_BYTES_MAX = 1 << 20

_roots = click.option(
    "--tsa-roots",
    "roots_file",
    type=InputFile(),
    required=True,
    help="Root certificates of the authority, in PEM.",
)


@click.command()
@click.argument("file", type=InputFile())
@click.option("--tsa", "url", required=True, help="URL of a time stamping authority.")
@_roots
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Where to write the stamp, in DER.",
)
@as_json
def stamp(file: IO[bytes], url: str, roots_file: IO[bytes], output: Path, *, as_json: bool) -> None:
    """Have an authority say that the checkpoint in FILE is there now.

    What is stamped are the lines of FILE up to its empty one; `openssl ts -verify` reads the stamp.
    """
    with clean_errors():
        text, roots = _text_of(file), roots_of(roots_file.read(PEM_BYTES_MAX))
    stamped = run(lambda: time_stamp(url, text, roots))
    try:
        write_whole(output, stamped.content, PUBLIC_MODE)
    except OSError as error:
        raise click.ClickException(f"output_unusable: {output}: {error.strerror}") from None
    _print(stamped, as_json=as_json)


@click.command("verify-stamp")
@click.argument("file", type=InputFile())
@click.argument("stamp_file", metavar="STAMP", type=InputFile())
@_roots
@as_json
def verify_stamp(
    file: IO[bytes], stamp_file: IO[bytes], roots_file: IO[bytes], *, as_json: bool
) -> None:
    """Say when an authority has seen the checkpoint in FILE, by the stamp in STAMP.

    The signatures of the checkpoint are for `checkpoint verify`.
    """
    with clean_errors():
        text, roots = _text_of(file), roots_of(roots_file.read(PEM_BYTES_MAX))
        stamped = verify_time_stamp(stamp_file.read(STAMP_BYTES_MAX + 1), text, roots)
    _print(stamped, as_json=as_json)


def _text_of(file: IO[bytes]) -> bytes:
    return SignedCheckpoint.of_bytes(file.read(NOTE_BYTES_MAX + 1)).note.text.encode()


def _print(stamped: TimeStamp, *, as_json: bool) -> None:
    print_document({"stamped_at": stamped.stamped_at.isoformat()}, as_json=as_json)
