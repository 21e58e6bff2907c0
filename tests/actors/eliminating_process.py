"""A process to kill: eliminates over and over and tells what it was answered."""

import os
import time
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import anyio

from actors.messages import Query
from actors.sessions.runtime import SessionRuntime
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.values.host import Host
from tests.actors.harness import declare, running_sessions, strike


def real_host() -> Host:
    return Host(lambda: time.time_ns() // 1000, os.urandom)


async def eliminate_on(
    sessions: SessionRuntime, session_id: str, n_hypotheses: int, connection: Connection
) -> None:
    names = [f"h{number:05d}" for number in range(n_hypotheses)]
    await sessions.ask(session_id, declare(*names))
    left = (await sessions.ask(session_id, Query()))["survivors"]
    for number in count():
        struck = left[number % len(left)] if left else "nobody"
        message = strike(f"{os.getpid()}:{number}", struck)
        answer = await sessions.ask(session_id, message)
        connection.send((session_id, answer["audit_event_id"], struck))


def eliminate(connection: Connection, path: Path, n_sessions: int, n_hypotheses: int) -> None:
    """Tell the session, the event and the hypothesis of each elimination, until killed."""

    async def run() -> None:
        ledger = Ledger.create(SqliteStore(path), real_host())
        async with running_sessions(ledger) as sessions, anyio.create_task_group() as tasks:
            for number in range(n_sessions):
                tasks.start_soon(eliminate_on, sessions, f"s-{number}", n_hypotheses, connection)

    anyio.run(run)
