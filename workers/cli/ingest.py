"""`rotulus ingest`: dockets into a running gateway."""

import sys
from functools import partial
from typing import IO, Any

import click

from queues.client.gateway_http import GIVE_UP_AFTER_S
from workers.cli.common import (
    as_json,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import patient_client
from workers.cli.input_file import InputFile, size_of
from workers.demo.ingest import Ingest, show_ingest
from workers.environment.terminal_progress import Progress


@click.command()
@click.argument("file", type=InputFile())
@as_json
def ingest(file: IO[bytes], *, as_json: bool) -> None:
    """Post the dockets of FILE (JSON Lines, - for standard input) to a running gateway.

    Ends with 1 where a docket failed, or no line of FILE holds one.
    """
    settings = read_settings()

    async def post() -> dict[str, Any]:
        async with patient_client(gateway_url(settings), GIVE_UP_AFTER_S) as client:
            with Progress("ingest") as progress:
                show = partial(show_ingest, progress, size_of(file))
                summary = await Ingest(client, show).run(file)
                show(summary)
        return summary.document()

    document = run(post)
    print_document(document, as_json=as_json)
    wholly_bad = document["input_problems"] and not document["dockets"]
    sys.exit(1 if document["dockets_failed"] or wholly_bad else 0)
