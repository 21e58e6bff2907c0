"""Declares the options by which a file of somebody's own is read as dockets."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from workers.cli.common import clean_errors
from workers.dockets.field_map import FIELDS, SOURCE_FIELDS, FieldMap


def docket_fields(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the map that its options `--map` and `--default` state."""

    @click.option(
        "--map",
        "paths",
        multiple=True,
        metavar="FIELD=PATH",
        help="Read a field elsewhere: source_id=case.id, or docket_entries.description=text.",
    )
    @click.option(
        "--default",
        "defaults",
        multiple=True,
        metavar="FIELD=VALUE",
        help="What a field is where there is nothing: court_kind=district.",
    )
    @wraps(command)
    def with_fields(
        *arguments: Any, paths: tuple[str, ...], defaults: tuple[str, ...], **options: Any
    ) -> Any:
        names = SOURCE_FIELDS if options.get("shape") == "source" else FIELDS
        with clean_errors():
            fields = FieldMap.of(paths, defaults, names)
        return command(*arguments, fields=fields, **options)

    return with_fields
