"""Runs `rotulus witness`: cosign the checkpoints of logs that only grow (C2SP tlog-witness)."""

from pathlib import Path
from typing import IO

import click

from kernel.proof.signing_keys import KEY_NAME_BYTES_MAX, is_key_name
from kernel.proof.witness_policy import POLICY_BYTES_MAX, WitnessPolicy
from workers.cli.common import as_json, clean_errors, print_document, read_settings, run
from workers.cli.input_file import InputFile
from workers.environment.output import announce
from workers.witness.process import PORT, serve_witness
from workers.witness.witness import create_witness

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def witness() -> None:
    """Cosign checkpoints of other people's logs, each only where it goes on from the last."""


@witness.command()
@click.argument("file", type=_FILE)
@click.option("--name", required=True, help="Name of the witness, such as witness.example/w1.")
@as_json
def key(file: Path, name: str, *, as_json: bool) -> None:
    """Make the keys of the witness NAME in FILE, and print their public halves.

    Beside FILE lies FILE.cosigned, what was cosigned of each log; without that nothing is cosigned.
    A witness that has lost it is given up, and another one made.
    """
    if not is_key_name(name):
        message = f"a name has neither spaces nor a plus, and at most {KEY_NAME_BYTES_MAX} bytes"
        raise click.BadParameter(message)
    with clean_errors():
        ed25519, ml_dsa_44 = create_witness(file, name)
    document = {"name": name, "vkey": ed25519.vkey, "vkey_ml_dsa_44": ml_dsa_44.vkey}
    print_document(document, as_json=as_json)


@witness.command("run")
@click.option("--key", "key_file", type=_FILE, required=True, help="A file of `witness key`.")
@click.option(
    "--logs",
    type=InputFile(),
    required=True,
    help="A file of tlog-policy: a line `log VKEY` for each key of a log, and `quorum none`.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="Port to bind; 0: any free port.",
)
def run_witness(key_file: Path, logs: IO[bytes], port: int) -> None:
    """Serve POST /add-checkpoint at ROTULUS_HOST until SIGTERM or Ctrl-C.

    A log whose keys were handed over is followed where it proves that on itself; --logs stays.
    A log that has signed two histories is refused; the first proof of that stays in FILE.cosigned,
    and `rotulus verify --evidence` judges it.
    """
    settings = read_settings(child=True)
    with clean_errors():
        known = WitnessPolicy.of_bytes(logs.read(POLICY_BYTES_MAX + 1))

    async def serve() -> None:
        await serve_witness(
            settings, key_file, known, port, lambda address: announce(f"witness on {address}")
        )

    run(serve)
