"""A process that performs the effects outside of a ledger, and is killed before it records any."""

import os
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio

from actors.commit.units import Unit
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import Fence
from kernel.ledger.sqlite.store import SqliteStore
from tests.actors.eliminating_process import real_host
from workers.external_effects.performer import ExternalEffects


class KilledWriter:
    """A writer whose process ends at the moment of the report."""

    async def commit(self, units: Sequence[Unit], _: Fence | None = None) -> list[Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError(units)


def perform_and_be_killed(_: Connection, path: Path, root: Path) -> None:
    """Perform what is due; what would be committed ends the process."""

    async def perform() -> None:
        ledger = Ledger.create(SqliteStore(path), real_host())
        await ExternalEffects(
            ledger, KilledWriter(), root, os.urandom, time.monotonic
        ).perform_due()

    anyio.run(perform)
