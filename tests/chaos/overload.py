"""Offers a fleet ten times what it can do; measures what it refuses, needs, and does in time.

First the run measures how many intents the fleet records in a second while producers wait for their
answers. Then it sends batches at ten times that rate, whether or not earlier ones were answered, up
to a number for which no fleet of this size has places. Meanwhile it asks for critical work, asks
after health, and looks at the memory of every process. A batch without an answer is counted as not
accepted, cut off, or not in time, and the lateness of the sender is reported, because a late sender
is overloaded itself.

One time is asserted, the service target of critical bindings. On a machine where an idle fleet
needs more than a tenth of it, the fleet may take ten times what the idle one needs. The fleet
reaches its servers directly: through the proxies, which live in the process of the tests, each
question to the ledger waited for the sender (critical work took up to 14 s, and 1.3 s without).
"""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx
import psycopg

from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE
from kernel.work.requests import WorkRequest, enqueue
from queues.queue.priorities import priorities_of
from tests import loopback
from tests.bench.mix import ROUND, intent_of
from tests.chaos.fleet import ChaosFleet
from tests.chaos.lean_client import ANSWER_S, LeanAnswer, LeanClient, Unanswered
from tests.chaos.load import session_of
from tests.system.gateways import HYPOTHESES, ONTOLOGY
from workers.environment.ledger_access import open_store
from workers.environment.system_host import system_host

TIMES = 10
SESSIONS = 16
MEASURED_S = 2.0
TICK_S = 0.05
WAITING_MAX = 4096
"""Batches without an answer; twice as many as the fleet has places for, the rest is left out."""

CRITICAL_EACH_S = 0.5
HEALTH_EACH_S = 0.5
HEALTH_S = 20.0
IDLE_S = 2.0
REFUSED = frozenset({429, 503})

_CALLER: Final[Any] = "its-caller"
"""Stands in a batch where the number of its session comes."""


@dataclass
class Overload:
    """What was seen."""

    capacity: float = 0.0
    """Intents in a second, while producers wait for their answers."""

    offered: float = 0.0
    """Intents in a second, in the overload."""

    latest_s: float = 0.0
    """How late a batch was sent at most."""

    statuses: Counter[int] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """By code."""

    unanswered: Counter[str] = field(default_factory=Counter)
    """Batches without an answer, by what they met."""

    refused_without_retry_after: int = 0
    answered_s: dict[str, list[float]] = field(default_factory=dict)
    """Median and longest time of an answer, by status."""

    health_s: list[float] = field(default_factory=list)
    """How long each question after health took, over a new connection."""

    health_unanswered: Counter[str] = field(default_factory=Counter)
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


async def overload(fleet: ChaosFleet, seconds: float) -> Overload:
    """Overload a running fleet for so long, and return what was seen once it has recovered."""
    report = Overload()
    batches = _Batches(fleet)
    try:
        for session in range(SESSIONS):
            await batches.declare(session)
        await _measure(batches, report)
        await _drained(fleet)
        idle: list[str] = []
        with anyio.move_on_after(IDLE_S):
            await _ask_critical(fleet, idle, "idle")
        await _drained(fleet)
        report.rss_before = _rss(fleet)
        request_ids: list[str] = []
        async with anyio.create_task_group() as tasks:
            with anyio.move_on_after(seconds):
                async with anyio.create_task_group() as beside:
                    beside.start_soon(_watch, fleet, report)
                    beside.start_soon(_ask_critical, fleet, request_ids, "critical")
                    for url in fleet.urls.values():
                        beside.start_soon(_ask_health, url, report)
                    await _offer(batches, report, seconds, tasks)
        await _drained(fleet)
        answers = [await batches.post(session, 1) for session in range(SESSIONS)]
        report.accepted_after = sum(answer.status == 200 for answer in answers)
    finally:
        await batches.aclose()
    await _drained(fleet)
    report.critical_idle_s = _times(fleet, idle)
    report.critical_asked, report.critical_s = len(request_ids), _times(fleet, request_ids)
    return report


