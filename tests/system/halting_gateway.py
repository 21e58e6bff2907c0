"""A gateway that stops itself (SIGSTOP) while it writes a transaction, when a file asks for it.

Run as a program in the place of `python -m workers gateway`. The file is named by `request_of`; it
is removed as the process stops.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from kernel.ledger.postgres.store import PostgresTables
from kernel.ledger.sqlite.store import SqliteTables
from workers.cli.main import main


def request_of(folder: Path, gateway: str) -> Path:
    """Return the file that makes a gateway stop in its next transaction."""
    return folder / f"halt-{gateway}"


def install(requested: Path) -> None:
    """Stop where rows are added: the head is held there, whatever the store."""
    for tables in (PostgresTables, SqliteTables):
        insert_many = tables.insert_many

        def halting(self: Any, *arguments: Any, insert_many: Any = insert_many) -> None:
            if requested.exists():
                requested.unlink()
                # To this thread: one of the others may take a signal of the process later than
                # this one commits.
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            insert_many(self, *arguments)

        tables.insert_many = halting  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    install(request_of(Path(os.environ["ROTULUS_DATA_DIR"]), os.environ["ROTULUS_GATEWAY_ID"]))
    sys.argv = ["rotulus", "gateway"]
    main()
