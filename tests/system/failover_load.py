"""What producers, sessions, workers and a plug-in's queue ask of a fleet, and what it answered.

Everything that was answered is kept, by its name in the record, and compared with the record that
there is after a failover.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import psycopg

from tests.forked import ForkedProgram
from tests.installed_plugins import install_program
from tests.process_environment import process_environment
from tests.system.gateways import HYPOTHESES, Gateways, RetryingClient, running_gateways, session_id
from tests.workers.api.door import source

TOKEN = "failover-" + "0" * 16
QUEUE = "marks"
PROGRAM = "tests.system.plugged_program"
_PLUGIN = """
from pydantic import BaseModel

from workers.plugins import JobContext, QueuePlugin


class Mark(BaseModel):
    mark_id: str


async def mark(job: JobContext[Mark]) -> dict[str, object]:
    return {"mark_id": job.content.mark_id}


MARKS = QueuePlugin(name="marks", content=Mark, item_key="mark_id", handler=mark, limit_s=30)
"""
_PAUSE_S = 0.05
"""Between two questions of one asker, so that a test waits for faults and not for processors."""

_numbers = count(1)


@dataclass
class Answered:
    """What was answered, each by its name in the record."""

    events: set[tuple[str, str]] = field(default_factory=set)
    """Session and observation of each elimination."""

    operations: dict[int, str] = field(default_factory=dict)
    """Sequence and id of each operation."""

    requests: set[str] = field(default_factory=set)
    outcomes: set[str] = field(default_factory=set)
    """Requests of the plug-in's queue, and those of them whose outcome was told."""

    twice: list[tuple[int, str, str]] = field(default_factory=list)
    """Sequences that were answered for two operations."""

    def note_operation(self, sequence: int, operation_id: str) -> None:
        """Keep an operation's answer."""
        before = self.operations.setdefault(sequence, operation_id)
        if before != operation_id:
            self.twice.append((sequence, before, operation_id))

    def missing(self, database_url: str) -> "Answered":
        """Return what was answered and is not on the record."""
        with psycopg.connect(database_url) as record:
            events = {
                (session, json.loads(content)["payload"].get("observation_id"))
                for session, content in record.execute(
                    "SELECT session_id, event_bytes FROM belief_events"
                )
            }
            operations = dict(
                record.execute("SELECT ec_sequence_number, operation_id FROM kernel_event_log")
            )
            requests = {name for (name,) in record.execute("SELECT request_id FROM outbox")}
            outcomes = {
                name for (name,) in record.execute("SELECT request_id FROM outbox_outcomes")
            }
        return Answered(
            self.events - events,
            {
                sequence: operation_id
                for sequence, operation_id in self.operations.items()
                if operations.get(sequence) != operation_id
            },
            self.requests - requests,
            self.outcomes - outcomes,
        )

    def total(self) -> int:
        """Return how many answers there are."""
        return sum(map(len, (self.events, self.operations, self.requests, self.outcomes)))


class Load:
    """Producers, sessions that eliminate, and jobs of the plug-in's queue, until they are ended."""

    def __init__(self, client: RetryingClient, answered: Answered) -> None:
        self._client, self.answered = client, answered

    async def run(self) -> None:
        """Ask for everything without an end."""
        async with anyio.create_task_group() as tasks:
            for ask in (self._eliminate, self._operate, self._enqueue):
                tasks.start_soon(ask)

    async def wait_until_answered(self, each: int) -> None:
        """Wait until so many more of each kind were answered."""
        wanted = [len(kind) + each for kind in self._kinds()]
        with anyio.fail_after(90):
            while any(len(kind) < least for kind, least in zip(self._kinds(), wanted, strict=True)):
                await anyio.sleep(0.02)

    def _kinds(self) -> tuple[Any, ...]:
        kept = self.answered
        return (kept.events, kept.operations, kept.requests, kept.outcomes)

    async def _eliminate(self) -> None:
        while True:
            session = session_id(next(_numbers))
            await self._client.declare(session)
            for number in range(len(HYPOTHESES) - 1):
                await self._client.eliminate(session, number)
                self.answered.events.add((session, f"o-{number}"))
                await anyio.sleep(_PAUSE_S)

    async def _operate(self) -> None:
        session = session_id(next(_numbers))
        await self._client.declare(session)
        while True:
            body = {"intents": [source(f"n-{next(_numbers)}")]}
            answer = await self._client.ask("POST", f"/v1/sessions/{session}/operations", body)
            [result] = answer["results"]
            self.answered.note_operation(int(result["ec_sequence_number"]), result["operation_id"])
            await anyio.sleep(_PAUSE_S)

    async def _enqueue(self) -> None:
        path = f"/v1/queues/{QUEUE}/requests"
        while True:
            name = f"m-{next(_numbers)}"
            body = {"requests": [{"content": {"mark_id": name}, "request_key": name}]}
            [asked] = (await self._client.ask("POST", path, body))["requests"]
            self.answered.requests.add(asked["request_id"])
            with anyio.fail_after(90):
                while not await self._has_ended(f"{path}/{asked['request_id']}"):
                    await anyio.sleep(_PAUSE_S)
            self.answered.outcomes.add(asked["request_id"])

    async def _has_ended(self, path: str) -> bool:
        job = await self._client.ask("GET", path)
        assert job["state"] in ("open", "completed")
        return bool(job["state"] == "completed")


@contextmanager
def running_fleet(folder: Path, database_url: str) -> Iterator[Gateways]:
    """Hold two gateways and a worker with a plug-in's queue on a database."""
    entries = {"rotulus.queues": f"{QUEUE} = marking:MARKS"}
    plugin = str(install_program(folder / "plugin", "marking", _PLUGIN, entries))
    settings = {"PLUGIN_FOLDER": plugin, "ROTULUS_WORKER_TOKEN": TOKEN}
    with running_gateways(folder, database_url, program=PROGRAM, **settings) as gateways:
        first, second = gateways.pair()
        environment = process_environment() | settings
        environment |= {
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_DATABASE_URL": database_url,
            "ROTULUS_REDIS_URL": gateways.redis.url,
            "ROTULUS_GATEWAY_URL": first.url,
            "ROTULUS_OTHER_GATEWAY_URLS": second.url,
            "ROTULUS_WORKER_QUEUES": QUEUE,
        }
        with ForkedProgram(PROGRAM, ["worker"], environment, folder / "worker.log") as worker:
            yield gateways
            assert worker.poll() is None, (folder / "worker.log").read_text()