class _Batches:
    """Batches of a round of intents, each with new keys."""

    def __init__(self, fleet: ChaosFleet) -> None:
        self._clients = [LeanClient(url) for url in fleet.urls.values()]
        self._rounds: Counter[int] = Counter()
        intents = [intent_of(_CALLER, place) for place in range(ROUND)]
        body = {
            "intents": [intent.model_dump(mode="json", exclude_none=True) for intent in intents]
        }
        self._body = json.dumps(body)

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def declare(self, session: int) -> None:
        body = {"session_id": session_of(session), "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
        answer = await self._clients[0].post("/v1/sessions", json.dumps(body).encode())
        assert answer.status == 201, answer

    async def post(self, session: int, gateway: int) -> LeanAnswer:
        """Send the next batch of a session; raises `Unanswered`."""
        number = self._rounds[session]
        self._rounds[session] += 1
        body = self._body.replace(f"{_CALLER}-0", f"{session}-{number}").encode()
        client = self._clients[gateway % len(self._clients)]
        answer = await client.post(f"/v1/sessions/{session_of(session)}/operations", body)
        assert answer.status == 200 or answer.status in REFUSED, answer
        return answer


async def _measure(batches: _Batches, report: Overload) -> None:
    answered = 0

    async def ask(session: int) -> None:
        nonlocal answered
        while True:
            answer = await batches.post(session, session)
            answered += ROUND * (answer.status == 200)

    began_s = time.monotonic()
    with anyio.move_on_after(MEASURED_S):
        async with anyio.create_task_group() as tasks:
            for session in range(SESSIONS):
                tasks.start_soon(ask, session)
    report.capacity = answered / (time.monotonic() - began_s)


async def _offer(
    batches: _Batches, report: Overload, seconds: float, tasks: anyio.abc.TaskGroup
) -> None:
    """Send at the rate, answered or not; what was refused is not sent again."""
    times_s: defaultdict[str, list[float]] = defaultdict(list)

    waiting = 0

    async def send(number: int, due_s: float) -> None:
        nonlocal waiting
        began_s = time.monotonic()
        report.latest_s = max(report.latest_s, began_s - due_s)
        try:
            answer = await batches.post(number % SESSIONS, number // SESSIONS)
        except Unanswered as error:
            report.unanswered[str(error)] += 1
            return
        finally:
            waiting -= 1
        took_s = times_s[str(answer.status)]
        took_s.append(time.monotonic() - began_s)
        report.answered_s[str(answer.status)] = [median(took_s), max(took_s)]
        report.statuses[answer.status] += 1
        if answer.status in REFUSED:
            report.refusals[answer.code] += 1
            report.refused_without_retry_after += not answer.retry_after

    rate = TIMES * report.capacity / ROUND
    began_s, planned, sent = time.monotonic(), 0, 0
    try:
        while (passed_s := time.monotonic() - began_s) < seconds:
            due = int(rate * passed_s)
            for number in range(planned, min(due, planned + WAITING_MAX - waiting)):
                tasks.start_soon(send, number, began_s + number / rate)
                waiting += 1
                sent += 1
            planned = max(planned, due)
            await anyio.sleep(TICK_S)
    finally:
        report.offered = sent * ROUND / (time.monotonic() - began_s)


async def _ask_health(url: str, report: Overload) -> None:
    def ask() -> None:
        began_s = time.monotonic()
        try:
            answer = loopback.get(f"{url}/healthz", timeout=HEALTH_S)
        except httpx.TransportError as error:
            report.health_unanswered[type(error).__name__] += 1
            return
        assert answer.status_code == 200, answer.text
        report.health_s.append(time.monotonic() - began_s)

    while True:
        # On a thread of its own: the loop of this process has enough to do.
        await anyio.to_thread.run_sync(ask)
        await anyio.sleep(HEALTH_EACH_S)


async def _watch(fleet: ChaosFleet, report: Overload) -> None:
    while True:
        for name, size in _rss(fleet).items():
            report.rss_most[name] = max(size, report.rss_most.get(name, 0))
        await anyio.sleep(0.2)


async def _ask_critical(fleet: ChaosFleet, request_ids: list[str], called: str) -> None:
    ledger = Ledger(open_store(fleet.place_of()), system_host())

    def ask() -> str:
        name = f"{called}-{len(request_ids)}"
        content = {"binding_id": name, "source_event_id": name, "capacity_priority": "critical"}
        with ledger.transaction() as transaction:
            [receipt] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, name, content)])
        return receipt.request_id

    try:
        while True:
            request_ids.append(await anyio.to_thread.run_sync(ask))
            await anyio.sleep(CRITICAL_EACH_S)
    finally:
        ledger.close()


async def _drained(fleet: ChaosFleet) -> None:
    with anyio.fail_after(10 * ANSWER_S):
        while await anyio.to_thread.run_sync(fleet.open_requests):
            await anyio.sleep(0.2)


def _times(fleet: ChaosFleet, request_ids: Sequence[str]) -> list[float]:
    with psycopg.connect(fleet.database_url) as connection:
        rows = connection.execute(
            "SELECT (closed_at_us - enqueued_at_us) / 1e6 FROM outbox"
            " JOIN outbox_outcomes USING (request_id)"
            " WHERE request_id = ANY(%s) AND outcome = 'completed'",
            [list(request_ids)],
        )
        return sorted(float(row[0]) for row in rows.fetchall())


def _rss(fleet: ChaosFleet) -> dict[str, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        name: int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * page
        for name, process in fleet.processes.items()
    }


def critical_limit_s(report: Overload) -> float:
    """Return how long critical work may take: its target, on a machine that can keep it at all.

    Whoever overloads takes a core of the same machine. So one that needs a tenth of the target with
    nothing else to do is given ten times as long as that.
    """
    [target_s] = [
        priority.service_target_ms / 1000
        for priority in priorities_of(BINDING_QUEUE)
        if priority.name == "critical"
    ]
    return max(target_s, 10 * max(report.critical_idle_s))


def described(report: Overload) -> str:
    """Return what was seen as JSON."""
    return json.dumps(report.__dict__, indent=1)
