"""A process that migrates a ledger to the revisions of a folder, in children of its own.

    python -m tests.system.migrating_process LEDGER FOLDER

For each line that it reads, a list of statements as JSON, it forks one child for each statement,
lets all of them migrate at once, and prints how each ended and how many revisions it went over. A
child kills itself when it is about to run its statement; there is none that is empty.
"""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kernel.ledger import migrations
from kernel.ledger.postgres import schema as postgres_schema
from kernel.ledger.sqlite import schema as sqlite_schema
from tests.connections import watch_postgres, watch_sqlite


def die_before(statement: str) -> None:
    """Kill this process when it is about to run a statement on a connection of its own."""

    def seen(sql: Any) -> None:
        if sql == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    patch = pytest.MonkeyPatch()
    for watch in (watch_sqlite, watch_postgres):
        watch(patch).before = seen


def migrate_in_child(place: str, statement: str, output: Any) -> int:
    """Return the process id of a child that migrates."""
    pid = os.fork()
    if pid:
        return pid
    die_before(statement)
    if place.startswith("postgresql://"):
        migration = postgres_schema.migrate(place)
    else:
        migration = sqlite_schema.migrate(Path(place))
    output.write(f"{len(migration.revisions)}")
    output.flush()
    os._exit(0)


def main(place: str, folder: str) -> None:
    migrations.VERSIONS = Path(folder)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as answers:
            children = []
            for number, statement in enumerate(json.loads(line)):
                answer = Path(answers) / str(number)
                with answer.open("w") as output:
                    children.append((migrate_in_child(place, statement, output), answer))
            ended = [
                (os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), answer.read_text())
                for pid, answer in children
            ]
        sys.stdout.write(f"{json.dumps(ended)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
