"""Runs `rotulus checkpoint`: the head of the log, signed, and published with the tiles as files."""

from functools import partial
from pathlib import Path
from typing import IO, Any

import anyio
import click
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from kernel.proof.checkpoint import Checkpoint
from kernel.proof.signing_keys import (
    KEY_NAME_BYTES_MAX,
    KeyKind,
    is_key_name,
    public_verifier,
)
from kernel.proof.verification import ProofInvalid
from kernel.records.access.readable_view import OF_EVERYTHING, readable_view
from workers.cli.checkpoint_stamp import PEM_BYTES_MAX, stamp, verify_stamp
from workers.cli.checkpoint_verify import policy_of, verify
from workers.cli.common import (
    as_json,
    clean_errors,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import ask_gateway
from workers.cli.input_file import InputFile
from workers.environment.checkpoint_key import create_key, hold_key
from workers.environment.command_key import CommandKey
from workers.environment.ledger_access import ledger_place, read_record
from workers.publication.log_publication import LogPublisher
from workers.publication.witnesses import WitnessClient
from workers.views.checkpoints import what_waits

_FILE = click.Path(path_type=Path, dir_okay=False)
_VKEY = {KeyKind.ED25519: "vkey", KeyKind.ML_DSA_44: "vkey_ml_dsa_44"}


@click.group()
def checkpoint() -> None:
    """Sign the head of the log, so that whoever keeps it finds any later change."""


@checkpoint.command()
@click.argument("file", type=_FILE)
@click.option("--origin", required=True, help="Name of the log, such as example.com/ledger.")
@click.option(
    "--signer",
    "signers",
    type=(InputFile(), str),
    multiple=True,
    metavar="PEM COMMAND",
    help="Instead of making keys: a public key in PEM, and the program that signs with its private"
    " half in a KMS; it reads a message and writes the signature, raw bytes both.",
)
@as_json
def key(
    file: Path, origin: str, signers: tuple[tuple[IO[bytes], str], ...], *, as_json: bool
) -> None:
    """Make the keys of the log ORIGIN in FILE (Ed25519, ML-DSA-44), and print their public halves.

    Keep FILE outside the data folder and its backups. Beside it lies FILE.signed, what was last
    signed; without that nothing is signed. A file that is there is never written over.
    """
    if not is_key_name(origin):
        message = f"a name has neither spaces nor a plus, and at most {KEY_NAME_BYTES_MAX} bytes"
        raise click.BadParameter(message)
    with clean_errors():
        keys = [_command_key(origin, pem.read(PEM_BYTES_MAX), line) for pem, line in signers]
        verifiers = create_key(file, origin, keys)
    vkeys = {_VKEY[verifier.kind]: verifier.vkey for verifier in verifiers}
    print_document({"origin": origin, **vkeys}, as_json=as_json)


@checkpoint.command("publish")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--key", "key_file", type=_FILE, required=True, help="A file of `checkpoint key`.")
@click.option(
    "--every", type=click.IntRange(1, 86_400), help="Go on, and sign every so many seconds."
)
@click.option(
    "--policy",
    "policy_file",
    type=InputFile(),
    help="A file of tlog-policy: its witnesses that have a URL are asked to cosign.",
)
@as_json
def publish_to(
    folder: Path,
    key_file: Path,
    every: int | None,
    policy_file: IO[bytes] | None,
    *,
    as_json: bool,
) -> None:
    """Sign the head of the log and write it to FOLDER with the tiles (C2SP tlog-tiles).

    Reads the ledger by itself. A log that does not go on from what the key last signed, from what
    FOLDER has, or from what a witness has seen is not signed.
    """
    place = ledger_place(read_settings())
    with clean_errors():
        policy = policy_of(policy_file)

    async def publish() -> None:
        read = partial(read_record, place)
        publisher = LogPublisher(read, key_file, folder, WitnessClient(policy))
        try:
            while True:
                published = await publisher.publish()
                document = _document(published.checkpoint.stated)
                document |= read(lambda view: what_waits(readable_view(view, OF_EVERYTHING)))
                print_document(document, as_json=as_json)
                if every is None:
                    return
                await anyio.sleep(every)
        finally:
            await publisher.aclose()

    run(publish)


@checkpoint.command("hand-over")
@click.argument("old", type=_FILE)
@click.argument("new", type=_FILE)
@as_json
def hand_over(old: Path, new: Path, *, as_json: bool) -> None:
    """Hand the log from the keys in OLD over to those in NEW, both files of `checkpoint key`.

    All of them sign it, OLD signs nothing any more, and a running gateway records it on the log.
    Run again it goes on. With `rotulus prove operation ID --with-envelope` whoever has a key of OLD
    follows to those of NEW (`checkpoint verify --handover`).
    """
    settings = read_settings()
    with clean_errors(), hold_key(old) as held, hold_key(new) as successor:
        handover = held.hand_over(successor)
    body = {"handover": handover.document}
    recorded = ask_gateway(gateway_url(settings), "/v1/checkpoint/handovers", body)
    document = {
        "origin": handover.last.origin,
        "tree_size": str(handover.last.size),
        "operation_id": recorded["operation_id"],
        "new_vkeys": [verifier.vkey for verifier in handover.new],
    }
    print_document(document, as_json=as_json)


checkpoint.add_command(stamp)
checkpoint.add_command(verify_stamp)
checkpoint.add_command(verify)


def _command_key(origin: str, pem: bytes, command: str) -> CommandKey:
    """Return the key that a program signs with.

    Raises:
        ProofInvalid: the file has no public key of a kind that signs logs, or names no program.
    """
    try:
        public_key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        public_key = None
    if not isinstance(public_key, Ed25519PublicKey | MLDSA44PublicKey):
        raise ProofInvalid("a public key of Ed25519 or ML-DSA-44 is expected, in PEM")
    return CommandKey.of_command(public_verifier(origin, public_key), command)


def _document(signed: Checkpoint) -> dict[str, Any]:
    root = signed.root.hex()
    return {
        "origin": signed.origin,
        "tree_head": f"{signed.size}:{root}",
        "tree_size": str(signed.size),
        "root_hash": root,
    }
