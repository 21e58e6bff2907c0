"""A gateway killed in the middle of eliminations: what was answered is there, and nothing grows."""

import anyio
import httpx
import pytest

from kernel.belief.session import BeliefSession
from tests import loopback
from tests.system.gateways import (
    ANSWER_S,
    HYPOTHESES,
    ONTOLOGY,
    elimination,
    running_gateways,
    session_id,
)
from workers.environment.ledger_access import open_record

pytestmark = [pytest.mark.timeout(180), pytest.mark.anyio, pytest.mark.may_block]

SESSIONS = [session_id(number) for number in range(2)]
STREAMS = 4
"""Clients of each session."""

KILLS_AFTER = (200, 600, 300)
"""How many answers each life of the gateway gives: more than a snapshot covers, all in all."""


class Stream:
    """Eliminations of one session, one after the other; what was not answered is asked again."""

    def __init__(self, session: str, number: int) -> None:
        self.session, self.number = session, number
        self.next = 0
        self.answered: dict[str, str] = {}

    def body(self) -> dict[str, object]:
        place = (self.next * STREAMS + self.number) % (len(HYPOTHESES) - 1)
        return elimination(place) | {"observation_id": f"o-{self.number}-{self.next}"}

    async def run(self, url: str, count: list[int], enough: anyio.Event, answers: int) -> None:
        async with loopback.client(base_url=url, timeout=ANSWER_S) as http:
            while not enough.is_set():
                body = self.body()
                path = f"/v1/sessions/{self.session}/eliminate?survivors=0"
                try:
                    response = await http.post(path, json=body)
                except httpx.TransportError:
                    return
                assert response.status_code == 200, response.text
                self.answered[str(body["observation_id"])] = response.json()["audit_event_id"]
                self.next += 1
                count[0] += 1
                if count[0] >= answers:
                    enough.set()


async def declare_all(url: str) -> None:
    async with loopback.client(base_url=url, timeout=ANSWER_S) as http:
        for session in SESSIONS:
            body = {"session_id": session, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
            assert (await http.post("/v1/sessions", json=body)).status_code == 201


async def survivors_of(url: str, session: str) -> list[str]:
    async with loopback.client(base_url=url, timeout=ANSWER_S) as http:
        return (await http.get(f"/v1/sessions/{session}")).json()["survivors"]


async def audit_of(url: str, session: str) -> list[dict[str, object]]:
    events, since = [], None
    async with loopback.client(base_url=url, timeout=ANSWER_S) as http:
        while True:
            parameters = {} if since is None else {"since_event_id": since}
            page = (await http.get(f"/v1/sessions/{session}/audit", params=parameters)).json()
            events += page["events"]
            since = page["next_since_event_id"]
            if since is None:
                return events


async def test_nothing_that_was_answered_is_missing_and_survivors_are_what_the_audit_gives(
    tmp_path,
):
    streams = [Stream(session, number) for session in SESSIONS for number in range(STREAMS)]
    left = {}
    with running_gateways(tmp_path) as gateways:
        for life, answers in enumerate(KILLS_AFTER):
            gateway = gateways.start("a")
            gateway.wait_until_ready()
            if not life:
                await declare_all(gateway.url)
            enough, count = anyio.Event(), [0]
            async with anyio.create_task_group() as tasks:
                for stream in streams:
                    tasks.start_soon(stream.run, gateway.url, count, enough, answers)
                await enough.wait()
                # In the middle of what the others are asking.
                gateway.process.kill()
            gateway.process.wait(10)
            for session in SESSIONS:
                now = set(recorded(gateways.place, session).survivors)
                assert now <= left.setdefault(session, set(HYPOTHESES))
                left[session] = now
        gateway = gateways.start("a")
        gateway.wait_until_ready()
        for session in SESSIONS:
            trail = await audit_of(gateway.url, session)
            by_observation = {
                event["payload"]["observation_id"]: event["event_id"] for event in trail[1:]
            }
            assert len(by_observation) == len(trail) - 1
            for stream in (stream for stream in streams if stream.session == session):
                for observation_id, event_id in stream.answered.items():
                    assert by_observation[observation_id] == event_id
            replayed = recorded(gateways.place, session)
            assert replayed.n_events == len(trail) > 1
            assert await survivors_of(gateway.url, session) == sorted(replayed.survivors)
        gateways.verify()
    assert sum(len(stream.answered) for stream in streams) >= sum(KILLS_AFTER)


def recorded(place, session: str) -> BeliefSession:
    """A session as all of its stored events give it, without any snapshot."""
    with open_record(place) as view:
        return BeliefSession.restore(view.belief_events(session))
