"""`rotulus round`: rounds of sessions of thoughts on a running gateway (seed 002)."""

import click

from workers.cli.common import (
    SEQUENCE,
    as_json,
    gateway_url,
    print_document,
    print_table,
    read_settings,
)
from workers.cli.gateway_call import ask_gateway


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


@round.command("list")
@click.option("--after", type=SEQUENCE, default=0, help="Behind this number.")
@as_json
def list_rounds(after: int, *, as_json: bool) -> None:
    """List rounds with their sessions."""
    url = gateway_url(read_settings())
    answer = ask_gateway(url, "/v1/rounds", after=after)
    if as_json:
        print_document(answer, as_json=True)
        return
    names = ("round_number", "state", "session_count", "opened_sequence", "sealed_sequence")
    rows = [["-" if row[name] is None else row[name] for name in names] for row in answer["rounds"]]
    columns = ("round", "state", "sessions", "opened at row", "sealed at row")
    print_table(columns, rows, answer["next_after"])
