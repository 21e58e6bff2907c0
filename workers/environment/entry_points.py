"""Loads what distributions add by Python entry points (decision workers/0245).

Names are read without importing anything, so that settings can be checked against them. A
distribution that cannot be loaded, or a name that two claim, ends the start of a process: what it
was to serve would otherwise wait without a word.
"""

import os
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from kernel.values.foreign_code import call_foreign, cause_of

QUEUES: Final = "rotulus.queues"
BINDING_EVALUATORS: Final = "rotulus.binding_evaluators"
EXTRACTORS: Final = "rotulus.extractors"
MODELS: Final = "rotulus.models"
ELIMINATION_STORES: Final = "rotulus.elimination_stores"
APP: Final = "ROTULUS_APP"
"""In place of a group, where a setting names what is loaded."""


class PluginError(Exception):
    """A plug-in that cannot be used; the message names its distribution and its entry point."""

    code = "plugin_invalid"

    def __init__(self, entry: EntryPoint, problem: str) -> None:
        super().__init__(f"{described(entry)}: {problem}")


def described(entry: EntryPoint) -> str:
    """Return how a message names an entry point."""
    if entry.group == APP:
        return f"{APP}={entry.value}"
    distribution = entry.dist
    of = "an unknown distribution"
    if distribution is not None:
        of = f"{distribution.name} {distribution.version}"
    return f"the entry point {entry.name} = {entry.value} ({entry.group}) of {of}"


def plugins_of(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name; imports nothing.

    Raises:
        PluginError: two claim one name.
    """
    by_name: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        first = by_name.setdefault(entry.name, entry)
        if first is not entry:
            raise PluginError(entry, f"the name is claimed by {described(first)} too")
    return by_name


def import_from_current_folder() -> None:
    """Let modules of the current folder be imported; what is installed goes before them.

    A folder of a user may be called as one of ours, which a process imports later.
    """
    folder = os.getcwd()  # noqa: PTH109 - a text, as `sys.path` holds them
    if folder not in sys.path:
        sys.path.append(folder)


def load_plugin(entry: EntryPoint) -> Any:
    """Return what an entry point names.

    Raises:
        PluginError: its import failed, or there is no such thing in it.
    """
    try:
        return call_foreign(entry.load)
    except Exception as error:
        raise PluginError(entry, f"it does not load: {cause_of(error)!r}") from error
