"""`rotulus submit`: an envelope, put through the kernel by a running gateway."""

from typing import IO, Any
from uuid import UUID

import click

from queues.client.log_proofs import LogProofs
from workers.cli.common import as_json, gateway_url, print_document, read_settings, run
from workers.cli.gateway_call import ask_gateway, patient_client
from workers.cli.input_file import InputFile, read_object
from workers.cli.tree import proof_document


@click.command()
@click.argument("session", type=click.UUID)
@click.argument("file", type=InputFile())
@click.option(
    "--proof",
    is_flag=True,
    help="Have the answer prove that the row is in the log, and verify that.",
)
@as_json
def submit(session: UUID, file: IO[bytes], *, proof: bool, as_json: bool) -> None:
    """Submit the envelope in FILE (JSON, - for standard input) in SESSION.

    It may be submitted again after any failure: its idempotency key makes it take effect once.
    """
    url = gateway_url(read_settings())
    envelope = read_object(file)
    if not proof:
        result = ask_gateway(url, f"/v1/sessions/{session}/envelopes", envelope)
        print_document(result, as_json=as_json)
        return

    async def ask() -> dict[str, Any]:
        async with patient_client(url) as gateway:
            result, inclusion = await LogProofs(gateway).submit(str(session), envelope)
        return result | {"inclusion_proof": proof_document(inclusion)}

    print_document(run(ask), as_json=as_json)
