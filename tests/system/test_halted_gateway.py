"""A gateway that stops inside an open transaction does not keep the others from answering."""

import signal
import time
from pathlib import Path

import anyio
import httpx
import pytest

from tests import loopback
from tests.system import halting_gateway
from tests.system.gateways import (
    LEASE_S,
    RetryingClient,
    database_of,
    elimination,
    on_both,
    running_gateways,
    session_id,
)
from tests.system.halting_gateway import request_of
from tests.wall_clock import hold_at_night

pytestmark = [pytest.mark.timeout(150), pytest.mark.anyio, pytest.mark.may_block]

SESSIONS = 16
MARGIN_S = 3.0


@pytest.fixture
def gateways(request, tmp_path):
    database = database_of(request)
    with running_gateways(tmp_path, database, program=halting_gateway.__name__) as gateways:
        yield gateways
        gateways.verify()


class SteadyLoad:
    """Askers that never wait for each other, one for each session, at one gateway."""

    def __init__(self, gateway):
        self.http = loopback.client(base_url=gateway.url, timeout=60)
        self.outcomes = []
        """When something was answered, and its status."""

        self.answered = {}
        """What was taken, by session."""

    async def ask(self, session):
        for number in range(150):
            path = f"/v1/sessions/{session}/eliminate"
            status = 0
            while status != 200:
                try:
                    response = await self.http.post(path, json=elimination(number))
                except httpx.TransportError:
                    return
                status = response.status_code
                assert status in (200, 429, 503), response.text
                self.outcomes.append((time.monotonic(), status))
                await anyio.sleep(0.02)
            self.answered.setdefault(session, []).append(f"o-{number}")

    def first(self, since_s, *statuses):
        """Seconds until the first such outcome, None while there is none."""
        times = (at - since_s for at, status in self.outcomes if status in statuses)
        return min((after_s for after_s in times if after_s > 0), default=None)


def is_stopped(gateway):
    state = Path(f"/proc/{gateway.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


async def until(condition, seconds=30):
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.01)


@on_both
async def test_who_stops_with_the_head_in_its_hands_stops_nobody_else_for_long(gateways, tmp_path):
    on_a_server = not isinstance(gateways.place, Path)
    halting, other = gateways.pair()
    sessions = [session_id(number) for number in range(SESSIONS)]
    at_halting, at_other = SteadyLoad(halting), SteadyLoad(other)
    async with RetryingClient(halting, other) as client, at_halting.http, at_other.http:
        for session in sessions:
            await client.declare(session)
        async with anyio.create_task_group() as tasks:
            for session in sessions[: SESSIONS // 2]:
                tasks.start_soon(at_halting.ask, session)
            for session in sessions[SESSIONS // 2 :]:
                tasks.start_soon(at_other.ask, session)
            await anyio.sleep(0.5)
            request_of(tmp_path / "data", halting.name).touch()
            await until(lambda: is_stopped(halting))
            stopped_s = time.monotonic()

            # On a server the stopped one is ended; a file cannot be had while its holder lives.
            wanted = (200,) if on_a_server else (200, 429, 503)
            # What had been committed by then is answered first.
            await anyio.sleep(0.3)
            since_s = time.monotonic()
            await until(lambda: at_other.first(since_s, *wanted) is not None)
            waited_s = since_s + at_other.first(since_s, *wanted) - stopped_s
            hold_at_night(waited_s, LEASE_S + MARGIN_S)
            if not on_a_server:
                named = f"process {halting.process.pid} (stopped)"
                await until(lambda: named in other.log.read_text())
                await until(lambda: other.readiness().get("status") == "not ready")
            halting.send(signal.SIGCONT)
            resumed_s = time.monotonic()
            await until(lambda: at_other.first(resumed_s, 200) is not None)
            await until(lambda: at_halting.first(resumed_s, 200, 429, 503) is not None)
            tasks.cancel_scope.cancel()
        for load in (at_halting, at_other):
            for session, answered in load.answered.items():
                trail = await client.trail(session)
                assert trail[: len(answered)] == answered
                assert len(trail) == len(set(trail))
