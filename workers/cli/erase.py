"""Runs `rotulus erase`: payloads go, what the record says of them stays (P6)."""

import click

from workers.cli.common import as_json, gateway_url, print_document, read_settings
from workers.cli.gateway_call import ask_gateway

reason = click.option("--reason", required=True, help="Why; it is put on the record.")
authority = click.option(
    "--authority", required=True, help="On whose authority; it is put on the record."
)


@click.group()
def erase() -> None:
    """Erase a payload and its salt for good; its commitment and every proof stay.

    A payload under a legal hold is refused. Copies elsewhere, such as backups, stay as they are.
    """


@erase.command()
@click.argument("session_id")
@click.argument("thought_id")
@reason
@authority
@as_json
def thought(
    session_id: str,
    thought_id: str,
    reason: str,
    authority: str,
    *,
    as_json: bool,
) -> None:
    """Erase the content of the thought THOUGHT_ID of the session SESSION_ID."""
    named = {"payload_kind": "thought", "payload_id": thought_id, "session_id": session_id}
    _erase({**named, "reason": reason, "authority": authority}, as_json=as_json)


@erase.command()
@click.argument("recorded_output_id")
@reason
@authority
@as_json
def model_answer(recorded_output_id: str, reason: str, authority: str, *, as_json: bool) -> None:
    """Erase what a model answered in the output RECORDED_OUTPUT_ID."""
    named = {"payload_kind": "model_answer", "payload_id": recorded_output_id}
    _erase({**named, "reason": reason, "authority": authority}, as_json=as_json)


def _erase(body: dict[str, str], *, as_json: bool) -> None:
    url = gateway_url(read_settings())
    print_document(ask_gateway(url, "/v1/erasures", body), as_json=as_json)
