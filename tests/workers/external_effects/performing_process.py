"""Performs the effects outside of ledgers in processes that are killed before they record any.

    python -m tests.workers.external_effects.performing_process LEDGER FOLDER [LEDGER FOLDER ...]

Each ledger twice, each time in a process of its own. Ends well when every one of them was killed.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from actors.commit.units import Unit
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import Fence
from kernel.ledger.sqlite import SqliteStore
from tests.actors.eliminating_process import real_host
from workers.external_effects.performer import ExternalEffects

KILLS = 2


class Killed:
    """A writer whose process ends at the moment of the report."""

    async def commit(self, units: Sequence[Unit], _: Fence | None = None) -> list[Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError(units)


async def perform(path: Path, root: Path) -> None:
    ledger = Ledger.create(SqliteStore(path), real_host())
    await ExternalEffects(ledger, Killed(), root, os.urandom, time.monotonic).perform_due()


def perform_and_be_killed(path: Path, root: Path) -> bool:
    child = os.fork()
    if child == 0:
        try:
            anyio.run(perform, path, root)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    places = [Path(argument) for argument in sys.argv[1:]]
    pairs = list(zip(places[::2], places[1::2], strict=True))
    killed = [perform_and_be_killed(*pair) for pair in pairs for _ in range(KILLS)]
    sys.exit(0 if all(killed) else 1)
