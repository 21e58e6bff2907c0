"""`rotulus ingest`: dockets into a running gateway."""

import sys
from pathlib import Path
from typing import IO, Any

import click

from workers.cli.common import (
    as_json,
    data_dir,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.clients.gateway import GatewayClient
from workers.demo.ingest import Ingest
from workers.environment.terminal_progress import Progress


@click.command()
@click.argument("file", type=click.File("rb"))
@as_json
@data_dir
def ingest(file: IO[bytes], data_dir: Path | None, *, as_json: bool) -> None:
    """Post the dockets of FILE (JSON Lines, - for standard input) to a running gateway."""
    settings = read_settings(data_dir)

    async def post() -> dict[str, Any]:
        async with GatewayClient(gateway_url(settings)) as client:
            with Progress("ingest") as progress:
                summary = await Ingest(
                    client,
                    lambda now: progress.show(f"{now.dockets} dockets, {now.entries} entries"),
                ).run(file)
        return summary.document()

    document = run(post)
    print_document(document, as_json=as_json)
    sys.exit(1 if document["dockets_failed"] else 0)
