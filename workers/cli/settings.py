"""Runs `rotulus settings`: what can be set."""

import click

from workers.cli.common import as_json, print_document
from workers.environment.output import echo
from workers.environment.settings import settings_table


@click.command()
@as_json
def settings(*, as_json: bool) -> None:
    """List the settings, their defaults and what they mean."""
    rows = settings_table()
    if as_json:
        print_document(
            [{"name": name, "default": default, "meaning": text} for name, default, text in rows],
            as_json=True,
        )
        return
    for name, default, text in rows:
        echo(f"{name}  [{default}]", f"    {text}")
