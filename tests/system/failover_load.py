"""A fleet with a plug-in's queue, and what producers and sessions ask of it all the time.

What they are answered is kept by `answered.py`.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import anyio

from tests.forked import ForkedProgram
from tests.installed_plugins import install_program
from tests.process_environment import process_environment
from tests.system.answered import Answers, Clients
from tests.system.gateways import HYPOTHESES, Gateways, running_gateways

TOKEN = "failover-" + "0" * 16
QUEUE = "marks"
PROGRAM = "tests.system.plugged_program"
ANSWERED_S = 90.0
_PAUSE_S = 0.1
"""Between two questions of one asker, so that a test waits for faults and not for processors."""

_PLUGIN = """
from pydantic import BaseModel

from rotulus import JobContext, QueuePlugin


class Mark(BaseModel):
    mark_id: str


async def mark(job: JobContext[Mark]) -> dict[str, object]:
    return {"mark_id": job.content.mark_id}


MARKS = QueuePlugin(name="marks", content=Mark, item_key="mark_id", handler=mark, limit_s=30)
"""
_numbers = count(1)


class Fleet:
    """Two gateways and a worker, which is started again where it ends."""

    def __init__(self, folder: Path, gateways: Gateways, environment: dict[str, str]) -> None:
        self.database_url = environment["ROTULUS_DATABASE_URL"]
        self.folder = folder
        self.gateways, self.pair = gateways, gateways.pair()
        first, second = self.pair
        self._log = folder / "worker.log"
        self._environment = environment | {
            "ROTULUS_GATEWAY_URL": first.url,
            "ROTULUS_OTHER_GATEWAY_URLS": second.url,
        }
        self.worker = self._started()

    def keep_worker(self) -> None:
        """Start the worker again if it has ended in order, as its service manager does."""
        if (ended := self.worker.poll()) is not None:
            assert ended == 0, self._log.read_text()
            self.worker = self._started()

    def gateway_pids(self) -> list[int]:
        """Return the processes of the gateways, which are all alive."""
        assert all(gateway.process.poll() is None for gateway in self.pair)
        return [gateway.process.pid for gateway in self.pair]

    def wait_until_ready(self) -> None:
        """Wait until both gateways are."""
        for gateway in self.pair:
            gateway.wait_until_ready()

    def _started(self) -> ForkedProgram:
        return ForkedProgram(PROGRAM, ["worker"], self._environment, self._log)


@contextmanager
def running_fleet(folder: Path, database_url: str, **settings: str) -> Iterator[Fleet]:
    """Hold two gateways and a worker with a plug-in's queue on a database."""
    entries = {"rotulus.queues": f"{QUEUE} = marking:MARKS"}
    plugin = str(install_program(folder / "plugin", "marking", _PLUGIN, entries))
    settings |= {"PLUGIN_FOLDER": plugin, "ROTULUS_WORKER_TOKEN": TOKEN}
    with running_gateways(folder, database_url, program=PROGRAM, **settings) as gateways:
        environment = process_environment() | settings
        environment |= {
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_DATABASE_URL": database_url,
            "ROTULUS_REDIS_URL": gateways.redis.url,
            "ROTULUS_WORKER_QUEUES": QUEUE,
        }
        fleet = Fleet(folder, gateways, environment)
        try:
            yield fleet
        finally:
            fleet.worker.kill()
            fleet.worker.wait()


class Load:
    """A producer, a session that eliminates and jobs of the plug-in's queue, without an end."""

    def __init__(self, answers: Answers, fleet: Fleet) -> None:
        self.answers, self._fleet = answers, fleet
        self.clients = Clients(answers, *(gateway.url for gateway in fleet.pair))

    async def run(self) -> None:
        """Ask for everything until the task is cancelled."""
        async with anyio.create_task_group() as tasks:
            for ask in (self._eliminate, self._operate, self._enqueue):
                tasks.start_soon(self._repeat, ask, await self.clients.declare(next(_numbers)))

    async def wait_until_answered(self, each: int) -> None:
        """Wait until so many more of each kind were answered."""
        wanted = [kind + each for kind in self._counts()]
        with anyio.fail_after(ANSWERED_S):
            while any(kind < least for kind, least in zip(self._counts(), wanted, strict=True)):
                self._fleet.keep_worker()
                await anyio.sleep(0.02)

    def _counts(self) -> tuple[int, ...]:
        kept = self.answers
        events = sum(kept.events.values())
        return (events, len(kept.operations), len(kept.requests), len(kept.outcomes))

    async def _repeat(self, ask: Callable[[str], Awaitable[None]], session: str) -> None:
        while True:
            await ask(session)
            await anyio.sleep(_PAUSE_S)

    async def _eliminate(self, session: str) -> None:
        number = 0
        while number < len(HYPOTHESES) - 1:
            number += await self.clients.eliminate(session, number)
            await anyio.sleep(_PAUSE_S)

    async def _operate(self, session: str) -> None:
        name = f"n-{next(_numbers)}"
        while not await self.clients.operate(session, name):
            pass

    async def _enqueue(self, _: str) -> None:
        name = f"m-{next(_numbers)}"
        await self.clients.complete(QUEUE, name, {"mark_id": name})
