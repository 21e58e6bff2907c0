"""Loads what distributions add by Python entry points (decision workers/0245).

Names are read without importing anything, so that settings can be checked against them. A
distribution that cannot be loaded, or a name that two claim, ends the start of a process: what it
was to serve would otherwise wait without a word.
"""

import os
import sys
import traceback
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from kernel.values.foreign_code import call_foreign, cause_of

QUEUES: Final = "rotulus.queues"
BINDING_EVALUATORS: Final = "rotulus.binding_evaluators"
EXTRACTORS: Final = "rotulus.extractors"
MODELS: Final = "rotulus.models"
ELIMINATION_STORES: Final = "rotulus.elimination_stores"
REDACTORS: Final = "rotulus.redactors"
APP: Final = "ROTULUS_APP"
"""In place of a group, where a setting names what is loaded."""


class PluginError(Exception):
    """A plug-in that cannot be used; the message names its distribution and its entry point."""

    code = "plugin_invalid"

    def __init__(self, entry: EntryPoint, problem: str) -> None:
        super().__init__(f"{describe_entry(entry)}: {problem}")


def describe_entry(entry: EntryPoint) -> str:
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
            raise PluginError(entry, f"the name is claimed by {describe_entry(first)} too")
    return by_name


APP_FOLDER: Final = "ROTULUS_APP_FOLDER"
"""Not a setting: a parent names by it the folder of an app that lies elsewhere."""


def import_from_current_folder() -> None:
    """Let modules of the app's folder and the current one be imported, after what is installed.

    A folder of a user may be called as one of ours, which a process imports later.
    """
    app_folder = os.environ.get(APP_FOLDER, "")
    if app_folder:
        # A file that was changed twice within a second looks to Python as what it compiled before.
        sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
    # Texts, as `sys.path` holds them.
    for folder in (app_folder, os.getcwd()):  # noqa: PTH109
        if folder and folder not in sys.path:
            sys.path.append(folder)


def load_plugin(entry: EntryPoint) -> Any:
    """Return what an entry point names.

    Raises:
        PluginError: its import failed, or there is no such thing in it.
    """
    try:
        return call_foreign(entry.load)
    except Exception as error:
        raise PluginError(entry, f"it does not load: {_place_and_cause(error)}") from error


def _place_and_cause(error: Exception) -> str:
    """Return what an import raised, with the line that raised it."""
    cause = cause_of(error)
    frames = traceback.extract_tb(cause.__traceback__)
    place = Path(frames[-1].filename) if frames else Path()
    # Of what is not there, and of what is no Python, the message says where.
    if isinstance(cause, SyntaxError) or not frames or "importlib" in place.parts:
        return repr(cause)
    return f"{cause!r}, {place.name}:{frames[-1].lineno}"
