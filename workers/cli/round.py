"""Runs `rotulus round`: rounds of sessions of thoughts on a running gateway (seed 002)."""

import click

from workers.cli.common import as_json, gateway_url, print_document, read_settings
from workers.cli.gateway_call import ask_gateway
from workers.cli.question_commands import Columns, as_rows, of_gateway, question_command
from workers.questions.thoughts import ListRounds


@click.group()
def round() -> None:  # noqa: A001 - the command's name
    """Open and seal rounds, and list them."""


@round.command("open")
@as_json
def open_round(*, as_json: bool) -> None:
    """Open the round behind the newest one, which has to be sealed."""
    url = gateway_url(read_settings())
    print_document(ask_gateway(url, "/v1/rounds/open", {}), as_json=as_json)


@round.command("seal")
@as_json
def seal_round(*, as_json: bool) -> None:
    """Seal the open round: its seal holds the root of every session finalized in it."""
    url = gateway_url(read_settings())
    print_document(ask_gateway(url, "/v1/rounds/seal", {}), as_json=as_json)


_ROUNDS: Columns = {
    "round": "round_number",
    "state": "state",
    "sessions": "session_count",
    "opened at row": "opened_sequence",
    "sealed at row": "sealed_sequence",
}

round.add_command(question_command(ListRounds, "list", as_rows("rounds", _ROUNDS), of_gateway))
