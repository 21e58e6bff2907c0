"""Runs `rotulus ingest`: dockets into a running gateway."""

import re
import sys
from functools import partial
from typing import BinaryIO

import click

from workers.cli.common import (
    as_json,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.docket_fields import docket_fields
from workers.cli.gateway_call import patient_client
from workers.cli.input_file import InputFile, size_of
from workers.client.gateway_http import GIVE_UP_AFTER_S
from workers.demo.ingest import Ingest, Summary, show_ingest
from workers.demo.source_ingest import SourceIngest, SourceSummary
from workers.dockets import reader
from workers.dockets.field_map import FieldMap
from workers.environment.terminal_progress import Progress

LIMITS = "\b\nLimits:\n" + "\n".join(f"{name}: {limit}" for name, limit in reader.LIMITS)
"""The end of the command's help."""


@click.command(epilog=LIMITS)
@click.argument("file", type=InputFile())
@click.option(
    "--as",
    "shape",
    type=click.Choice(["dockets", "source"]),
    default="dockets",
    show_default=True,
    help="What a line is: a docket, or any JSON, which is taken as a source for bindings.",
)
@click.option(
    "--name", help="With --as source: who the sources are from.  [the file's name, else stdin]"
)
@docket_fields
@as_json
def ingest(
    file: BinaryIO, fields: FieldMap, shape: str, name: str | None, *, as_json: bool
) -> None:
    """Post the dockets of FILE (JSON Lines, - for standard input) to a running gateway.

    A line is one docket as one JSON object; workers/dockets/REFERENCE.md has an example. FILE may
    be in gzip. What is left out is said with its line, its field, what was read and what is
    allowed.

    With --as source a line is any JSON of 64 KiB: a source of the corpus sources:NAME, its text
    wrapped as untrusted. --map source_id=PATH and text=PATH say what names it and what its text is.

    Ends with 1 where a docket failed, no line of FILE holds one, or FILE cannot be read to its end.
    """
    settings = read_settings()
    if shape == "source":
        _ingest_sources(
            file, name or _name_of(file), fields, gateway_url(settings), as_json=as_json
        )
        return

    async def post() -> Summary:
        async with patient_client(gateway_url(settings), GIVE_UP_AFTER_S) as client:
            with Progress("ingest") as progress:
                show = partial(show_ingest, progress, size_of(file))
                summary = await Ingest(client, show, fields).run(file)
                show(summary)
        return summary

    summary = run(post)
    print_document(summary.document(), as_json=as_json)
    sys.exit(1 if summary.is_failed else 0)


def _ingest_sources(
    file: BinaryIO, name: str, fields: FieldMap, url: str, *, as_json: bool
) -> None:
    async def post() -> SourceSummary:
        async with patient_client(url, GIVE_UP_AFTER_S) as client:
            return await SourceIngest(client, name, fields).run(file)

    summary = run(post)
    print_document(summary.document(), as_json=as_json)
    sys.exit(1 if summary.is_failed else 0)


def _name_of(file: BinaryIO) -> str:
    """Return the name of a file as a sender's: without its endings, of the signs that one has."""
    stem = str(getattr(file, "name", "-")).rpartition("/")[2].partition(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]", "-", stem).strip("-")[:128] or "stdin"
