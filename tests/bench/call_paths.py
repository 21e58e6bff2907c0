"""How far a reader has to go: functions, files and changes of room on the path of one request.

    python -m tests.bench.call_paths [--functions NAME]

Each path is taken three times through a whole gateway in this process, on SQLite, and the third is
counted. A function counts once, and so does a call between two functions of different rooms (the
dotted package, `kernel.ledger` for example), however often it is made. Library code between them
is passed over. `--functions` lists the functions of a path and who calls each.
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import anyio
import structlog

from kernel.ledger.sqlite.store import SqliteStore
from queues.queue.outbox_relay import OutboxRelay
from queues.queue.work_queue import WorkQueue
from tests.bench.report import note
from tests.extraction_steps import extraction_step
from tests.workers.api.door import SESSION, Door, running_door, source
from workers.dashboard.event_stream import EventStream
from workers.dashboard.hub import SnapshotHub
from workers.environment.system_host import system_host
from workers.gateway.dashboard_source import LiveSource
from workers.worker.attempts import ErrorTexts
from workers.worker.batches import BatchProcessor
from workers.worker.gateway_reports import GatewayReporter
from workers.worker.handlers.extraction import ExtractionHandler
from workers.worker.handlers.extractors import Extractors

ROOT = Path(__file__).parents[2]
PACKAGES = tuple(f"{ROOT / name}/" for name in ("actors", "kernel", "queues", "workers"))
REPETITIONS = 3


@dataclass
class CallPath:
    """The functions of the product that ran, and who called each."""

    callers: dict[CodeType, set[CodeType]] = field(default_factory=dict)
    is_counting: bool = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; for `sys.setprofile`."""
        if not (self.is_counting and event == "call" and _is_ours(frame.f_code)):
            return
        callers = self.callers.setdefault(frame.f_code, set())
        caller = frame.f_back
        while caller is not None and not _is_ours(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            callers.add(caller.f_code)

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.callers}

    @property
    def changes_of_room(self) -> int:
        """Pairs of caller and callee whose rooms differ."""
        return sum(
            _room(caller) != _room(code)
            for code, callers in self.callers.items()
            for caller in callers
        )


def _is_ours(code: CodeType) -> bool:
    is_function = code.co_name[0] != "<" or code.co_name == "<lambda>"
    return is_function and code.co_filename.startswith(PACKAGES)


def _room(code: CodeType) -> tuple[str, ...]:
    return Path(code.co_filename).relative_to(ROOT).parts[:2]


def _named(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}"


async def eliminate(door: Door, number: int) -> None:
    body = {"source_id": "s", "observation_id": f"o-{number}", "eliminated": [f"h-{number}"]}
    assert (await door.post("eliminate", body)).status_code == 200


async def submit(door: Door, number: int) -> None:
    await door.operate(source(f"n-{number}"))


async def drain_an_item(door: Door, number: int) -> None:
    queue = door.services.work.queues["extraction-transition"]
    assert isinstance(queue, WorkQueue)
    content = extraction_step(f"run-{number}")
    path = "/v1/queues/extraction-transition/requests"
    body = {"requests": [{"request_key": f"k-{number}", "content": content}]}
    assert (await door.send(path, body)).is_success
    await _relay_of(door, queue).sweep()
    reporter = GatewayReporter(door.client(), anyio.current_time)
    handler = ExtractionHandler(door.ledger, reporter, Extractors(), ErrorTexts())
    processor = BatchProcessor(queue, handler, reporter, lambda: 0.5)
    claims = await queue.claim(10, 30_000)
    assert len(claims) == 1
    await processor.drain(claims)


def _relay_of(door: Door, queue: WorkQueue) -> OutboxRelay:
    """Return the relay of a door, which has swept before as that of a gateway has."""
    if queue not in _RELAYS:
        _RELAYS[queue] = OutboxRelay(door.ledger, queue, anyio.current_time)
    return _RELAYS[queue]


async def show_a_frame(door: Door, _: int) -> None:
    """One picture of the hub, on its way to one listener."""
    hub = SnapshotHub(LiveSource(door.services, 4), interval_s=0.01)
    left, frames = anyio.Event(), count(1)

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if b"data: " in message.get("body", b"") and next(frames) == REPETITIONS:
            left.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.run)
        await EventStream(hub)({"type": "http"}, receive, send)
        hub.stop()


_RELAYS = WeakKeyDictionary[WorkQueue, OutboxRelay]()

PATHS: dict[str, Callable[[Door, int], Awaitable[None]]] = {
    "elimination": eliminate,
    "operation": submit,
    "queue item": drain_an_item,
    "dashboard frame": show_a_frame,
}


@asynccontextmanager
async def opened_door() -> AsyncIterator[Door]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "ledger.db")
        async with running_door(store, host=system_host(), shards=None) as door:
            await door.declare(SESSION, *(f"h-{number}" for number in range(10)))
            yield door


async def path_of(request: Callable[[Door, int], Awaitable[None]]) -> CallPath:
    """Return the path of a request that was made before."""
    path = CallPath()
    threading.setprofile(path)
    sys.setprofile(path)
    try:
        async with opened_door() as door:
            for number in range(REPETITIONS):
                path.is_counting = number == REPETITIONS - 1
                await request(door, number)
            path.is_counting = False
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", choices=PATHS, help="list the functions of this path")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if options.functions:
        path = anyio.run(path_of, PATHS[options.functions])
        for code, callers in sorted(path.callers.items(), key=lambda row: _named(row[0])):
            note(f"{_named(code)}  <-  {', '.join(sorted(map(_named, callers)))}")
        return
    for name, request in PATHS.items():
        path = anyio.run(path_of, request)
        note(
            f"{name}: {len(path.callers)} functions, {len(path.files)} files, "
            f"{path.changes_of_room} changes of room"
        )


if __name__ == "__main__":
    main()
