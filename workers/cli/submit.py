"""`rotulus submit`: an envelope, put through the kernel by a running gateway."""

from typing import IO, Any
from uuid import UUID

import click
import orjson

from kernel.json_text import RepeatedKey, check_unique_keys
from queues.client.log_proofs import LogProofs
from workers.cli.common import as_json, gateway_url, print_document, read_settings, run
from workers.cli.gateway_call import ask_gateway, patient_client
from workers.cli.tree import proof_document


@click.command()
@click.argument("session", type=click.UUID)
@click.argument("file", type=click.File("rb"))
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
    envelope = _envelope(file.read())
    if not proof:
        result = ask_gateway(url, f"/v1/sessions/{session}/envelopes", envelope)
        print_document(result, as_json=as_json)
        return

    async def ask() -> dict[str, Any]:
        async with patient_client(url) as gateway:
            result, inclusion = await LogProofs(gateway).submit(str(session), envelope)
        return result | {"inclusion_proof": proof_document(inclusion)}

    print_document(run(ask), as_json=as_json)


def _envelope(content: bytes) -> dict[str, Any]:
    try:
        envelope = orjson.loads(content)
        check_unique_keys(content)
    except RepeatedKey as error:
        raise click.ClickException(f"{error.code}: {error}") from None
    except orjson.JSONDecodeError as error:
        raise click.ClickException(f"INVALID_REQUEST: not JSON: {error}") from None
    if not isinstance(envelope, dict):
        raise click.ClickException("INVALID_REQUEST: FILE holds a JSON object")
    return envelope
