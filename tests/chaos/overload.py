"""Ten times as much as a fleet can do: what it refuses, what it needs, what stays in time.

First it is measured how many intents the fleet records in a second while producers wait for their
answers. Then batches are sent at ten times that rate, whether or not those before were answered.
Meanwhile critical work is asked for, and the memory of every process is looked at.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import psycopg

from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE
from kernel.work.requests import WorkRequest, enqueue
from queues.priorities import QUEUES
from tests.bench.mix import ROUND, intent_of
from tests.chaos.fleet import Fleet
from tests.chaos.load import session_of
from tests.system.gateways import HYPOTHESES, ONTOLOGY
from workers.host import system_host
from workers.record import open_store

TIMES = 10
SESSIONS = 16
MEASURED_S = 5.0
TICK_S = 0.05
CRITICAL_EACH_S = 0.5
IDLE_S = 2.0
ANSWER_S = 60.0
REFUSED = frozenset({429, 503})


@dataclass
class Overload:
    """What was seen."""

    capacity: float = 0.0
    """Intents in a second, while producers wait for their answers."""

    offered: float = 0.0
    """Intents in a second, in the overload."""

    statuses: Counter[int] = field(default_factory=Counter)
    refused_without_retry_after: int = 0
    rss_before: dict[str, int] = field(default_factory=dict)
    """Bytes of each process, before the overload."""

    rss_most: dict[str, int] = field(default_factory=dict)
    critical_idle_s: list[float] = field(default_factory=list)
    """From the record of each critical request to that of its outcome, before the overload."""

    critical_asked: int = 0
    critical_s: list[float] = field(default_factory=list)
    """The same, of those that were asked for in the overload."""

    accepted_after: int = 0
    """Batches that were answered at the first asking once it was over, of `SESSIONS`."""


async def overload(fleet: Fleet, seconds: float) -> Overload:
    """Overload a running fleet for so long, and return what was seen once it has recovered."""
    seen = Overload()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    async with httpx.AsyncClient(timeout=ANSWER_S, trust_env=False, limits=limits) as http:
        batches = _Batches(fleet, http)
        for session in range(SESSIONS):
            await batches.declare(session)
        await _measure(batches, seen)
        await _drained(fleet)
        idle: list[str] = []
        with anyio.move_on_after(IDLE_S):
            await _ask_critical(fleet, idle, "idle")
        await _drained(fleet)
        seen.rss_before = _rss(fleet)
        asked: list[str] = []
        async with anyio.create_task_group() as tasks:
            with anyio.move_on_after(seconds):
                async with anyio.create_task_group() as beside:
                    beside.start_soon(_watch, fleet, seen)
                    beside.start_soon(_ask_critical, fleet, asked, "critical")
                    await _offer(batches, seen, seconds, tasks)
        await _drained(fleet)
        answers = [await batches.post(session, 1) for session in range(SESSIONS)]
        seen.accepted_after = sum(one.status_code == 200 for one in answers)
    await _drained(fleet)
    seen.critical_idle_s = _times(fleet, idle)
    seen.critical_asked, seen.critical_s = len(asked), _times(fleet, asked)
    return seen


class _Batches:
    """Batches of a round of intents, each with new keys."""

    def __init__(self, fleet: Fleet, http: httpx.AsyncClient) -> None:
        self._urls = list(fleet.urls.values())
        self._http = http
        self._rounds: Counter[int] = Counter()

    async def declare(self, session: int) -> None:
        body = {"session_id": session_of(session), "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
        response = await self._http.post(f"{self._urls[0]}/v1/sessions", json=body)
        assert response.status_code == 201, response.text

    async def post(self, session: int, gateway: int) -> httpx.Response:
        number = self._rounds[session]
        self._rounds[session] += 1
        intents = [intent_of(session, number * ROUND + place) for place in range(ROUND)]
        body = {"intents": [one.model_dump(mode="json", exclude_none=True) for one in intents]}
        url = f"{self._urls[gateway % len(self._urls)]}/v1/sessions/{session_of(session)}"
        response = await self._http.post(f"{url}/operations", json=body)
        assert response.status_code == 200 or response.status_code in REFUSED, response.text
        return response


async def _measure(batches: _Batches, seen: Overload) -> None:
    answered = 0

    async def ask(session: int) -> None:
        nonlocal answered
        while True:
            response = await batches.post(session, session)
            answered += ROUND * (response.status_code == 200)

    began_s = time.monotonic()
    with anyio.move_on_after(MEASURED_S):
        async with anyio.create_task_group() as tasks:
            for session in range(SESSIONS):
                tasks.start_soon(ask, session)
    seen.capacity = answered / (time.monotonic() - began_s)


async def _offer(
    batches: _Batches, seen: Overload, seconds: float, tasks: anyio.abc.TaskGroup
) -> None:
    """Send at the rate, answered or not; what was refused is not sent again."""

    async def send(number: int) -> None:
        response = await batches.post(number % SESSIONS, number // SESSIONS)
        seen.statuses[response.status_code] += 1
        refused = response.status_code in REFUSED
        seen.refused_without_retry_after += refused and "Retry-After" not in response.headers

    began_s, sent = time.monotonic(), 0
    try:
        while (passed_s := time.monotonic() - began_s) < seconds:
            due = int(TIMES * seen.capacity * passed_s / ROUND)
            for number in range(sent, due):
                tasks.start_soon(send, number)
            sent = max(sent, due)
            await anyio.sleep(TICK_S)
    finally:
        seen.offered = sent * ROUND / (time.monotonic() - began_s)


async def _watch(fleet: Fleet, seen: Overload) -> None:
    while True:
        for name, size in _rss(fleet).items():
            seen.rss_most[name] = max(size, seen.rss_most.get(name, 0))
        await anyio.sleep(0.2)


async def _ask_critical(fleet: Fleet, asked: list[str], called: str) -> None:
    ledger = Ledger(open_store(fleet.proxied_place()), system_host())

    def ask() -> str:
        name = f"{called}-{len(asked)}"
        content = {"binding_id": name, "source_event_id": name, "capacity_priority": "critical"}
        with ledger.transaction() as transaction:
            [one] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, name, content)])
        return one.request_id

    try:
        while True:
            asked.append(await anyio.to_thread.run_sync(ask))
            await anyio.sleep(CRITICAL_EACH_S)
    finally:
        ledger.close()


async def _drained(fleet: Fleet) -> None:
    with anyio.fail_after(10 * ANSWER_S):
        while await anyio.to_thread.run_sync(fleet.open_requests):
            await anyio.sleep(0.2)


def _times(fleet: Fleet, asked: Sequence[str]) -> list[float]:
    with psycopg.connect(fleet.database_url) as connection:
        rows = connection.execute(
            "SELECT (closed_at_us - enqueued_at_us) / 1e6 FROM outbox"
            " JOIN outbox_outcomes USING (request_id)"
            " WHERE request_id = ANY(%s) AND outcome = 'completed'",
            [list(asked)],
        )
        return sorted(float(row[0]) for row in rows.fetchall())


def _rss(fleet: Fleet) -> dict[str, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        name: int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * page
        for name, process in fleet.processes.items()
    }


def critical_limit_s(seen: Overload) -> float:
    """Return how long critical work may take: its target, on a machine that can keep it at all.

    Whoever overloads takes a core of the same machine. So one that needs a tenth of the target with
    nothing else to do is given ten times as long as that.
    """
    [target_s] = [
        one.service_target_ms / 1000 for one in QUEUES[BINDING_QUEUE] if one.name == "critical"
    ]
    return max(target_s, 10 * max(seen.critical_idle_s))


def described(seen: Overload) -> str:
    """Return what was seen as JSON."""
    return json.dumps(seen.__dict__, indent=1)
