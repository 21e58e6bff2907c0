"""Reads the units in `deploy/systemd`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.deploy.processes import DEPLOY, Process

FOLDER: Final = DEPLOY / "systemd"
PROGRAM: Final = "/opt/rotulus/bin/rotulus"

_CREDENTIALS: Final = "/run/credentials"


def instances(folder: Path = FOLDER) -> dict[str, int]:
    """Return the units that the target wants, with the port that each has for its name."""
    wanted = " ".join(text for key, text in settings_in("rotulus.target", folder) if key == "Wants")
    return {name: int(name.partition("@")[2].partition(".")[0]) for name in wanted.split()}


def processes(folder: Path = FOLDER) -> dict[str, Process]:
    """Return the processes of the units that the target wants."""
    return {name: _process(name, port, folder) for name, port in instances(folder).items()}


def settings_in(name: str, folder: Path = FOLDER) -> Iterator[tuple[str, str]]:
    """Yield what the lines of a unit say, in their order."""
    for line in (folder / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            yield key, value


def _process(name: str, port: int, folder: Path) -> Process:
    lines = [*settings_in(re.sub(r"@\d+", "@", name), folder)]
    [command] = [value for key, value in lines if key == "ExecStart"]
    pairs = [value.partition("=") for key, value in lines if key == "Environment"]
    texts = {key: text.replace("%i", str(port)) for key, _, text in pairs}
    credentials = [value.partition(":") for key, value in lines if key == "LoadCredential"]
    files = [value for key, value in lines if key == "EnvironmentFile"]
    known = dict(pair for path in files for pair in settings_in(path.rpartition("/")[2], folder))
    # A line of a unit wins over a file, because it comes later.
    return Process(
        name,
        tuple(command.removeprefix(PROGRAM).split()),
        {**known, **{key: text.replace("%d", _CREDENTIALS) for key, text in texts.items()}},
        frozenset(key for key, _, _ in credentials),
        frozenset({port}),
    )
