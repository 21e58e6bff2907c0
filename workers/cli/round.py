"""`rotulus round`: rounds of sessions of thoughts on a running gateway (seed 002)."""

from pathlib import Path

import click

from workers.cli.common import as_json, data_dir, gateway_url, print_document, read_settings
from workers.cli.gateway_call import ask_gateway


@click.group()
@data_dir
@click.pass_context
def round(context: click.Context, data_dir: Path | None) -> None:  # noqa: A001 - the command's name
    """Open and seal rounds, and list them."""
    context.obj = data_dir


@round.command("open")
@as_json
@click.pass_obj
def open_round(folder: Path | None, *, as_json: bool) -> None:
    """Open the round behind the newest one, which has to be sealed."""
    url = gateway_url(read_settings(folder))
    print_document(ask_gateway(url, "/v1/rounds/open", {}), as_json=as_json)


@round.command("seal")
@as_json
@click.pass_obj
def seal_round(folder: Path | None, *, as_json: bool) -> None:
    """Seal the open round: its seal holds the root of every session finalized in it."""
    url = gateway_url(read_settings(folder))
    print_document(ask_gateway(url, "/v1/rounds/seal", {}), as_json=as_json)


@round.command("list")
@click.option("--after", type=click.IntRange(0), default=0, help="Behind this number.")
@as_json
@click.pass_obj
def list_rounds(folder: Path | None, after: int, *, as_json: bool) -> None:
    """List rounds with their sessions."""
    url = gateway_url(read_settings(folder))
    print_document(ask_gateway(url, "/v1/rounds", after=after), as_json=as_json)
