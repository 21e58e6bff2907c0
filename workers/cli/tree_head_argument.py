"""Reads the head of a tree that somebody kept, as an argument or an option."""

import click

from kernel.verify.since import KeptTree


class TreeHeadArgument(click.ParamType[KeptTree]):
    """`SIZE:ROOT`, as commands print it."""

    name = "SIZE:ROOT"

    def convert(
        self, value: str | KeptTree, param: click.Parameter | None, ctx: click.Context | None
    ) -> KeptTree:
        """Return the size and the root."""
        if isinstance(value, KeptTree):
            return value
        try:
            return KeptTree.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
