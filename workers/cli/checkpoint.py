"""`rotulus checkpoint`: the head of the log, signed, and published with the tiles as files."""

from pathlib import Path
from threading import Event
from typing import Any

import click

from kernel.proof.checkpoint import Checkpoint
from kernel.proof.signing_keys import KEY_NAME_BYTES_MAX, is_key_name
from kernel.proof.verification import ProofInvalid
from workers.cli.checkpoint_verify import verify
from workers.cli.common import as_json, clean_errors, ledger_dir, print_document, read_settings
from workers.environment.checkpoint_folder import CHECKPOINT, publish
from workers.environment.checkpoint_key import (
    CheckpointKey,
    check_continued,
    create_key,
    held_key,
)
from workers.environment.ledger_access import LedgerPlace, ledger_place, open_record

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def checkpoint() -> None:
    """Sign the head of the log, so that whoever keeps it finds any later change."""


@checkpoint.command()
@click.argument("file", type=_FILE)
@click.option("--origin", required=True, help="Name of the log, such as example.com/ledger.")
@as_json
def key(file: Path, origin: str, *, as_json: bool) -> None:
    """Make the keys of the log ORIGIN in FILE (Ed25519, ML-DSA-44), and print their public halves.

    Keep FILE outside the data folder and its backups. Beside it lies FILE.signed, what was last
    signed; without that nothing is signed. A file that is there is never written over.
    """
    if not is_key_name(origin):
        message = f"a name has neither spaces nor a plus, and at most {KEY_NAME_BYTES_MAX} bytes"
        raise click.BadParameter(message)
    with clean_errors():
        ed25519, ml_dsa_44 = create_key(file, origin)
    document = {"origin": origin, "vkey": ed25519.vkey, "vkey_ml_dsa_44": ml_dsa_44.vkey}
    print_document(document, as_json=as_json)


@checkpoint.command("publish")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--key", "key_file", type=_FILE, required=True, help="A file of `checkpoint key`.")
@click.option("--every", type=click.IntRange(1), help="Go on, and sign every so many seconds.")
@as_json
@ledger_dir
def publish_to(
    data_dir: Path | None, folder: Path, key_file: Path, every: int | None, *, as_json: bool
) -> None:
    """Sign the head of the log and write it to FOLDER with the tiles (C2SP tlog-tiles).

    Reads the ledger by itself. A log that does not go on from what the key last signed, or from
    what FOLDER has, is not signed.
    """
    place = ledger_place(read_settings(data_dir))
    with clean_errors(), held_key(key_file) as held:
        while True:
            print_document(_published(place, folder, held), as_json=as_json)
            if every is None:
                return
            Event().wait(every)


checkpoint.add_command(verify)


def _published(place: LedgerPlace, folder: Path, held: CheckpointKey) -> dict[str, Any]:
    with open_record(place) as view:
        tree = view.log_tree()
        there = _in_folder(folder, held)
        if there is not None:
            check_continued(tree, there)
        note = held.sign(tree).to_bytes()
        try:
            publish(folder, tree, note, published=0 if there is None else there.size)
        except OSError as error:
            raise click.ClickException(f"output_unusable: {folder}: {error.strerror}") from None
    return _document(held.last_signed())


def _in_folder(folder: Path, held: CheckpointKey) -> Checkpoint | None:
    """Return the checkpoint that a folder has."""
    try:
        note = (folder / CHECKPOINT).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise click.ClickException(f"output_unusable: {folder}: {error.strerror}") from None
    try:
        return held.opened(note)
    except ProofInvalid as error:
        message = f"output_unusable: {folder} has the checkpoint of another log or key: {error}"
        raise click.ClickException(message) from None


def _document(signed: Checkpoint) -> dict[str, str]:
    root = signed.root.hex()
    return {
        "origin": signed.origin,
        "tree_head": f"{signed.size}:{root}",
        "tree_size": str(signed.size),
        "root_hash": root,
    }
